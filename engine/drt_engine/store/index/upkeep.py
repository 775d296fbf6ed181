"""Makes, removes and checks a library's approximate index, under the writer's lock.

The file is written whole before the setting names it; an older file goes after that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from drt_engine.errors import CorruptStore, FingerprintMismatch, StoreError
from drt_engine.results import Finding
from drt_engine.store.catalogue.catalog import Catalog
from drt_engine.store.filesystem.library_folder import Folder, file_errors
from drt_engine.store.index.format import SETTING, IndexRow, new_name
from drt_engine.store.types import RecordLayout

if TYPE_CHECKING:
    from drt_engine.store.index.writer import IndexPlan, Parts

INDEX = "index"  # the kind of its findings


def make_index(
    catalog: Catalog, folder: Folder, landmarks: Parts, plan: IndexPlan, *, probes: int
) -> IndexRow:
    """Write the index of a snapshot's ``landmarks``, and name it in the catalogue.

    Raises FingerprintMismatch where the library was rebuilt for another model meanwhile.
    """
    from drt_engine.store.index.writer import write_inverted_file

    name = new_name()
    with file_errors(folder.path):
        crc = write_inverted_file(folder.disk, folder.segments / name, landmarks, plan)
    row = IndexRow(name, crc, probes)
    if catalog.get_setting("fingerprint") != plan.fingerprint:
        folder.delete([name])
        raise FingerprintMismatch(
            f"the library at {folder.path} was rebuilt for another model meanwhile: make the index"
            " again"
        )
    old = _name(catalog)
    catalog.set_index_row(row)
    folder.delete([] if old is None else [old])
    return row


def drop_index(catalog: Catalog, folder: Folder) -> bool:
    """Remove the index; return whether there was one, damaged or not."""
    old = _name(catalog)
    rows = catalog.database.query("SELECT 1 FROM settings WHERE key = ?", (SETTING,))
    if rows:
        catalog.set_index_row(None)
    folder.delete([] if old is None else [old])
    return bool(rows)


def check_index(catalog: Catalog, folder: Folder, layout: RecordLayout | None) -> Iterator[Finding]:
    """Yield what is wrong with the index: its header, tables, and the landmarks of every list."""
    try:
        row = catalog.index_row()
        if row is None or layout is None:
            return
        from drt_engine.store.index.reader import open_inverted_file

        file = open_inverted_file(
            folder,
            row,
            width=layout.landmark_size,
            fingerprint=catalog.get_setting("fingerprint") or "",
        )
        file.check()
    except (StoreError, OSError) as error:
        yield Finding(INDEX, SETTING, str(error))


def _name(catalog: Catalog) -> str | None:
    try:
        row = catalog.index_row()
    except CorruptStore:
        return None  # its file is an orphan
    return None if row is None else row.name
