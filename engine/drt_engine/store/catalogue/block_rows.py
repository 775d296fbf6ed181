"""Rows of block trees: packed groups of nodes, each in the row of its first node's start.

Knows nothing of what the nodes mean: ``drt_engine.blocks`` does.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from drt_engine.store.catalogue.row_checksums import blob_crc, expect, pack_text, unpack_text
from drt_engine.store.types import Blocks

Query = Callable[[str, tuple[Any, ...]], list[Any]]  # ``Database.query``


def insert_blocks(connection: sqlite3.Connection, number: int, groups: Sequence[Blocks]) -> None:
    """Store the block tree of a document, in place of an earlier one."""
    connection.execute("DELETE FROM blocks WHERE document = ?", (number,))
    connection.executemany(
        "INSERT INTO blocks VALUES (?, ?, ?)",
        [(number, start, pack_text(nodes)) for start, nodes in groups],
    )


def block_groups(query: Query, number: int, start: int, end: int | None) -> list[Blocks]:
    """Return the groups with the nodes of characters ``start:end``: (start, nodes)."""
    rows = query(
        "SELECT start, nodes FROM blocks WHERE document = ? AND (? IS NULL OR start < ?)"
        " AND start >= coalesce("
        "(SELECT max(start) FROM blocks WHERE document = ? AND start <= ?), 0)"
        " ORDER BY start",
        (number, end, end, number, start),
    )
    for row in rows:
        expect(row, "ib")
    return [(row[0], unpack_text(row[1])) for row in rows]


def block_checksums(connection: sqlite3.Connection, number: int) -> list[tuple[str, int, int]]:
    """Return what stands for a document's block tree in its checksum; nothing where it has none."""
    rows = connection.execute(
        "SELECT start, nodes FROM blocks WHERE document = ? ORDER BY start", (number,)
    )
    return [("block", start, blob_crc(nodes)) for start, nodes in rows]
