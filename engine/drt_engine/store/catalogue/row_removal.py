"""Takes rows out of the catalogue, inside a transaction of the caller.

Knows nothing of files: it returns the names of those that nothing speaks of any more.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from drt_engine.errors import CorruptStore
from drt_engine.store.catalogue.index_text import indexed


def drop_source(connection: sqlite3.Connection, source: str, *, keep: int) -> list[str]:
    """Remove the documents of a source but one; returns the names of their segment files."""
    others = numbers_at(connection, source, but=keep)
    return [name for number in others for name in drop_document(connection, number)]


def numbers_at(connection: sqlite3.Connection, source: str, *, but: int) -> list[int]:
    """Return the row numbers of the documents of a source in any state, but one, in order.

    Each state has an index of sources; a query of both would go through all documents.
    """
    rows = connection.execute(
        "SELECT number FROM documents WHERE source = ? AND state = 'ready' UNION ALL"
        " SELECT number FROM documents WHERE source = ? AND state = 'partial' ORDER BY number",
        (source, source),
    )
    return [number for (number,) in rows if number != but]


def drop_document(connection: sqlite3.Connection, number: int) -> list[str]:
    """Remove a document's rows; returns the names of its segment files."""
    of_document = "WHERE document = ?"
    rows = connection.execute(f"SELECT id, name FROM segments {of_document}", (number,)).fetchall()
    detach_segments(connection, [segment_id for segment_id, _ in rows])
    indexed = _drop_from_index(connection, number)
    connection.execute(
        "DELETE FROM sources WHERE document = (SELECT id FROM documents WHERE number = ?)",
        (number,),
    )
    for table in ("chunks", "segments", "places", "origins", "blocks"):
        connection.execute(f"DELETE FROM {table} {of_document}", (number,))
    connection.execute("DELETE FROM documents WHERE number = ?", (number,))
    if not indexed:
        connection.execute("INSERT INTO chunk_text (chunk_text) VALUES ('rebuild')")
    return [name for _, name in rows]


def _drop_from_index(connection: sqlite3.Connection, number: int) -> bool:
    """Take a document out of the full-text index; False when its texts are too damaged for that."""
    rows = connection.execute(
        "SELECT id, text FROM chunks WHERE document = ? ORDER BY ordinal", (number,)
    ).fetchall()
    packed = [None, *(text for _, text in rows), None]
    with_neighbours = zip(rows, packed, packed[2:], strict=False)
    try:
        connection.executemany(
            "INSERT INTO chunk_text (chunk_text, rowid, text) VALUES ('delete', ?, ?)",
            (
                (chunk_id, indexed(before, text, after))
                for (chunk_id, text), before, after in with_neighbours
            ),
        )
    except CorruptStore:
        return False
    return True


def detach_segments(connection: sqlite3.Connection, segments: Sequence[int]) -> None:
    """Count segments out of their landmark files."""
    connection.executemany(
        "UPDATE shelves SET live = live - (SELECT chunks FROM segments WHERE id = ?)"
        " WHERE id = (SELECT shelf FROM segments WHERE id = ?)",
        [(segment_id, segment_id) for segment_id in segments],
    )


def drop_landmark_file(connection: sqlite3.Connection, landmark_file_id: int) -> None:
    """Drop a landmark file's rows."""
    connection.execute(
        "UPDATE segments SET shelf = NULL, shelf_row = NULL WHERE shelf = ?", (landmark_file_id,)
    )
    connection.execute("DELETE FROM shelves WHERE id = ?", (landmark_file_id,))
