"""A library inside a library: documents read again for another model, then taken over at once.

Knows nothing of models or texts; the reading is the caller's.
"""

from __future__ import annotations

import shutil
import sqlite3

from drt_engine.store import rows
from drt_engine.store.catalog import Catalog
from drt_engine.store.files import CATALOG_NAME, REBUILD_NAME, SEGMENTS_NAME, Folder, file_errors

_COPIES = (
    "INSERT INTO documents SELECT number + :documents, id, state, title, source, media_type,"
    " characters, tokens, chunks, created, 0 FROM fresh.documents WHERE state = 'ready'",
    "INSERT INTO segments (id, document, name, first_ordinal, first_chunk, chunks, landmarks_crc)"
    " SELECT id + :segments, document + :documents, name, first_ordinal, first_chunk + :chunks,"
    " chunks, landmarks_crc FROM fresh.segments",
    "INSERT INTO chunks SELECT id + :chunks, document + :documents, ordinal, start, tokens, page,"
    " section, text FROM fresh.chunks",
    "INSERT INTO places SELECT document + :documents, start, page, section FROM fresh.places",
    "INSERT INTO origins SELECT document + :documents, start, anchors FROM fresh.origins",
    "INSERT INTO chunk_text (chunk_text) VALUES ('rebuild')",
    "DELETE FROM sources WHERE document NOT IN (SELECT id FROM documents)",
    "INSERT OR REPLACE INTO settings SELECT * FROM fresh.settings"
    " WHERE key IN ('fingerprint', 'layout', 'model')",
)


def take_over(catalog: Catalog, folder: Folder) -> None:
    """Let the documents of the inner library take the place of all documents, in one commit.

    Its files get second names here first, so that a death at any moment leaves both whole.
    """
    inner = folder.path / REBUILD_NAME
    old = catalog.file_names()
    database = catalog.database
    with database.attached(inner / CATALOG_NAME, "fresh") as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM fresh.segments")]
        with file_errors(folder.path):
            for name in names:
                folder.disk.link(inner / SEGMENTS_NAME / name, folder.segments / name)
            folder.disk.sync_folder(folder.segments)
        with database.transaction():
            _copy(connection)
    folder.delete(old)
    clear(folder)


def clear(folder: Folder) -> None:
    """Remove the inner library, whose documents are here."""
    with file_errors(folder.path):
        shutil.rmtree(folder.path / REBUILD_NAME)


def _copy(connection: sqlite3.Connection) -> None:
    given = dict(connection.execute("SELECT name, seq FROM main.sqlite_sequence"))
    offsets = {name: given.get(name, 0) for name in ("documents", "segments", "chunks")}
    for table in ("documents", "segments", "chunks", "places", "origins", "shelves"):
        connection.execute(f"DELETE FROM main.{table}")
    for statement in _COPIES:
        connection.execute(statement, offsets if ":" in statement else {})
    rows.seal_everything(connection)
