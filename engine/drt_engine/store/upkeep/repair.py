"""Restores what a library can restore from itself, without a model.

What needs a model, the chunk memory of damaged segments, is named for the caller to read again.
"""

from __future__ import annotations

from drt_engine.results import Finding
from drt_engine.store.catalogue.catalog import Catalog
from drt_engine.store.catalogue.row_values import document_checksum, update_document_checksum
from drt_engine.store.filesystem.library_folder import Folder
from drt_engine.store.index.upkeep import INDEX, drop_index
from drt_engine.store.segments.landmark_files import consolidate_landmark_files
from drt_engine.store.types import RecordLayout, SegmentRow
from drt_engine.store.upkeep.orphans import clear_orphans

_MEMORY = {"crc", "missing", "segment", "header", "lengths", "gap", "landmarks", "numbers"}


def repair_library(
    catalog: Catalog, folder: Folder, findings: list[Finding], *, layout: RecordLayout | None
) -> list[SegmentRow]:
    """Restore what needs no model; return the segments that must be read again.

    Search index and landmark files are made again, leftovers deleted, damaged source maps, block
    trees and a damaged approximate index dropped.
    """
    kinds = {finding.kind for finding in findings}
    if "search" in kinds:
        with catalog.database.transaction() as connection:
            connection.execute("INSERT INTO chunk_text (chunk_text) VALUES ('rebuild')")
    for finding in findings:
        if finding.kind == "origins":
            _drop_groups(catalog, finding.where, "origins")
        elif finding.kind == "blocks":
            _drop_groups(catalog, finding.where, "blocks")
    if INDEX in kinds:
        drop_index(catalog, folder)  # what is scanned without it is the same, and more
    clear_orphans(catalog, folder)
    damaged = [
        row
        for row in catalog.all_segments()
        if any(f.where.startswith(row.name) for f in findings if f.kind in _MEMORY)
    ]
    if layout is not None and "shelf" in kinds:
        landmark_files = catalog.landmark_files()
        catalog.drop_landmark_files(landmark_files)
        folder.delete([landmark_file.name for landmark_file in landmark_files])
        if not damaged:
            consolidate_landmark_files(catalog, folder, layout)
    return damaged


def _drop_groups(catalog: Catalog, document_id: str, table: str) -> None:
    """Delete a document's map to its file or its block tree, where the rest is what was written."""
    with catalog.database.transaction() as connection:
        row = connection.execute(
            "SELECT number, seal FROM documents WHERE id = ?", (document_id,)
        ).fetchone()
        if row is not None and document_checksum(connection, row[0]) == row[1]:
            connection.execute(f"DELETE FROM {table} WHERE document = ?", (row[0],))
            update_document_checksum(connection, row[0])
