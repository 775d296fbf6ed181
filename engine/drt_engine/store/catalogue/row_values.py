"""Row values by which the catalogue's seals are made, for writing and for checking alike.

Knows the columns, not the queries' reasons; every function works inside a transaction of the
caller.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from drt_engine.store.catalogue.row_checksums import chunk_seals, crc_of, seal

# name, turns, created, updated, meta, transcript, state
SessionValues = tuple[str, int, str, str, str, str, bytes]


def document_seal(connection: sqlite3.Connection, number: int, *, origins: bool = True) -> int:
    """Over a document's row, its places, and its origins where the catalogue has any."""
    row = connection.execute(
        "SELECT id, state, title, source, media_type, characters, tokens, chunks, created"
        " FROM documents WHERE number = ?",
        (number,),
    ).fetchone()
    places = connection.execute(
        "SELECT start, page, section FROM places WHERE document = ? ORDER BY start", (number,)
    ).fetchall()
    return seal([number, *row, *places, *(_origin_seals(connection, number) if origins else ())])


def _origin_seals(connection: sqlite3.Connection, number: int) -> list[tuple[int, int]]:
    rows = connection.execute(
        "SELECT start, anchors FROM origins WHERE document = ? ORDER BY start", (number,)
    )
    return [(start, crc_of(anchors)) for start, anchors in rows]


def segment_seal(connection: sqlite3.Connection, id: int) -> int:
    """Over a segment's row and the rows of its chunks; not where its landmarks are shelved."""
    row = connection.execute(
        "SELECT document, name, first_ordinal, first_chunk, chunks, landmarks_crc FROM segments"
        " WHERE id = ?",
        (id,),
    ).fetchone()
    chunks = connection.execute(
        "SELECT id, ordinal, start, tokens, page, section, text FROM chunks"
        " WHERE document = ? AND id >= ? AND id < ? ORDER BY id",
        (row[0], row[3], row[3] + row[4]),
    )
    return seal([*row, chunk_seals(chunks)])


def setting_seal(key: str, value: str) -> int:
    """Over one setting."""
    return seal([key, value])


def session_seal(row: SessionValues) -> int:
    """Over one session."""
    return seal([*row[:6], crc_of(row[6])])


def session_rows(connection: sqlite3.Connection) -> Iterable[tuple[int, SessionValues, int]]:
    """Every session: its row number, its values, its stored seal."""
    found = connection.execute(
        "SELECT rowid, name, turns, created, updated, meta, transcript, state, seal FROM sessions"
    )
    return ((row[0], row[1:8], row[8]) for row in found)


def seal_document(connection: sqlite3.Connection, number: int, *, origins: bool = True) -> None:
    """Write a document's seal; a catalogue before version 3 has no origins."""
    connection.execute(
        "UPDATE documents SET seal = ? WHERE number = ?",
        (document_seal(connection, number, origins=origins), number),
    )


def seal_segment(connection: sqlite3.Connection, id: int) -> None:
    """Write a segment's seal."""
    connection.execute(
        "UPDATE segments SET seal = ? WHERE id = ?", (segment_seal(connection, id), id)
    )


def put_setting(connection: sqlite3.Connection, key: str, value: str) -> None:
    """Write a setting with its seal."""
    connection.execute(
        "INSERT OR REPLACE INTO settings (key, value, seal) VALUES (?, ?, ?)",
        (key, value, setting_seal(key, value)),
    )


def seal_everything(connection: sqlite3.Connection, *, origins: bool = True) -> None:
    """Seal all rows of a catalogue that had no seals."""
    for (number,) in connection.execute("SELECT number FROM documents").fetchall():
        seal_document(connection, number, origins=origins)
    for (id,) in connection.execute("SELECT id FROM segments").fetchall():
        seal_segment(connection, id)
    for key, value in connection.execute("SELECT key, value FROM settings").fetchall():
        put_setting(connection, key, value)
    for rowid, row, _ in list(session_rows(connection)):
        connection.execute(
            "UPDATE sessions SET seal = ? WHERE rowid = ?", (session_seal(row), rowid)
        )
