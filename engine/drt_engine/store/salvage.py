"""Saves what can be saved of a library whose catalogue is damaged into a new one beside it.

The old library stays as it is. Texts come from its catalogue, from the copy that an operation left
(``backup.db``) and from a rebuild under way; chunk memory from its segments where their checksums
are right. Knows no model: documents whose memory is lost are for the caller to read again.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from drt_engine.errors import ConfigError, CorruptStore, StoreError
from drt_engine.results import Finding
from drt_engine.store.catalogue.damaged import DamagedCatalogue, DocumentRemains
from drt_engine.store.filesystem import library_folder
from drt_engine.store.segments.appender import Appender
from drt_engine.store.segments.format import MAX_SEGMENT_CHUNKS, SegmentHeader
from drt_engine.store.segments.records import chunk_lengths, copied_segment
from drt_engine.store.store import Store
from drt_engine.store.types import RecordLayout, SessionRow

_SETTINGS = ("fingerprint", "layout", "model", "vocabulary")


@dataclass
class Salvage:
    """What was saved into ``target``, and what was not."""

    target: Path
    documents: list[str] = field(default_factory=list)  # ids of those that are whole
    sessions: list[str] = field(default_factory=list)
    unread: list[DocumentRemains] = field(default_factory=list)  # texts without chunk memory
    lost: list[Finding] = field(default_factory=list)

    def summary(self) -> Finding:
        """Return what was saved, and where, as a note; an error where nothing was."""
        if not self.documents and not self.sessions:
            return Finding("saved", str(self.target.name), "nothing was left to be saved")
        return Finding(
            "saved",
            str(self.target),
            f"{len(self.documents)} documents and {len(self.sessions)} conversations were saved"
            " here; use it with --library, and keep the old folder until all is there",
            "note",
        )

    def note_unread(self, reason: str) -> None:
        """Say why documents whose text is left are not in the new library."""
        for document in self.unread:
            message = f"its text is left, but it could not be read again: {reason}"
            self.lost.append(Finding("lost", document.name, message))


def free_name(path: Path) -> Path:
    """Return a name beside a library that nothing has yet."""
    names = (path.with_name(f"{path.name}-saved{end}") for end in ("", *map(str, range(2, 1_000))))
    return next(name for name in names if not name.exists())


def salvage(path: Path, target: Path, *, lock_timeout: float) -> Salvage:
    """Save what needs no model; raises StoreError where ``target`` cannot be written to.

    Documents whose text is there but not their memory are in ``unread``.
    """
    result = Salvage(target)
    folder = library_folder.Folder(path, timeout=lock_timeout)
    with contextlib.ExitStack() as stack:
        with library_folder.file_errors(path):
            library_folder.expect_plain(path)
            stack.enter_context(folder.readers.shared())
        with _open_target(path, target, lock_timeout) as store:
            remains: dict[str, DocumentRemains] = {}  # of those that are not saved
            sessions: dict[str, SessionRow] = {}
            for file in _catalogues(path):
                with _opened(file, lock_timeout) as catalogue:
                    for document in catalogue.documents() if catalogue else ():
                        _take(store, folder, document, remains=remains, result=result)
                    for session in catalogue.sessions() if catalogue else ():
                        sessions.setdefault(session.name, session)
            _sort_remains(store, remains, result)
            _save_sessions(store, sessions, result)
        _note_unknown_segments(folder, {*remains, *result.documents}, result)
    if not (result.documents or result.sessions or result.unread):
        shutil.rmtree(target)
    return result


def _catalogues(path: Path) -> list[Path]:
    """Return the files that may hold rows, the best first."""
    rebuild = path / library_folder.REBUILD_NAME / library_folder.CATALOG_NAME
    files = [path / library_folder.CATALOG_NAME, path / library_folder.BACKUP_NAME, rebuild]
    return [file for file in files if file.is_file() and file.stat().st_size]


@contextlib.contextmanager
def _opened(file: Path, timeout: float) -> Iterator[DamagedCatalogue | None]:
    """Yield an open catalogue, or nothing where SQLite finds none in the file."""
    try:
        catalogue = DamagedCatalogue(file, timeout=timeout)
    except (sqlite3.Error, OSError):
        yield None
        return
    try:
        yield catalogue
    finally:
        catalogue.close()


def _open_target(path: Path, target: Path, timeout: float) -> Store:
    """Return a new library with the settings of the old one, as far as they can be read."""
    settings: dict[str, str] = {}
    for file in _catalogues(path):
        if file.parent == path and "fingerprint" not in settings:  # a rebuild has another model
            with _opened(file, timeout) as catalogue:
                settings = catalogue.settings() if catalogue else {}
    try:
        layout = RecordLayout(**json.loads(settings["layout"]))
    except (KeyError, ValueError, TypeError, ConfigError):
        return Store.open(target, create=True, lock_timeout=timeout)
    fingerprint = settings.get("fingerprint")
    store = Store.open(
        target, fingerprint=fingerprint, layout=layout, create=True, lock_timeout=timeout
    )
    for key in _SETTINGS:
        if key in settings:
            store.set_setting(key, settings[key])
    return store


def _take(
    store: Store,
    folder: library_folder.Folder,
    document: DocumentRemains,
    *,
    remains: dict[str, DocumentRemains],
    result: Salvage,
) -> None:
    """Save a document with its memory, or remember the best text that there is of it."""
    document_id = document.row.id
    if store.document_by_id(document_id) or store.document_at(document.row.source):
        return  # or an older version of it, in a copy
    if document.is_whole and document.is_ready and _saved(store, folder, document):
        remains.pop(document_id, None)
        result.documents.append(document_id)
        if not document.is_described:
            message = "its pages, its sections and the places in its file are lost"
            result.lost.append(Finding("lost", document.name, message, "note"))
        return
    best = remains.setdefault(document_id, document)
    if (document.is_whole, len(document.chunks)) > (best.is_whole, len(best.chunks)):
        remains[document_id] = document


def _saved(store: Store, folder: library_folder.Folder, document: DocumentRemains) -> bool:
    """Return whether a document's memory is whole, and the document in the new library now."""
    layout = store.layout
    if layout is None or store.fingerprint is None:
        return False
    row, total = document.row, len(document.chunks)
    with store._writing() as session:  # noqa: SLF001  of the same room
        appender = Appender(session.catalog, session.folder, layout=layout).begin(
            row.id, row.title, source=row.source, media_type=row.media_type,
            author=row.author, date=row.date,
        )  # fmt: skip
        try:
            for first in range(0, total, MAX_SEGMENT_CHUNKS):
                part = slice(first, min(first + MAX_SEGMENT_CHUNKS, total))
                header = SegmentHeader(layout, row.id, first, part.stop - first)
                data = copied_segment(folder, document.segments, header)
                if data is None or chunk_lengths(data, header) != document.lengths[part]:
                    raise CorruptStore(f"segments of {row.id} are missing")
                appender.store_segment(
                    header, data, texts=document.chunks[part], lengths=document.lengths[part]
                )
            appender.finish(
                places=document.places, origins=document.origins, created=row.created or None
            )
        except (CorruptStore, ValueError):
            session.remove_document(row.id)
            return False
        finally:
            appender.close()
        if row.tags:
            session.catalog.change_tags(row.id, add=row.tags)
    return True


