"""The catalogue's schema as numbered changes; ``PRAGMA user_version`` says which were applied.

Knows nothing of the rows' meaning, only of tables. A change that was released is never edited.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from drt_engine.errors import CorruptStore, StoreError
from drt_engine.store.catalogue import row_values

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


_SECOND = (
    "DROP TABLE chunk_text",
    "UPDATE chunks SET text = deflate(text)",
    "CREATE VIEW chunk_words AS SELECT id, inflate(text) AS text FROM chunks",
    """CREATE VIRTUAL TABLE chunk_text USING fts5 (
        text, content = 'chunk_words', content_rowid = 'id',
        tokenize = 'porter unicode61 remove_diacritics 2'
    )""",
    "INSERT INTO chunk_text (chunk_text) VALUES ('rebuild')",
    "ALTER TABLE settings ADD COLUMN seal INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE documents ADD COLUMN seal INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE sessions ADD COLUMN seal INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE segments ADD COLUMN seal INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE segments ADD COLUMN landmarks_crc INTEGER",
    "ALTER TABLE segments ADD COLUMN shelf INTEGER",
    "ALTER TABLE segments ADD COLUMN shelf_row INTEGER",
    "CREATE INDEX segments_by_shelf ON segments (shelf)",
    """CREATE TABLE shelves (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL UNIQUE,
        chunks INTEGER NOT NULL,
        live INTEGER NOT NULL,
        crc INTEGER NOT NULL
    )""",
    """CREATE TABLE sources (
        path TEXT PRIMARY KEY,
        digest TEXT NOT NULL,
        document TEXT NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX sources_by_document ON sources (document)",
    "CREATE INDEX sessions_by_time ON sessions (updated DESC, name, turns)",
)


def _m002_checksums_and_landmark_files(connection: sqlite3.Connection) -> None:
    for statement in _SECOND:
        connection.execute(statement)
    row_values.update_all_checksums(connection, version=2)


def _m003_origins(connection: sqlite3.Connection) -> None:
    connection.execute(
        """CREATE TABLE origins (
            document INTEGER NOT NULL,
            start INTEGER NOT NULL,
            anchors BLOB NOT NULL,
            PRIMARY KEY (document, start)
        ) WITHOUT ROWID"""
    )


_FOURTH = (
    "DROP TABLE chunk_text",
    "DROP VIEW chunk_words",
    """CREATE VIEW chunk_words AS
        SELECT c.id AS id, indexed(b.text, c.text, a.text) AS text FROM chunks c
        LEFT JOIN chunks b ON b.document = c.document AND b.ordinal = c.ordinal - 1
        LEFT JOIN chunks a ON a.document = c.document AND a.ordinal = c.ordinal + 1""",
    """CREATE VIRTUAL TABLE chunk_text USING fts5 (
        text, content = 'chunk_words', content_rowid = 'id',
        tokenize = 'porter unicode61 remove_diacritics 2'
    )""",
    "INSERT INTO chunk_text (chunk_text) VALUES ('rebuild')",
)


def _m004_index_words(connection: sqlite3.Connection) -> None:
    for statement in _FOURTH:
        connection.execute(statement)


def _m005_author_and_date(connection: sqlite3.Connection) -> None:
    # at the end of the row, after its checksum, which is right as long as both are empty
    for column in ("author", "date"):
        connection.execute(f"ALTER TABLE documents ADD COLUMN {column} TEXT NOT NULL DEFAULT ''")


def _m006_tags(connection: sqlite3.Connection) -> None:
    # a JSON array, after the checksum, which is right as long as there are none
    connection.execute("ALTER TABLE documents ADD COLUMN tags TEXT NOT NULL DEFAULT ''")


def _m007_blocks(connection: sqlite3.Connection) -> None:
    connection.execute(
        """CREATE TABLE blocks (
            document INTEGER NOT NULL,
            start INTEGER NOT NULL,
            nodes BLOB NOT NULL,
            PRIMARY KEY (document, start)
        ) WITHOUT ROWID"""
    )


def _m008_partial_documents(connection: sqlite3.Connection) -> None:
    # those of a source are looked for whenever a document is finished, as ready ones are
    connection.execute(
        "CREATE INDEX documents_partial ON documents (source) WHERE state = 'partial'"
    )


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (
    _m001_first_version,
    _m002_checksums_and_landmark_files,
    _m003_origins,
    _m004_index_words,
    _m005_author_and_date,
    _m006_tags,
    _m007_blocks,
    _m008_partial_documents,
)


_TABLES = {
    *("settings", "documents", "segments", "chunks", "places", "sessions", "shelves", "sources"),
    *("chunk_text", "chunk_text_config", "chunk_text_data", "chunk_text_docsize", "chunk_text_idx"),
    *("sqlite_sequence", "origins", "blocks"),
}
_INDICES = {
    *("documents_by_source", "documents_partial", "segments_by_document", "segments_by_shelf"),
    *("chunks_by_ordinal", "chunks_by_start", "sources_by_document", "sessions_by_time"),
    *("sqlite_autoindex_documents_1", "sqlite_autoindex_segments_1", "sqlite_autoindex_segments_2"),
    *("sqlite_autoindex_sessions_1", "sqlite_autoindex_shelves_1"),
    *("sqlite_autoindex_settings_1", "sqlite_autoindex_places_1", "sqlite_autoindex_sources_1"),
    *("sqlite_autoindex_origins_1", "sqlite_autoindex_blocks_1"),
}
_KNOWN = {
    *(("table", name) for name in _TABLES),
    *(("index", name) for name in _INDICES),
    ("view", "chunk_words"),
}


def is_current(connection: sqlite3.Connection, *, where: str) -> bool:
    """Return whether no migration is outstanding.

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
    if version == len(MIGRATIONS):
        _expect_tables(connection, where)
    return version == len(MIGRATIONS)


def _expect_tables(connection: sqlite3.Connection, where: str) -> None:
    """Refuse tables, triggers and views that no migration makes: a catalogue is not trusted."""
    named = set(connection.execute("SELECT type, name FROM sqlite_master"))
    if not named <= _KNOWN or not {name for _, name in named} >= _TABLES:
        strange = sorted(name for _, name in named - _KNOWN) or sorted(
            _TABLES - {name for _, name in named}
        )
        raise CorruptStore(
            f"the catalogue {where} has tables that are not a library's ({', '.join(strange)}):"
            " `drt library check --repair` saves what is a library's into a new one"
        )


def migrate(connection: sqlite3.Connection) -> None:
    """Apply what is outstanding; call inside a transaction."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version == 0 and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise CorruptStore(
            "the catalogue's version number is damaged: `drt library check --repair` saves all"
            " that is left into a new library"
        )
    for number, change in enumerate(MIGRATIONS[version:], start=version + 1):
        change(connection)
        connection.execute(f"PRAGMA user_version = {number}")
