"""Documents that were removed and can be brought back: an archive of each in ``removed/``.

They stay until the library is compacted or rebuilt. Runs under the writer's lock, but for listing.
Knows nothing of tensors.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from drt_engine.errors import CorruptStore, NotFound, StorageFull, StoreError
from drt_engine.store.catalogue.document_rows import document_named
from drt_engine.store.filesystem.disk import TEMPORARY_SUFFIX, not_plain
from drt_engine.store.filesystem.library_folder import REMOVED_NAME, Folder, file_errors
from drt_engine.store.transfer.archive_export import write_document
from drt_engine.store.transfer.archive_import import import_archive
from drt_engine.store.transfer.archive_reader import About, read_archive
from drt_engine.store.types import DocumentRow
from drt_engine.store.view import LibraryView
from drt_engine.store.write_session import WriteSession

_SUFFIX = ".drtlib"


def keep_removed(session: WriteSession, document_id: str) -> bool:
    """Write a document that is about to be removed to its archive; return whether it is kept.

    It is not where the disk has no room or the document is damaged or was not read to its end.
    """
    view, folder = session.library, session.folder
    row = view.document_by_id(document_id)
    if row is None:
        return False
    digests = session.catalog.digests(row.id)
    place = folder.path / REMOVED_NAME
    try:
        with file_errors(folder.path):
            place.mkdir(mode=0o700, exist_ok=True)
            folder.disk.sync_folder(folder.path)
            _delete(folder, TEMPORARY_SUFFIX)  # of a removal that was killed
            archive = _archive(folder, row.id)
            write_document(view, row, archive, disk=folder.disk, digests=digests)
    except (StorageFull, CorruptStore):
        return False
    return True


def removed_documents(view: LibraryView, folder: Folder) -> list[DocumentRow]:
    """Return the documents that can be brought back, those removed last first."""
    rows: list[tuple[int, DocumentRow]] = []
    for path in _archives(folder, _SUFFIX):
        with contextlib.suppress(StoreError, OSError):  # damaged, or gone meanwhile
            rows.append((path.stat().st_mtime_ns, _described(path)[1]))
    present = {row.id for row in view.documents_by_id([row.id for _, row in rows])}
    return [row for _, row in sorted(rows, reverse=True) if row.id not in present]


def removed_document(view: LibraryView, folder: Folder, name: str) -> DocumentRow:
    """Return the removed document with this id, title or source; NotFound."""
    rows = removed_documents(view, folder)
    if not rows:
        raise NotFound(
            f"no removed document {name!r}: none can be brought back, since `drt library compact`"
            " and `--forget` delete them for good"
        )
    exact = next((row for row in rows if row.id == name), None)
    return exact or document_named(name, rows, lambda _: ())


def bring_back(session: WriteSession, document_id: str) -> DocumentRow:
    """Import a removed document again, verified as a whole, and delete its archive.

    Raises NotFound, CorruptStore, and StoreError where its source was read anew meanwhile.
    """
    path = _archive(session.folder, document_id)
    _expect_regular(path, document_id)
    about, row = _described(path)
    newer_row = session.library.document_at(row.source)
    if newer_row is not None and newer_row.id != row.id:
        raise StoreError(
            f"{row.source} was read again after {row.id} was removed: remove {newer_row.id} first"
            " to bring the older text back"
        )
    import_archive(session, path)
    session.catalog.note_digests(about.digests, row.id)
    restored = session.library.document_by_id(row.id)
    assert restored is not None
    forget_removed(session.folder, document_id)
    return restored


def is_kept(folder: Folder, document_id: str) -> bool:
    """Return whether there is an archive of a removed document."""
    return _archive(folder, document_id).is_file()


def forget_removed(folder: Folder, document_id: str) -> bool:
    """Delete the archive of a document; return whether there was one."""
    return _delete(folder, TEMPORARY_SUFFIX, f"{document_id}{_SUFFIX}") > 0


def clear_removed(folder: Folder) -> None:
    """Delete all archives: nothing can be brought back then."""
    if _delete(folder, _SUFFIX, TEMPORARY_SUFFIX):
        with contextlib.suppress(OSError):  # somebody else has put a file there
            (folder.path / REMOVED_NAME).rmdir()


def _archive(folder: Folder, document_id: str) -> Path:
    return folder.path / REMOVED_NAME / f"{document_id}{_SUFFIX}"


def _described(path: Path) -> tuple[About, DocumentRow]:
    """Return the beginning of an archive, of which no more is read."""
    _expect_regular(path, path.stem)
    items = read_archive(path)
    with contextlib.closing(items):  # type: ignore[type-var]
        about, document = next(items, None), next(items, None)
        if isinstance(about, About) and isinstance(document, tuple):
            row = document[0]
            if row.id == path.stem:
                return about, row
    raise CorruptStore(f"{path} is not the archive of a removed document")


def _expect_regular(path: Path, document_id: str) -> None:
    """Raise NotFound where there is no archive, StoreError for a link or a special file."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        raise NotFound(f"no removed document has the id {document_id!r}") from None
    if not stat.S_ISREG(mode):
        with file_errors(path.parent.parent):
            raise not_plain(path)


def _archives(folder: Folder, *endings: str) -> Iterator[Path]:
    try:
        entries = sorted(os.listdir(folder.path / REMOVED_NAME))
    except FileNotFoundError:
        return
    yield from (folder.path / REMOVED_NAME / name for name in entries if name.endswith(endings))


def _delete(folder: Folder, *endings: str) -> int:
    """Delete files durably; return how many there were."""
    with file_errors(folder.path):
        paths = list(_archives(folder, *endings))
        for path in paths:
            folder.disk.unlink(path)
        if paths:
            folder.disk.sync_folder(paths[0].parent)
    return len(paths)
