"""The catalogue's schema as numbered changes; `PRAGMA user_version` says which were applied.

Knows nothing of the rows' meaning, only of tables. A change that was released is never edited.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from drt_engine.errors import StoreError

APPLICATION_ID = 0x44525431  # "DRT1"

_FIRST = (
    "CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE documents (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        state TEXT NOT NULL CHECK (state IN ('partial', 'ready')),
        title TEXT NOT NULL,
        source TEXT NOT NULL,
        media_type TEXT NOT NULL,
        characters INTEGER NOT NULL DEFAULT 0,
        tokens INTEGER NOT NULL DEFAULT 0,
        chunks INTEGER NOT NULL DEFAULT 0,
        created TEXT NOT NULL
    )""",
    "CREATE UNIQUE INDEX documents_by_source ON documents (source) WHERE state = 'ready'",
    """CREATE TABLE segments (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        document INTEGER NOT NULL,
        name TEXT NOT NULL UNIQUE,
        first_ordinal INTEGER NOT NULL,
        first_chunk INTEGER NOT NULL UNIQUE,
        chunks INTEGER NOT NULL
    )""",
    "CREATE UNIQUE INDEX segments_by_document ON segments (document, first_ordinal)",
    """CREATE TABLE chunks (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        document INTEGER NOT NULL,
        ordinal INTEGER NOT NULL,
        start INTEGER NOT NULL,
        tokens INTEGER NOT NULL,
        page INTEGER,
        section TEXT,
        text TEXT NOT NULL
    )""",
    "CREATE UNIQUE INDEX chunks_by_ordinal ON chunks (document, ordinal)",
    "CREATE INDEX chunks_by_start ON chunks (document, start)",
    """CREATE TABLE places (
        document INTEGER NOT NULL,
        start INTEGER NOT NULL,
        page INTEGER,
        section TEXT,
        PRIMARY KEY (document, start)
    ) WITHOUT ROWID""",
    """CREATE VIRTUAL TABLE chunk_text USING fts5 (
        text, content = 'chunks', content_rowid = 'id',
        tokenize = 'porter unicode61 remove_diacritics 2'
    )""",
    """CREATE TABLE sessions (
        name TEXT PRIMARY KEY,
        turns INTEGER NOT NULL,
        created TEXT NOT NULL,
        updated TEXT NOT NULL,
        meta TEXT NOT NULL,
        transcript TEXT NOT NULL,
        state BLOB NOT NULL
    )""",
)


def _m001_first_version(connection: sqlite3.Connection) -> None:
    for statement in _FIRST:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (_m001_first_version,)


def is_current(connection: sqlite3.Connection, *, where: str) -> bool:
    """Whether no change is outstanding.

    Raises StoreError when a newer program made the catalogue, or another program did.
    """
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    if (version or tables) and application != APPLICATION_ID:
        raise StoreError(
            f"{where} is a database of another program, not a drt catalogue: choose another folder"
        )
    if version > len(MIGRATIONS):
        raise StoreError(
            f"the library's catalogue {where} has version {version} and this program knows"
            f" {len(MIGRATIONS)}: use the newer drt that wrote it"
        )
    return version == len(MIGRATIONS)


def migrate(connection: sqlite3.Connection) -> None:
    """Apply what is outstanding; call inside a transaction."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    for number, change in enumerate(MIGRATIONS[version:], start=version + 1):
        change(connection)
        connection.execute(f"PRAGMA user_version = {number}")
