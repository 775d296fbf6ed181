"""Restores what a library can restore from itself, without a model.

What needs a model, the chunk memory of damaged segments, is named for the caller to read again.
"""

from __future__ import annotations

from drt_engine.store.catalog import Catalog
from drt_engine.store.files import Folder
from drt_engine.store.shelves import tend_shelves
from drt_engine.store.types import Finding, RecordLayout, SegmentRow

_MEMORY = {"crc", "missing", "segment", "header", "lengths", "gap", "landmarks"}


def mend(
    catalog: Catalog, folder: Folder, findings: list[Finding], *, layout: RecordLayout | None
) -> list[SegmentRow]:
    """Rebuild search index and shelves, delete leftovers; the segments that need a model."""
    kinds = {finding.kind for finding in findings}
    if "search" in kinds:
        with catalog.database.transaction() as connection:
            connection.execute("INSERT INTO chunk_text (chunk_text) VALUES ('rebuild')")
    folder.clear_orphans(catalog.file_names())
    damaged = [
        row
        for row in catalog.all_segments()
        if any(f.where.startswith(row.name) for f in findings if f.kind in _MEMORY)
    ]
    if layout is not None and "shelf" in kinds:
        shelves = catalog.shelves()
        catalog.drop_shelves(shelves)
        folder.delete([shelf.name for shelf in shelves])
        if not damaged:
            tend_shelves(catalog, folder, layout)
    return damaged
