"""Libraries with an actor beside each, opened and asked like a federation, which may be of one.

An actor that does not answer leaves its library out of one answer; the next question asks it, or
another actor in its place, again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from drt_engine.cluster.shard_actors import ShardActors
from drt_engine.cluster.view import ClusterView, ShardsUnavailable
from drt_engine.cluster.word_tables import WordTables
from drt_engine.errors import LibraryUnavailable, StoreError
from drt_engine.results import UnreadLibrary
from drt_engine.store import Store
from drt_engine.store.federation import FederatedStore
from drt_engine.store.federation.shard import Shard
from drt_engine.store.federation.shard_state import shard_state
from drt_engine.store.federation.store import Opener
from drt_engine.store.federation.view import FederatedView
from drt_engine.store.view import LibraryView


class ClusterStore(FederatedStore):
    """Open libraries and their actors; make one with ``connect``, close it or use it in a block."""

    def __init__(
        self,
        path: Path,
        folders: Sequence[Path],
        open_one: Opener,
        actors: ShardActors,
        *,
        require_all: bool = False,
    ) -> None:
        super().__init__(path, folders, open_one, require_all=require_all)
        self._actors = actors
        self._words = WordTables(actors)
        # Without an answer to the last question, and to be left out when it is asked again.
        self._absent: dict[Path, str] = {}
        self._absent_next: dict[Path, str] = {}
        self._is_opening = False  # a snapshot, which is without those of the last question

    @classmethod
    def connect(
        cls,
        path: Path,
        folders: Sequence[Path],
        open_one: Opener,
        actors: ShardActors,
        *,
        require_all: bool = False,
    ) -> ClusterStore:
        """Open the libraries in ``folders`` here and in their actors, as ``FederatedStore.open``.

        Raises ConfigError where an actor cannot run or has another drt. The actors are closed with
        the store.
        """
        store = cls(path, folders, open_one, actors, require_all=require_all)
        try:
            store._open_missing()
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        """Close all libraries, end the actors and leave the cluster."""
        super().close()
        self._words.close()
        self._actors.close()

    @property
    def unread(self) -> tuple[UnreadLibrary, ...]:
        """The libraries that are left out, in order, and why."""
        reasons = {entry.library: entry.reason for entry in super().unread}
        absent = self._absent_next or self._absent
        reasons |= {str(path): reason for path, reason in absent.items()}
        return tuple(
            UnreadLibrary(str(path), reasons[str(path)])
            for path in self._stores
            if str(path) in reasons
        )

    def begin_question(self) -> None:
        """Ask all libraries again, also those that have had no answer to the last question."""
        self._absent_next = {}

    def leave_out(self, error: LibraryUnavailable) -> None:
        """Go on without libraries whose actors had no answer, for one question; or raise."""
        if not isinstance(error, ShardsUnavailable):
            super().leave_out(error)
            return
        if self._require_all:
            raise error
        self._absent_next = self._absent | error.reasons
        if not any(path not in self._absent_next for path, _ in super()._opened()):
            self._absent_next = {}
            raise StoreError(
                f"none of the {len(self._stores)} libraries has an answer; of the first: {error}"
            ) from error

    @contextmanager
    def snapshot(self) -> Iterator[LibraryView]:
        """Yield the libraries as they are now, but for those that have just had no answer."""
        self._absent, self._absent_next = self._absent_next, {}
        with ExitStack() as stack:
            self._is_opening = True
            try:
                view = stack.enter_context(super().snapshot())
            finally:
                self._is_opening = False
            yield view

    def _frozen(self, shards: Sequence[Shard], home: LibraryView | None) -> FederatedView:
        states = {}
        for shard in shards:
            with shard.reading() as view:
                states[shard.path] = shard_state(view.catalog)
        self._words.refresh(states)
        return ClusterView(
            self.path, shards, home, actors=self._actors, words=self._words, states=states
        )

    def _opened(self) -> Iterator[tuple[Path, Store]]:
        left_out = self._absent if self._is_opening else self._absent_next
        return ((path, store) for path, store in super()._opened() if path not in left_out)

    def _open_missing(self) -> None:
        super()._open_missing()
        paths = [path for path, _ in self._opened() if not self._actors.has(path)]
        for path, reason in self._actors.open(paths).items():
            self._drop(path, StoreError(reason))
        self._expect_some()

    def _drop(self, path: Path, error: StoreError) -> None:
        self._actors.drop(path)
        super()._drop(path, error)