def _sort_remains(store: Store, remains: dict[str, DocumentRemains], result: Salvage) -> None:
    """Leave what has a text for the caller to read again; say what has none."""
    for document in remains.values():
        if store.document_at(document.row.source):
            continue  # a version of it that is whole
        if not document.is_ready:
            message = "it had not been read to its end: read its file again"
            result.lost.append(Finding("lost", document.name, message, "note"))
        elif document.chunks:
            result.unread.append(document)
        else:
            message = "no text of it is left: read its file again"
            result.lost.append(Finding("lost", document.name, message))


def _save_sessions(store: Store, sessions: dict[str, SessionRow], result: Salvage) -> None:
    with store._writing() as session:  # noqa: SLF001  of the same room
        for row in sessions.values():
            try:
                session.sessions.put(row)
            except (StoreError, ValueError, TypeError) as error:
                result.lost.append(Finding("lost", f"conversation {row.name!r}", str(error)))
                continue
            result.sessions.append(row.name)


def _note_unknown_segments(
    folder: library_folder.Folder, known_ids: set[str], result: Salvage
) -> None:
    """Name the documents of which only chunk memory is left, which has no text in it."""
    with library_folder.file_errors(folder.path):
        names = folder.orphans(()) if folder.segments.is_dir() else []
    ids = {name.partition("-")[0] for name in names if name.endswith(library_folder.SEGMENT_SUFFIX)}
    for document_id in sorted(ids - known_ids):
        message = "only its chunk memory is left, without a text: read its file again"
        result.lost.append(Finding("lost", f"document {document_id}", message))
