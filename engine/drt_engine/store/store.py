"""A library on disk: opens it, and is the only way to write to it.

Ties catalogue, segments and the writer's lock together. Knows nothing of models, files to read, or
prompts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drt_engine.errors import (
    CorruptStore,
    FingerprintMismatch,
    LockTimeout,
    NotFound,
    StorageFull,
    StoreError,
)
from drt_engine.results import Finding
from drt_engine.store.catalogue.database import Database
from drt_engine.store.catalogue.document_rows import VOCABULARY
from drt_engine.store.catalogue.row_values import now, put_setting
from drt_engine.store.filesystem import library_folder
from drt_engine.store.filesystem.disk import DISK, Disk
from drt_engine.store.filesystem.lock import WriterLock
from drt_engine.store.filesystem.preparation import prepare_folder
from drt_engine.store.index import upkeep
from drt_engine.store.index.probe import NO_INDEX
from drt_engine.store.segments import landmark_files
from drt_engine.store.segments.open_files import drop_deleted_files
from drt_engine.store.types import Blocks, DocumentRow, RecordLayout, SegmentRow
from drt_engine.store.upkeep import check, compaction, rebuild_swap, repair
from drt_engine.store.upkeep.orphans import clear_orphans
from drt_engine.store.view import LibraryView, Memory
from drt_engine.store.write_session import WriteSession

if TYPE_CHECKING:
    from drt_engine.store.index.writer import IndexPlan
    from drt_engine.store.segments.writer import DocumentWriter
    from drt_engine.store.types import ChunkBatch


class Store(LibraryView):
    """An open library; make one with ``Store.open``, close it or use it as a context manager."""

    def __init__(
        self, path: Path, *, lock_timeout: float, disk: Disk, vocabulary: int | None = None
    ) -> None:
        folder = library_folder.Folder(path, disk=disk, timeout=lock_timeout)
        self._lock = WriterLock(path / library_folder.LOCK_NAME, timeout=lock_timeout)
        database = Database(path / library_folder.CATALOG_NAME, timeout=lock_timeout, disk=disk)
        database.prepare(self._lock)
        super().__init__(folder, database, Memory(folder), vocabulary=vocabulary)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        fingerprint: str | None = None,
        layout: RecordLayout | None = None,
        vocabulary: int | None = None,
        create: bool = False,
        lock_timeout: float = 10.0,
        disk: Disk = DISK,
    ) -> Store:
        """Open the library at ``path``, or make it with ``create``.

        Without a fingerprint it can be listed and checked by any program. A library takes the
        first fingerprint and layout it is opened with under ``create``; from then on others raise
        FingerprintMismatch. Raises StoreError for a folder that is not a library, CorruptStore for
        a broken one, LockTimeout when another process keeps the catalogue busy. ``vocabulary`` is
        how many token ids the model has; chunks with others are refused then.
        """
        if sys.byteorder != "little":
            raise StoreError("a library's numbers are little-endian: use a little-endian machine")
        path = Path(path)
        with library_folder.file_errors(path):
            library_folder.expect_plain(path)
            prepare_folder(path, create=create, disk=disk)
            store = cls(path, lock_timeout=lock_timeout, disk=disk, vocabulary=vocabulary)
        try:
            store._bind(fingerprint, layout, create=create)
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        """Close the catalogue; tensors that were handed out stay valid."""
        self._memory.close()
        self._database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    # settings

    def set_setting(self, key: str, value: str) -> None:
        """Write a setting."""
        self._catalog.set_setting(key, value)

    # documents

    def rename_source(
        self, document_id: str, source: str, *, moved: bool = True, copies: Sequence[str] = ()
    ) -> None:
        """Set a document's source; another document with that source is removed.

        Or goes to the first of ``copies`` at which its text was read, too. The old source is a copy
        from then on, unless the file was ``moved``.
        """
        with self._writing():
            files = self._catalog.rename_source(document_id, source, moved=moved, copies=copies)
            self._folder.delete(files)

    def set_blocks(self, document_id: str, blocks: Sequence[Blocks]) -> None:
        """Set the block tree of a document that was read before the library kept them; NotFound."""
        with self._writing():
            self._catalog.set_blocks(document_id, blocks)

    def set_author_and_date(self, document_id: str, author: str, date: str) -> None:
        """Set what a document names as its author and date; NotFound."""
        with self._writing():
            self._catalog.set_author_and_date(document_id, author, date)

    def change_tags(
        self, document_id: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """Give a document tags and take some away; return those it has then.

        Raises NotFound, and ConfigError for what cannot be a tag.
        """
        with self._writing():
            return self._catalog.change_tags(document_id, add=add, remove=remove)

    def note_source(self, path: str, digest: str, document: str) -> None:
        """Remember the digest of a file's bytes, so that the same bytes are not parsed again."""
        self._catalog.note_source(path, digest, document)

    def begin_document(
        self,
        *,
        document_id: str,
        title: str,
        source: str,
        media_type: str,
        author: str = "",
        date: str = "",
    ) -> DocumentWriter:
        """Start or resume reading a document, holding the writer's lock until it is closed.

        ``author`` and ``date`` are what the document names, empty where it names none.
        Raises LockTimeout, and StoreError when the document is in the library already.
        """
        from drt_engine.store.segments.writer import DocumentWriter

        layout = self._required_layout()
        self._acquire()
        try:
            self._expect_bound_model()
            if self._bound_vocabulary is not None and self.get_setting(VOCABULARY) is None:
                self.set_setting(VOCABULARY, str(self._bound_vocabulary))
            writer = DocumentWriter(
                self._catalog, self._folder, layout=layout, release=self._lock.release
            )
            return writer.begin(
                document_id,
                title,
                source=source,
                media_type=media_type,
                author=author,
                date=date,
            )
        except BaseException:
            self._lock.release()
            raise

    def remove_document(self, document_id: str, *, undoable: bool = False) -> bool:
        """Remove a document, partial ones too, and its files; NotFound, LockTimeout.

        With ``undoable`` its archive is kept until the library is compacted or rebuilt, unless it
        is damaged or the disk has no room; return whether it is.
        """
        # Imported late, as for exports.
        from drt_engine.store.transfer import removed

        with self._writing() as session:
            is_kept = undoable and removed.keep_removed(session, document_id)
            try:
                session.remove_document(document_id)
            except StorageFull:
                self._memory.close()  # what is open has its room until it is closed
                is_kept = is_kept and not removed.forget_removed(self._folder, document_id)
                session.remove_document(document_id)
        return is_kept

    def removed_documents(self) -> list[DocumentRow]:
        """Return the documents that can be brought back, those removed last first."""
        from drt_engine.store.transfer import removed

        return removed.removed_documents(self, self._folder)

    def removed_document(self, name: str) -> DocumentRow:
        """Return the removed document with this id, title or source; NotFound."""
        from drt_engine.store.transfer import removed

        return removed.removed_document(self, self._folder, name)

    def document_to_forget(self, name: str) -> DocumentRow:
        """Return the document that a name means, one that was removed where no other has it."""
        try:
            return self.document(name)
        except NotFound:
            with contextlib.suppress(NotFound):
                return self.removed_document(name)
            raise

    def undo_remove(self, document_id: str) -> DocumentRow:
        """Bring a removed document back; NotFound, CorruptStore.

        Raises StoreError where its source was read again meanwhile.
        """
        from drt_engine.store.transfer import removed

        with self._writing() as session:
            return removed.bring_back(session, document_id)

    def forget_document(self, document_id: str) -> list[str]:
        """Remove a document so that no byte of its text or memory stays in the library's folder.

        One that was removed before can be forgotten, too. Sessions that cite it go with it; returns
        their names. Raises NotFound, and LockTimeout when others keep reading: then it is removed,
        and the next writer deletes what is left.
        """
        from drt_engine.store.transfer import removed

        with self._writing() as session:
            forgotten: list[str] = []
            self._memory.close()
            remove_rows = partial(
                compaction.remove_to_forget,
                self._catalog,
                self._sessions,
                forgotten=forgotten,
                was_removed=removed.is_kept(self._folder, document_id),
            )
            session.remove_document(document_id, remove_rows)
            self._folder.leftovers = True  # until all of it is done
            self._forget()
        return forgotten

    def finish_forgetting(self) -> None:
        """Delete the last bytes of what a process that was ended was to forget; LockTimeout."""
        with self._writing():
            if self.get_setting(compaction.FORGETTING) is not None:
                self._forget()

    def _forget(self) -> None:
        """Delete the last bytes of removed documents, those of an unfinished rebuild included."""
        from drt_engine.store.transfer import removed

        document_id = self.get_setting(compaction.FORGETTING)
        if document_id:
            removed.forget_removed(self._folder, document_id)
        if rebuild_swap.is_there(self._folder):
            inner = self.path / library_folder.REBUILD_NAME
            try:
                with Store.open(inner, lock_timeout=self._folder.readers.timeout) as fresh:
                    present = fresh.documents() + fresh.partial_documents()
                    for row in rebuild_swap.outdated(present, self.documents()):
                        with contextlib.suppress(NotFound):  # the rebuild has removed it
                            fresh.forget_document(row.id)
            except LockTimeout as error:
                raise LockTimeout(
                    f"the library at {self.path} is being rebuilt: what is to be forgotten is"
                    " removed, and its bytes go with the next writing command"
                ) from error
            except CorruptStore:
                rebuild_swap.clear(self._folder)  # it can be read again
        compaction.forget(self._catalog, self._folder, self.layout)
        drop_deleted_files(self.path)

    def replace_segment(self, row: SegmentRow, batch: ChunkBatch) -> bool:
        """Write a segment's memory anew, for the chunks it has; False when it is gone meanwhile."""
        from drt_engine.store.segments.writer import replaced_segment

        with self._writing():
            layout = self._required_layout()
            self._expect_bound_model()
            upkeep.drop_index(self._catalog, self._folder)  # which repeats its landmarks
            return replaced_segment(
                self._catalog, self._folder, row=row, batch=batch, layout=layout
            )

    # sessions

    def save_session(
        self,
        name: str,
        *,
        transcript: list[dict[str, Any]],
        meta: dict[str, Any],
        state: bytes,
        stored_turns: int | None = None,
        elsewhere: Collection[str] = (),
    ) -> None:
        """Write or overwrite a session; SessionError where what it quotes was removed.

        ``stored_turns``: those that it goes on from; SessionError where others are stored.
        ``elsewhere``: documents that are looked for in no library.
        """
        self._sessions.save(
            name,
            transcript=transcript,
            meta=meta,
            state=state,
            stored_turns=stored_turns,
            elsewhere=elsewhere,
        )

    def add_writing(
        self,
        name: str,
        number: int,
        *,
        question: str,
        writing: dict[str, Any],
        elsewhere: Collection[str] = (),
    ) -> None:
        """Add what a writer wrote to a session's turn, and touch nothing else; NotFound."""
        self._sessions.add_writing(
            name, number, question=question, writing=writing, elsewhere=elsewhere
        )

    def rename_session(self, name: str, new_name: str) -> None:
        """Rename a session; NotFound, or SessionError when the new name is taken."""
        self._sessions.rename(name, new_name)

    def delete_session(self, name: str) -> None:
        """Delete a session; NotFound."""
        self._sessions.delete(name)

    # the whole

    def compact(self) -> None:
        """Join small segments, give freed space back and rewrite the catalogue; LockTimeout.

        Documents that were removed cannot be brought back afterwards.
        """
        from drt_engine.store.transfer import removed

        with self._writing():
            removed.clear_removed(self._folder)
            compaction.compact(self._catalog, self._folder, self.layout)

    def export_archive(self, target: Path) -> None:
        """Write documents and sessions to one file whose bytes depend on nothing else.

        An older file at ``target`` is replaced when the new one is whole. Raises CorruptStore when
        a record fails its checksum, StorageFull.
        """
        # Imported late: it brings hashlib, which listing need not wait for.
        from drt_engine.store.transfer import archive_export

        with self.snapshot() as view:
            archive_export.export_archive(view, Path(target), disk=self._folder.disk)

    def import_archive(self, source: Path) -> list[DocumentRow]:
        """Take over an archive's documents and sessions; returns the documents that are new here.

        The whole archive is verified before anything is taken over. Raises CorruptStore for a
        damaged one, FingerprintMismatch for one of another model, SessionError for a name in use.
        """
        from drt_engine.store.transfer import archive_import

        with self._writing() as session:
            return archive_import.import_archive(session, Path(source))

    def make_index(self, view: LibraryView, plan: IndexPlan, *, probes: int) -> None:
        """Write the approximate index of a snapshot; a question scans ``probes`` of its lists.

        Raises FingerprintMismatch, LockTimeout, StorageFull.
        """
        with self._writing():
            landmarks = view.scan_landmarks
            upkeep.make_index(self._catalog, self._folder, landmarks, plan, probes=probes)

    def clear_leftovers(self) -> None:
        """Delete the files that no row names; those that readers may need stay."""
        with self._writing():  # which begins with that
            pass

    def set_index_probes(self, probes: int) -> None:
        """Set how many lists of the approximate index a question scans, at most all.

        Raises NotFound without one, CorruptStore.
        """
        with self._writing():
            index = self.index.open()
            if index is None:
                raise NotFound(NO_INDEX)
            row, file = index
            row = dataclasses.replace(row, probes=min(probes, file.header.lists))
            self._catalog.set_index_row(row)

    def drop_index(self) -> bool:
        """Remove the approximate index; return whether there was one."""
        with self._writing():
            return upkeep.drop_index(self._catalog, self._folder)

    def check(self) -> list[Finding]:
        """Return everything that is wrong, every chunk's checksum included.

        Empty when all is well.
        """
        try:
            layout, vocabulary = self.layout, self.vocabulary
        except CorruptStore as error:
            return [Finding("catalog", library_folder.CATALOG_NAME, str(error))]
        with self.snapshot() as view:
            findings = view.check_contents(layout=layout, vocabulary=vocabulary)
        return findings + check.check_search_index(self._catalog)

    def repair(self, findings: Sequence[Finding]) -> list[SegmentRow]:
        """Restore what needs no model: search index, landmark files, leftover files.

        Returns the segments whose chunk memory must be read again from the kept text.
        """
        with self._writing():
            self._memory.close()
            return repair.repair_library(
                self._catalog, self._folder, list(findings), layout=self.layout
            )

    @contextlib.contextmanager
    def rebuilding(self, fingerprint: str, layout: RecordLayout) -> Iterator[Store]:
        """Yield a library inside this one, to read its documents into again for another model.

        What an interrupted rebuild for the same model left is there already.
        """
        inner = self.path / library_folder.REBUILD_NAME
        timeout = self._folder.readers.timeout
        with library_folder.file_errors(self.path):
            was_interrupted = inner.is_dir()
        if was_interrupted:
            with Store.open(inner, create=True, lock_timeout=timeout) as interrupted:
                is_other_model = interrupted.fingerprint not in (None, fingerprint)
                shared_names = interrupted.file_names() & self.file_names()
            if is_other_model or shared_names:
                rebuild_swap.clear(self._folder)
        with Store.open(
            inner, fingerprint=fingerprint, layout=layout, create=True, lock_timeout=timeout
        ) as fresh:
            yield fresh

    def remove_outdated(self, view: LibraryView) -> None:
        """Remove from a library made by ``rebuilding`` what the outer one no longer has."""
        present = self.documents() + self.partial_documents()
        for row in rebuild_swap.outdated(present, view.documents()):
            with contextlib.suppress(NotFound):  # forgotten by another process meanwhile
                self.remove_document(row.id)

    def swap_in_rebuilt(self) -> bool:
        """Replace all documents atomically with those read by ``rebuilding``.

        False where documents came meanwhile that must be read first; nothing is changed then.
        Documents that were removed meanwhile stay removed.
        """
        from drt_engine.store.transfer import removed

        with self._writing():
            self._memory.close()
            if not rebuild_swap.swap_in_rebuilt(self._catalog, self._folder):
                return False
            removed.clear_removed(self._folder)  # of the older model
            upkeep.drop_index(self._catalog, self._folder)
            landmark_files.consolidate_landmark_files(
                self._catalog, self._folder, self._required_layout()
            )
        return True

    # inside

    def _bind(self, fingerprint: str | None, layout: RecordLayout | None, *, create: bool) -> None:
        if create and self.get_setting("created") is None:
            self.set_setting("created", now())
        if fingerprint is None:
            return
        current = self.fingerprint
        if current is None and create and layout is not None:
            self._claim(fingerprint, layout)
            current = self.fingerprint
        if current is not None and current != fingerprint:
            raise FingerprintMismatch(self._mismatch(f"fingerprint {current}", fingerprint))
        current_layout = self.layout
        if layout is None or current_layout is None or current_layout == layout:
            pass
        elif dataclasses.replace(current_layout, encoding=layout.encoding) == layout:
            raise FingerprintMismatch(
                f"the library at {self.path} keeps its chunk memory as"
                f" {current_layout.encoding}, expected {layout.encoding}: open it with"
                f" records={current_layout.encoding!r}, or read the documents again into another"
                " library"
            )
        else:
            raise FingerprintMismatch(self._mismatch(str(current_layout), str(layout)))
        self._bound = current

    def _expect_bound_model(self) -> None:
        """Refuse to write another model's memory into a library that was rebuilt meanwhile."""
        if self._bound is not None and self.fingerprint != self._bound:
            raise FingerprintMismatch(
                f"the library at {self.path} was rebuilt for another model meanwhile: open it again"
            )

    def _claim(self, fingerprint: str, layout: RecordLayout) -> None:
        # looked up again inside: of two processes that open a new library, the first one wins
        values = {"fingerprint": fingerprint, "layout": json.dumps(dataclasses.asdict(layout))}
        with self._database.transaction() as connection:
            if (
                connection.execute("SELECT 1 FROM settings WHERE key = 'fingerprint'").fetchone()
                is None
            ):
                for key, value in values.items():
                    put_setting(connection, key, value)

    def _mismatch(self, current: str, expected: str) -> str:
        model = self.get_setting("model")
        by = f"model {model} ({current})" if model else current
        return (
            f"the library at {self.path} was made with {by}, this model has {expected}: use the"
            " model it was made with, or read the documents again into another library with"
            " `drt --library DIR ingest PATH...`"
        )

    def _acquire(self) -> None:
        with library_folder.file_errors(self.path):
            first = self._lock.acquire()
            try:
                if first:
                    self._memory.drop_deleted()
                    self._tidy()
            except BaseException:
                self._lock.release()
                raise

    def _tidy(self) -> None:
        """Delete what killed writers left, once, and what readers kept from being deleted."""
        if self._folder.leftovers:
            clear_orphans(self._catalog, self._folder)
            if self.get_setting(compaction.FORGETTING) is not None:
                with contextlib.suppress(LockTimeout):
                    self._forget()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[WriteSession]:
        self._acquire()
        try:
            yield WriteSession(self, self._catalog, self._folder, self._sessions)
        finally:
            self._lock.release()
