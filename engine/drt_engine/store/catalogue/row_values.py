"""Row values by which the catalogue's checksums are made, for writing and for checking alike.

Knows the columns, not the queries' reasons; every function works inside a transaction of the
caller.
"""

from __future__ import annotations

import datetime
import sqlite3
from collections.abc import Iterable

from drt_engine.store.catalogue.block_rows import block_checksums
from drt_engine.store.catalogue.row_checksums import blob_crc, chunk_rows_checksum, row_checksum

LAST_VERSION = 8  # of the catalogue

# name, turns, created, updated, meta, transcript, state
SessionValues = tuple[str, int, str, str, str, str, bytes]


def now() -> str:
    """Return the current time as it is stored: UTC, ISO 8601, whole seconds."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def document_checksum(
    connection: sqlite3.Connection, number: int, *, version: int = LAST_VERSION
) -> int:
    """Return the checksum of a document's row, its places, and its origins and blocks if any.

    ``version`` is the catalogue's: before 3 it had no origins, before 5 no author and date, before
    6 no tags, before 7 no blocks. These count only where there are any, so that older checksums
    stay right.
    """
    row = connection.execute(
        "SELECT id, state, title, source, media_type, characters, tokens, chunks, created"
        " FROM documents WHERE number = ?",
        (number,),
    ).fetchone()
    places = connection.execute(
        "SELECT start, page, section FROM places WHERE document = ? ORDER BY start", (number,)
    ).fetchall()
    return row_checksum(
        [
            number,
            *row,
            *places,
            *(_origin_checksums(connection, number) if version >= 3 else ()),
            *(_author_and_date(connection, number) if version >= 5 else ()),
            *(_tags(connection, number) if version >= 6 else ()),
            *(block_checksums(connection, number) if version >= 7 else ()),
        ]
    )


def _author_and_date(connection: sqlite3.Connection, number: int) -> list[tuple[str, str]]:
    rows = connection.execute("SELECT author, date FROM documents WHERE number = ?", (number,))
    return [(author, date) for author, date in rows if (author, date) != ("", "")]


def _tags(connection: sqlite3.Connection, number: int) -> list[str]:
    rows = connection.execute("SELECT tags FROM documents WHERE number = ?", (number,))
    return [tags for (tags,) in rows if tags]


def _origin_checksums(connection: sqlite3.Connection, number: int) -> list[tuple[int, int]]:
    rows = connection.execute(
        "SELECT start, anchors FROM origins WHERE document = ? ORDER BY start", (number,)
    )
    return [(start, blob_crc(anchors)) for start, anchors in rows]


def segment_checksum(connection: sqlite3.Connection, segment_id: int) -> int:
    """Return the checksum of a segment's row and its chunks' rows, without its landmark file."""
    row = connection.execute(
        "SELECT document, name, first_ordinal, first_chunk, chunks, landmarks_crc FROM segments"
        " WHERE id = ?",
        (segment_id,),
    ).fetchone()
    chunks = connection.execute(
        "SELECT id, ordinal, start, tokens, page, section, text FROM chunks"
        " WHERE document = ? AND id >= ? AND id < ? ORDER BY id",
        (row[0], row[3], row[3] + row[4]),
    )
    return row_checksum([*row, chunk_rows_checksum(chunks)])


def setting_checksum(key: str, value: str) -> int:
    """Return the checksum of one setting."""
    return row_checksum([key, value])


def session_checksum(row: SessionValues) -> int:
    """Return the checksum of one session."""
    return row_checksum([*row[:6], blob_crc(row[6])])


def session_rows(connection: sqlite3.Connection) -> Iterable[tuple[int, SessionValues, int]]:
    """Return every session as its row number, its values and its stored checksum."""
    rows = connection.execute(
        "SELECT rowid, name, turns, created, updated, meta, transcript, state, seal FROM sessions"
    )
    return ((row[0], row[1:8], row[8]) for row in rows)


def update_document_checksum(
    connection: sqlite3.Connection, number: int, *, version: int = LAST_VERSION
) -> None:
    """Write a document's checksum, as a catalogue of ``version`` has it."""
    connection.execute(
        "UPDATE documents SET seal = ? WHERE number = ?",
        (document_checksum(connection, number, version=version), number),
    )


def update_segment_checksum(connection: sqlite3.Connection, segment_id: int) -> None:
    """Write a segment's checksum."""
    connection.execute(
        "UPDATE segments SET seal = ? WHERE id = ?",
        (segment_checksum(connection, segment_id), segment_id),
    )


def put_setting(connection: sqlite3.Connection, key: str, value: str) -> None:
    """Write a setting with its checksum."""
    connection.execute(
        "INSERT OR REPLACE INTO settings (key, value, seal) VALUES (?, ?, ?)",
        (key, value, setting_checksum(key, value)),
    )


def update_all_checksums(connection: sqlite3.Connection, *, version: int = LAST_VERSION) -> None:
    """Write the checksums of all rows of a catalogue that had none."""
    for (number,) in connection.execute("SELECT number FROM documents").fetchall():
        update_document_checksum(connection, number, version=version)
    for (segment_id,) in connection.execute("SELECT id FROM segments").fetchall():
        update_segment_checksum(connection, segment_id)
    for key, value in connection.execute("SELECT key, value FROM settings").fetchall():
        put_setting(connection, key, value)
    for rowid, row, _ in list(session_rows(connection)):
        connection.execute(
            "UPDATE sessions SET seal = ? WHERE rowid = ?", (session_checksum(row), rowid)
        )
