"""Several open libraries as one: opens each, goes on without one that fails, and says which.

Documents and indexes are only read here. Conversations are kept in the first library.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from drt_engine.errors import FingerprintMismatch, LibraryUnavailable, NotFound, StoreError
from drt_engine.results import UnreadLibrary
from drt_engine.store.federation.membership import Membership
from drt_engine.store.federation.shard import Shard
from drt_engine.store.federation.view import FederatedView, numbered_shards
from drt_engine.store.store import Store
from drt_engine.store.turns import quoted_documents, read_documents
from drt_engine.store.types import DocumentRow
from drt_engine.store.view import LibraryView

Opener = Callable[[Path], Store]


class FederatedStore(FederatedView):
    """Open libraries, in order; make one with ``open``, close it or use it as a context manager.

    Without ``require_all`` those that cannot be read are left out: ``unread`` lists them. One that
    could not be opened is tried again with each snapshot.
    """

    def __init__(
        self, path: Path, folders: Sequence[Path], open_one: Opener, *, require_all: bool
    ) -> None:
        super().__init__(path, (), None)
        self._open_one = open_one
        self._require_all = require_all
        self._stores: dict[Path, Store | None] = dict.fromkeys(folders)
        self._reasons: dict[Path, str] = {}
        self._failed: set[Path] = set()  # opened, and damaged inside
        self._members = Membership()

    @classmethod
    def open(
        cls, path: Path, folders: Sequence[Path], open_one: Opener, *, require_all: bool = False
    ) -> FederatedStore:
        """Open the libraries in ``folders``; ``path`` is what the whole is called in messages.

        Raises FingerprintMismatch where they were made with different models, and what opening
        raises where none, or with ``require_all`` one, cannot be opened.
        """
        federation = cls(path, folders, open_one, require_all=require_all)
        try:
            federation._open_missing()
        except BaseException:
            federation.close()
            raise
        return federation

    def close(self) -> None:
        """Close all libraries; tensors that were handed out stay valid."""
        for store in self._stores.values():
            if store is not None:
                store.close()

    def __enter__(self) -> FederatedStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"FederatedStore({[str(path) for path in self._stores]})"

    @property
    def unread(self) -> tuple[UnreadLibrary, ...]:
        """The libraries that are left out, in order, and why."""
        return tuple(
            UnreadLibrary(str(path), self._reasons[path])
            for path, store in self._stores.items()
            if store is None
        )

    def document(self, name: str) -> DocumentRow:
        """Return a document as a view does; where none has the name, say what was not looked in."""
        try:
            return super().document(name)
        except NotFound as error:
            read = {str(shard.path) for shard in self.shards}
            unread = ", ".join(e.library for e in self.unread if e.library not in read)
            if not unread:
                raise
            raise NotFound(f"{error}; not looked for in {unread}, which cannot be read") from error

    def begin_question(self) -> None:
        """Do nothing: what a question could not read, the next one cannot, either."""

    def leave_out(self, error: LibraryUnavailable) -> None:
        """Go on without a library that turned out to be damaged; raise where it is needed."""
        assert error.path is not None
        self._failed.add(error.path)
        self._drop(error.path, error)
        self._expect_some()

    @property
    def shards(self) -> Sequence[Shard]:
        """The libraries as they are now, in order."""
        stores: list[tuple[Path, LibraryView]] = list(self._opened())
        return numbered_shards(stores, self._members)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[LibraryView]:
        """Yield the libraries as they are now, until the block ends, whatever writers do.

        Raises LibraryUnavailable where one turns out to be damaged.
        """
        self._open_missing()
        with contextlib.ExitStack() as stack:
            views: list[tuple[Path, LibraryView]] = []
            for path, store in list(self._opened()):
                try:
                    views.append((path, stack.enter_context(store.snapshot())))
                except FingerprintMismatch:
                    raise
                except StoreError as error:
                    self._drop(path, error)
            self._expect_some()
            home = dict(views).get(next(iter(self._stores)))
            yield self._frozen(numbered_shards(views, self._members), home)

    # sessions

    def save_session(
        self,
        name: str,
        *,
        transcript: list[dict[str, Any]],
        meta: dict[str, Any],
        state: bytes,
        stored_turns: int | None = None,
    ) -> None:
        """Write or overwrite a session in the first library; SessionError as there."""
        quoted = quoted_documents(transcript)
        for turn in transcript:
            quoted |= dict.fromkeys(read_documents(turn.get("writing")) - quoted.keys(), "")
        self._home_store().save_session(
            name,
            transcript=transcript,
            meta=meta,
            state=state,
            stored_turns=stored_turns,
            elsewhere=self._elsewhere(quoted),
        )

    def add_writing(
        self, name: str, number: int, *, question: str, writing: dict[str, Any]
    ) -> None:
        """Add what a writer wrote to a turn of a session of the first library."""
        documents = self._elsewhere(dict.fromkeys(read_documents(writing), ""))
        self._home_store().add_writing(
            name, number, question=question, writing=writing, elsewhere=documents
        )

    def rename_session(self, name: str, new_name: str) -> None:
        """Rename a session of the first library."""
        self._home_store().rename_session(name, new_name)

    def delete_session(self, name: str) -> None:
        """Delete a session of the first library."""
        self._home_store().delete_session(name)

    # inside

    def _elsewhere(self, documents: Mapping[str, str]) -> set[str]:
        """Return those documents that another library has than the first, or their sources."""
        home = self._home_store()
        other_stores = [store for _, store in self._opened() if store is not home]
        return {
            document_id
            for document_id, source in documents.items()
            if any(
                store.document_by_id(document_id) or (source and store.document_at(source))
                for store in other_stores
            )
        }

    def _frozen(self, shards: Sequence[Shard], home: LibraryView | None) -> FederatedView:
        """Return the view of a snapshot."""
        return FederatedView(self.path, shards, home)

    def _opened(self) -> Iterator[tuple[Path, Store]]:
        return ((path, store) for path, store in self._stores.items() if store is not None)

    def _open_missing(self) -> None:
        for path, store in self._stores.items():
            if store is not None or path in self._failed:
                continue
            try:
                self._stores[path] = self._open_one(path)
            except FingerprintMismatch:
                raise
            except StoreError as error:
                self._drop(path, error)
        self._expect_some()
        self._expect_one_model()

    def _drop(self, path: Path, error: StoreError) -> None:
        store, self._stores[path] = self._stores[path], None
        self._reasons[path] = str(error)
        if store is not None:
            store.close()
        if self._require_all:
            raise error

    def _expect_some(self) -> None:
        if not any(self._opened()):
            reason = self.unread[0].reason if self._stores else "there is none"
            raise StoreError(
                f"none of the {len(self._stores)} libraries can be read; of the first: {reason}"
            )

    def _expect_one_model(self) -> None:
        """Raise FingerprintMismatch where libraries were made with different models."""
        made_with: dict[str, Path] = {}
        for path, store in self._opened():
            if store.fingerprint is not None:
                made_with.setdefault(f"{store.fingerprint} {store.layout}", path)
        if len(made_with) > 1:
            first, second, *_ = made_with.values()
            raise FingerprintMismatch(
                f"the libraries at {first} and {second} were made with different models, expected"
                " one: ask each by itself, or read the documents of one again for the other's"
                " model with `drt library rebuild`"
            )

    def _home_store(self) -> Store:
        self._expected_home()
        store = next(iter(self._stores.values()))
        assert store is not None
        return store

    def _expected_home(self) -> LibraryView:
        self._home = next(iter(self._stores.values()))
        return super()._expected_home()
