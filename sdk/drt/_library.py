"""A library on disk: list, show, remove, check, export, and its stored sessions.

Needs no model but to repair or rebuild chunk memory; reading and asking are ``_assistant.py``'s.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from . import _convert, _engine
from ._errors import (
    ConfigError,
    LibraryCorruptError,
    LibraryError,
    NotFoundError,
    QuestionError,
    SessionError,
    engine_errors,
    expect_text,
)
from ._filters import filters_of, listed
from ._log import QuestionLog
from ._paths import default_library, delete_upload, named_libraries
from ._salvage import saved_beside
from ._types import (
    Backup,
    DocumentInfo,
    Finding,
    FoundTurn,
    IndexInfo,
    IndexRecall,
    IngestProgress,
    SessionInfo,
    Turn,
    UnreadLibrary,
)

if TYPE_CHECKING:
    from drt_engine.retrieval.filters import Filters
    from drt_engine.runtime import Runtime
    from drt_engine.store import Store
    from drt_engine.store.federation import FederatedStore

    from ._writer.results import WrittenAnswer


class Library:
    """The documents and sessions stored in one folder, or in several that are read as one.

    ``path`` defaults to ``default_library()``. The folder is opened for each call and closed after
    it, so a ``Library`` can be shared by threads and needs no closing. A second writer waits
    ``lock_timeout`` seconds. ``log`` is the file of a ``QuestionLog``, from which forgetting a
    document removes what cites it. Several folders, or a list file made by ``federate``, can be
    read but not changed; conversations are kept in the first. One that cannot be read is left out,
    or with ``require_all`` is an error.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
        *,
        lock_timeout: float = 10.0,
        log: str | os.PathLike[str] | None = None,
        require_all: bool = False,
    ) -> None:
        if path is None:
            self.paths = named_libraries(os.fspath(default_library()))
        elif isinstance(path, str | os.PathLike):
            self.paths = _named([path])
        else:
            self.paths = _named(path)
        if not self.paths:
            raise ConfigError("the list of libraries is empty; name one or more.")
        self.path = self.paths[0]
        self.require_all = require_all
        self.lock_timeout = lock_timeout
        self._log = None if log is None else QuestionLog(log)

    def __repr__(self) -> str:
        return f"Library({self.location!r})"

    @staticmethod
    def federate(
        file: str | os.PathLike[str],
        libraries: Iterable[str | os.PathLike[str]],
        *,
        lock_timeout: float = 10.0,
    ) -> Library:
        """Write a file that lists libraries, to be opened as one; each must be readable.

        Raises ``LibraryError`` where one is not, and ``LibraryModelMismatchError`` where they were
        made with different models. A list in the file is replaced.
        """
        paths = list(map(Path, libraries))
        library = Library(paths, lock_timeout=lock_timeout, require_all=True)
        with library._reading():  # noqa: SLF001  its own class; opening is the test
            pass
        with engine_errors():
            _engine.write_list(Path(file), paths)
        return Library(file, lock_timeout=lock_timeout)

    @property
    def several(self) -> bool:
        """Whether it is several folders, or a list of them, read as one."""
        return len(self.paths) > 1 or _engine.is_list(self.path)

    @property
    def folders(self) -> list[Path]:
        """The folders of the libraries that are read, those that a list names included."""
        with engine_errors():
            return _engine.library_folders(self.paths)

    @property
    def location(self) -> str:
        """The folder, or all folders with the system's separator of paths between them."""
        return os.pathsep.join(map(str, self.paths))

    def expect_one(self) -> None:
        """Raise ``LibraryError`` where several libraries are read as one: none can be changed."""
        if self.several:
            if len(self.paths) == 1:
                _ = self.folders  # raises for a file that is no list of libraries
            raise LibraryError(
                f"{self.location} is several libraries, which are read as one and cannot be"
                " changed; name one of them."
            )

    def exists(self) -> bool:
        """Return whether there is anything at the path, which may not be a library."""
        if self.several:
            return True
        if self.path.is_dir():
            return any(self.path.iterdir())
        return self.path.exists()

    def unread_libraries(self) -> tuple[UnreadLibrary, ...]:
        """Return which of several libraries cannot be read, and why; none where it is one."""
        if not self.several:
            return ()
        with self._reading() as store:
            return cast("FederatedStore", store).unread

    def documents(
        self,
        *,
        tags: str | Iterable[str] = (),
        types: str | Iterable[str] = (),
        since: str | datetime.date | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[DocumentInfo]:
        """Return the documents that can be asked, in order; none if there is no library yet.

        ``tags``, ``types`` and ``since`` are those of ``FilterOptions``: ``NotFoundError`` says
        what there is where they leave no document. At most ``limit`` documents, and those that come
        after the one with the id ``after``; ``NotFoundError`` where there is no such document,
        ``ConfigError`` for a limit below 1.
        """
        if limit is not None and limit < 1:
            raise ConfigError(f"limit is {limit}, expected 1 or more.")
        filters = filters_of({"tags": listed(tags), "types": listed(types), "since": since})
        if not self.exists():
            return []
        with self._reading() as store:
            rows = store.documents()
            if filters is not None:
                left = set(_engine.resolve_scope(store, None, filters).document_ids or ())
                rows = [row for row in rows if row.id in left]
            if after is not None:
                ids = [row.id for row in rows]
                if after not in ids:
                    raise NotFoundError(f"no document has the id {after!r}; list from the start.")
                rows = rows[ids.index(after) + 1 :]
            return [_convert.document(row) for row in rows[:limit]]

    def show(self, document: str | DocumentInfo) -> DocumentInfo:
        """Return one document by id, start of an id, title or source; raises ``NotFoundError``."""
        with self._reading() as store:
            return _convert.document(store.document(document_name(document)))

    def text(self, document: str | DocumentInfo, start: int = 0, end: int | None = None) -> str:
        """Return the text from character ``start`` to ``end``; citations count its characters."""
        with self._reading() as store:
            row = store.document(document_name(document))
            last = row.characters if end is None else min(end, row.characters)
            return store.text(row.id, start, last)

    def changed_files(self, documents: Iterable[str | DocumentInfo]) -> list[str]:
        """Return those sources of documents, given by id, that have changed since they were read.

        Files above 64 MiB and members of archives are not looked at.
        """
        ids = list(dict.fromkeys(map(document_name, documents)))
        with self._reading() as store:
            rows = store.documents_by_id(ids)
            return [row.source for row in rows if _engine.has_changed(store, row)]

    def missing_files(self, documents: Iterable[str | DocumentInfo]) -> list[str]:
        """Return those sources of documents, given by id, whose files are not there any more.

        Those whose folder is not there either are left out: a disk may not be mounted.
        """
        ids = list(dict.fromkeys(map(document_name, documents)))
        with self._reading() as store:
            return [row.source for row in store.documents_by_id(ids) if _engine.is_gone(row)]

    def tag(
        self,
        document: str | DocumentInfo,
        *,
        add: str | Iterable[str] = (),
        remove: str | Iterable[str] = (),
    ) -> DocumentInfo:
        """Give a document tags and take some away; return it.

        A tag has no spaces and no commas, and does not begin with + or -. Raises ``ConfigError``
        for one that has.
        """
        added, removed = listed(add), listed(remove)
        for tag in (*added, *removed):
            expect_text("the tag", tag, ConfigError)
        with self._open() as store:
            row = store.document(document_name(document))
            store.change_tags(row.id, add=added, remove=removed)
            return _convert.document(store.document(row.id))

    def remove(
        self, document: str | DocumentInfo, *, forget: bool = False, undoable: bool = False
    ) -> DocumentInfo:
        """Remove a document and what was stored for it; return what was removed.

        With ``undoable`` it takes its room on the disk until ``compact`` or ``rebuild``, and
        ``undo_remove`` brings it back, unless it is damaged or the disk was too full to keep it.
        With ``forget`` no byte of its text or memory stays in the folder, and stored sessions that
        cite it go with it, and entries of the log; ``LibraryBusyError`` where others keep reading,
        and the rest is deleted when the library is next written to. A call that was interrupted
        can be repeated: the rest is deleted, whether or not the document is still there.
        """
        with self._open() as store:
            name = document_name(document)
            if forget:
                store.finish_forgetting()
            row = store.document_to_forget(name) if forget else store.document(name)
            if forget:
                if self._log is not None:
                    self._log.forget(row.id)
                store.forget_document(row.id)
            else:
                store.remove_document(row.id, undoable=undoable)
            if forget or not undoable:
                delete_upload(self.path, row.source)
            return _convert.document(row)

    def removed(self) -> list[DocumentInfo]:
        """Return the removed documents that ``undo_remove`` can bring back, the last one first."""
        if self.several or not self.exists():
            return []
        with self._open() as store:
            return [_convert.document(row) for row in store.removed_documents()]

    def undo_remove(self, document: str | DocumentInfo) -> DocumentInfo:
        """Bring a removed document back, with its chunk memory and tags, and return it.

        Raises ``NotFoundError`` where it was not kept, or not any more, and ``LibraryError`` where
        its file was read again meanwhile.
        """
        with self._open() as store:
            row = store.removed_document(document_name(document))
            return _convert.document(store.undo_remove(row.id))

    def check(self) -> list[Finding]:
        """Verify every checksum and compare catalogue and files; empty when all is well."""
        try:
            with self._open() as store:
                return store.check()
        except LibraryCorruptError as error:
            return [Finding(kind="catalog", where=str(self.path), message=str(error))]

    def repair(
        self,
        *,
        model: str | os.PathLike[str] = "drt-small-en",
        device: str = "auto",
        threads: int | None = None,
        dtype: str = "auto",
    ) -> list[Finding]:
        """Repair what the library can repair from its own files; return the findings that remain.

        Damaged chunk memory is computed again from the stored text, with the library's model, which
        is loaded only for that. Where the catalogue itself is damaged nothing is changed: all that
        can be saved is saved into a new library beside this one, and the findings say where it is
        and what is missing.
        """
        damage = [finding for finding in self.check() if finding.kind in ("catalog", "setting")]
        if any(finding.severity == "error" for finding in damage):
            load = partial(self._runtime, model, device, threads, dtype)
            return [*damage, *saved_beside(self.path, load, lock_timeout=self.lock_timeout)]
        with self._open() as store:
            findings = store.check()
            needing = store.repair(findings)
        if needing:
            runtime = self._runtime(model, device, threads, dtype)
            with engine_errors(), self._store(runtime) as store:
                _engine.repair(runtime, store, store.check())
        return self.check()

    def compact(self) -> int:
        """Free the space of removed documents and join small files; return the bytes freed."""
        removed = self.removed()
        with self._open() as store:
            before = _size(store.stats())
            store.compact()
            freed = max(before - _size(store.stats()), 0)
        self._delete_uploads(removed)
        return freed

    def _delete_uploads(self, removed: Sequence[DocumentInfo]) -> None:
        """Delete the kept PDFs of documents that cannot be brought back any more."""
        present = {document.source for document in self.documents()} if removed else set()
        for document in removed:
            if document.source not in present:
                delete_upload(self.path, document.source)

    def export_archive(self, path: str | os.PathLike[str]) -> None:
        """Write all documents and sessions to one file; the same library gives the same bytes."""
        with self._open() as store:
            store.export_archive(Path(path))

    def import_archive(self, path: str | os.PathLike[str]) -> list[DocumentInfo]:
        """Import an archive after verifying all of it; return the documents that are new.

        Creates the library if there is none. Raises ``LibraryCorruptError`` for a damaged archive.
        """
        self.expect_one()
        with (
            engine_errors(),
            _engine.make_library(self.path, lock_timeout=self.lock_timeout) as store,
        ):
            rows = store.import_archive(Path(path))
            return [_convert.document(row, new=True) for row in rows]

    def backup(
        self,
        folder: str | os.PathLike[str],
        *,
        earlier: str | os.PathLike[str] | None = None,
        check: bool = True,
    ) -> Backup:
        """Copy the library's folder to a new one, as it is at one moment, while others use it.

        The copy is a library. Files that ``earlier``, a backup on the same disk, has too are linked
        in place of copied. ``check`` verifies every checksum of the copy, which is kept only if it
        is sound: ``LibraryCorruptError`` otherwise.
        """
        self.expect_one()
        self._expect()
        return self._copied(self.path, folder, earlier=earlier, check=check)

    def restore(self, folder: str | os.PathLike[str], *, check: bool = True) -> Backup:
        """Copy a backup to this library's path, where no library may be yet.

        A backup of an older format is brought up to date here and stays as it is there.
        """
        self.expect_one()
        return self._copied(folder, self.path, check=check)

    def _copied(
        self,
        source: str | os.PathLike[str],
        target: str | os.PathLike[str],
        *,
        earlier: str | os.PathLike[str] | None = None,
        check: bool,
    ) -> Backup:
        old = None if earlier is None else Path(earlier)
        with engine_errors():
            return _engine.copy_library(
                Path(source), Path(target), earlier=old, check=check, lock_timeout=self.lock_timeout
            )

    def rebuild(
        self,
        *,
        model: str | os.PathLike[str] = "drt-small-en",
        device: str = "auto",
        threads: int | None = None,
        dtype: str = "auto",
        progress: Callable[[IngestProgress], None] | None = None,
    ) -> list[DocumentInfo]:
        """Read all documents again for another model, from their stored texts; return them.

        The library stays as it is until all are read. An interrupted rebuild is resumed.
        """
        self.expect_one()
        self._expect()
        runtime = self._runtime(model, device, threads, dtype)
        removed = self.removed()
        with engine_errors():
            rows = _engine.rebuild(
                runtime, self.path, lock_timeout=self.lock_timeout, progress=progress
            )
        self._delete_uploads(removed)
        return [_convert.document(row, new=True) for row in rows]

    def make_index(
        self,
        *,
        lists: int | None = None,
        probes: int | None = None,
        threads: int | None = None,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> IndexInfo:
        """Make the approximate index, for libraries so large that scanning all takes too long.

        It groups the chunks into ``lists``, of which a question with ``approximate`` scans
        ``probes``; both follow from the library's size by default. Documents read later are
        scanned in full until the index is made again. ``progress`` is told the step, how many
        chunks are done, and of how many. Raises ``ConfigError`` without FAISS.
        """
        with self._open() as store:
            _engine.set_threads(threads)
            return _engine.make_index(store, _engine.IndexOptions(lists, probes), progress=progress)

    def set_index_probes(self, probes: int) -> None:
        """Set how many lists of the approximate index a question scans, without making it again.

        Raises ``NotFoundError`` where there is none.
        """
        with self._open() as store:
            store.set_index_probes(_engine.IndexOptions(probes=probes).probes or 1)

    def index(self) -> IndexInfo | None:
        """Return what the approximate index is; ``None`` without one."""
        with self._open() as store:
            return store.index.info()

    def remove_index(self) -> bool:
        """Remove the approximate index; return whether there was one."""
        with self._open() as store:
            return store.drop_index()

    def index_recall(
        self,
        *,
        questions: int = 32,
        probes: Sequence[int] = (),
        model: str | os.PathLike[str] = "drt-small-en",
        device: str = "auto",
        threads: int | None = None,
        dtype: str = "auto",
    ) -> list[IndexRecall]:
        """Compare the approximate index with exact scans, asking sentences of the library.

        One row for each number of ``probes``, by default 1, 2, 4 and so on up to all lists.
        """
        self._expect()
        runtime = self._runtime(model, device, threads, dtype)
        with engine_errors(), self._store(runtime) as store:
            return _engine.index_recall(runtime, store, questions=questions, probes=probes)

    def stats(self) -> dict[str, Any]:
        """Return counts and sizes of the library, by name."""
        with self._reading() as store:
            return dict(store.stats())

    def sessions(self) -> list[SessionInfo]:
        """Return the stored sessions; none if there is no library yet."""
        if not self.exists():
            return []
        with self._reading() as store:
            return store.sessions()

    def session_turns(self, name: str) -> tuple[Turn, ...]:
        """Return the turns of a stored session."""
        _expect_name(name)
        with self._reading() as store:
            return _convert.turns(_engine.session_turns(store, name))

    def search_sessions(self, words: str) -> list[FoundTurn]:
        """Return turns of stored sessions that contain all the words, in upper or lower case."""
        if not self.exists():
            return []
        with self._reading() as store:
            return store.search_sessions(words.split())

    def rename_session(self, name: str, new_name: str) -> None:
        """Rename a stored session; the new name must be free."""
        _expect_name(name)
        _expect_name(new_name)
        with self._reading() as store:
            store.rename_session(name, new_name)

    def _add_writing(
        self, name: str, number: int, result: WrittenAnswer, documents: Sequence[str]
    ) -> None:
        """Keep what a writer wrote in turn ``number`` of a stored session."""
        writing = _convert.stored_writing(result.writing, documents)
        with self._reading() as store:
            store.add_writing(name, number, question=result.answer.question, writing=writing)

    def delete_session(self, name: str) -> None:
        """Delete a stored session for good."""
        _expect_name(name)
        with self._reading() as store:
            store.delete_session(name)

    def expect_documents(self) -> None:
        """Raise ``QuestionError`` if there is no document to ask, or no library yet."""
        if not self._has_documents():
            raise QuestionError(
                f"the library at {self.location} holds no documents; read one first with "
                "`drt ingest PATH`."
            )

    def _has_documents(self) -> bool:
        if not self.exists():
            return False
        with self._reading() as store:
            return store.has_documents()

    def _expect_left(self, document_ids: Sequence[str] | None, filters: Filters) -> None:
        """Raise ``NotFoundError`` if filters leave nothing of these documents."""
        with self._reading() as store:
            _engine.resolve_scope(store, document_ids, filters)

    def _expect(self) -> None:
        if not self.exists():
            raise LibraryError(
                f"there is no library at {self.path}; reading a document into it makes one."
            )

    def _runtime(
        self, model: str | os.PathLike[str], device: str, threads: int | None, dtype: str
    ) -> Runtime:
        named = model if isinstance(model, str) else Path(model)
        with engine_errors():
            return _engine.load_runtime(named, device=device, threads=threads, dtype=dtype)

    def _store(self, runtime: Runtime) -> Store:
        return _engine.open_library(self.path, runtime, lock_timeout=self.lock_timeout)

    @contextmanager
    def _reading(self) -> Iterator[Store | FederatedStore]:
        """Yield the library, or several as one, for work that changes no document."""
        with self._federation() if self.several else self._open() as store:
            yield store

    @contextmanager
    def _federation(self) -> Iterator[FederatedStore]:
        """Yield the libraries as one, which may be of one library."""
        with (
            engine_errors(),
            _engine.open_federation(
                self.path,
                self.paths,
                None,
                lock_timeout=self.lock_timeout,
                require_all=self.require_all,
            ) as federation,
        ):
            yield federation

    @contextmanager
    def _open(self) -> Iterator[Store]:
        self.expect_one()
        self._expect()
        with (
            engine_errors(),
            _engine.open_catalogue(self.path, lock_timeout=self.lock_timeout) as store,
        ):
            yield store


def _named(paths: Iterable[str | os.PathLike[str]]) -> tuple[Path, ...]:
    """Return paths that name something: "" would be the current folder, which nobody named."""
    names = [os.fspath(path) for path in paths]
    if "" in names:
        raise ConfigError("the path of a library is empty; name its folder.")
    return tuple(map(Path, names))


def _expect_name(name: str) -> None:
    expect_text("the name of a conversation", name, SessionError)


def _size(stats: dict[str, Any]) -> int:
    return sum(int(stats[f"{part}_bytes"]) for part in ("catalog", "segment", "removed"))


def document_name(document: str | DocumentInfo) -> str:
    """Return the name to look a document up by."""
    return document.id if isinstance(document, DocumentInfo) else document
