"""A library inside a library: documents read again for another model, then taken over at once.

Others go on writing to the outer library meanwhile. What is taken over is what it holds at that
moment: documents read since are waited for, documents removed since are left out. Knows nothing of
models or texts; the reading is the caller's.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable

from drt_engine.store.catalogue import row_values
from drt_engine.store.catalogue.catalog import Catalog
from drt_engine.store.filesystem.library_folder import (
    CATALOG_NAME,
    REBUILD_NAME,
    SEGMENTS_NAME,
    Folder,
    file_errors,
)
from drt_engine.store.types import DocumentRow

# a document that was removed and read again meanwhile has another time, and maybe other places
_PAIRS = (
    "FROM main.documents AS old JOIN fresh.documents AS new ON new.id = old.id"
    " AND new.created = old.created AND new.title = old.title AND new.media_type = old.media_type"
    " WHERE old.state = 'ready' AND new.state = 'ready'"
)
_TAKEN = "WHERE document + :documents IN (SELECT number FROM main.documents)"
_COPIES = (
    "INSERT INTO segments (id, document, name, first_ordinal, first_chunk, chunks, landmarks_crc)"
    " SELECT id + :segments, document + :documents, name, first_ordinal, first_chunk + :chunks,"
    f" chunks, landmarks_crc FROM fresh.segments {_TAKEN}",
    "INSERT INTO chunks SELECT id + :chunks, document + :documents, ordinal, start, tokens, page,"
    f" section, text FROM fresh.chunks {_TAKEN}",
    "INSERT INTO places SELECT document + :documents, start, page, section FROM fresh.places"
    f" {_TAKEN}",
    f"INSERT INTO origins SELECT document + :documents, start, anchors FROM fresh.origins {_TAKEN}",
    f"INSERT INTO blocks SELECT document + :documents, start, nodes FROM fresh.blocks {_TAKEN}",
    "INSERT INTO chunk_text (chunk_text) VALUES ('rebuild')",
    "DELETE FROM sources WHERE document NOT IN (SELECT id FROM documents)",
    "INSERT OR REPLACE INTO settings SELECT * FROM fresh.settings"
    " WHERE key IN ('fingerprint', 'layout', 'model', 'vocabulary')",
)


def outdated(fresh: Iterable[DocumentRow], current: Iterable[DocumentRow]) -> list[DocumentRow]:
    """Return documents of the inner library that the outer one has not, or has read again since."""
    current_identities = {_identity(row) for row in current}
    return [row for row in fresh if _identity(row) not in current_identities]


def _identity(row: DocumentRow) -> tuple[str, ...]:
    return row.id, row.created, row.title, row.media_type


def is_there(folder: Folder) -> bool:
    """Return whether a library has an inner one with a catalogue, from a rebuild under way."""
    with file_errors(folder.path):
        return (folder.path / REBUILD_NAME / CATALOG_NAME).exists()


def swap_in_rebuilt(catalog: Catalog, folder: Folder) -> bool:
    """Replace all documents atomically with those of the inner library.

    False, and nothing is changed, where the inner library lacks a document: read it and come again.
    Its files get second names here first, so that a death at any moment leaves both whole. The
    caller holds the writer's lock.
    """
    if not is_there(folder):
        return False
    inner = folder.path / REBUILD_NAME
    old = catalog.file_names()
    database = catalog.database
    with (
        database.backed_up(),
        database.attached(inner / CATALOG_NAME, "fresh") as connection,
        database.transaction(),
    ):
        if not _is_complete(connection):
            return False
        with file_errors(folder.path):
            names = connection.execute(
                f"SELECT name FROM fresh.segments WHERE document IN (SELECT new.number {_PAIRS})"
            )
            for (name,) in names.fetchall():
                fresh, place = inner / SEGMENTS_NAME / name, folder.segments / name
                # A swap that was killed before its commit has left the second name.
                if not (place.exists() and place.samefile(fresh)):
                    folder.disk.link(fresh, place)
            folder.disk.sync_folder(folder.segments)
        _copy(connection)
    folder.delete(old)
    clear(folder)
    return True


def clear(folder: Folder) -> None:
    """Remove the inner library, whose documents are here."""
    with file_errors(folder.path):
        shutil.rmtree(folder.path / REBUILD_NAME)


def _is_complete(connection: sqlite3.Connection) -> bool:
    needed = connection.execute("SELECT count(*) FROM main.documents WHERE state = 'ready'")
    present = connection.execute(f"SELECT count(*) {_PAIRS}")
    return bool(needed.fetchone() == present.fetchone())


def _copy(connection: sqlite3.Connection) -> None:
    last_numbers = dict(connection.execute("SELECT name, seq FROM main.sqlite_sequence"))
    offsets = {name: last_numbers.get(name, 0) for name in ("documents", "segments", "chunks")}
    # a document may have been moved meanwhile: its source is what the outer library says
    documents = connection.execute(
        f"SELECT new.number, old.source, old.author, old.date, old.tags {_PAIRS}"
    ).fetchall()
    for table in ("documents", "segments", "chunks", "places", "origins", "blocks", "shelves"):
        connection.execute(f"DELETE FROM main.{table}")
    connection.executemany(
        "INSERT INTO documents SELECT number + ?, id, state, title, ?, media_type, characters,"
        " tokens, chunks, created, 0, ?, ?, ? FROM fresh.documents WHERE number = ?",
        [(offsets["documents"], *kept_values, number) for number, *kept_values in documents],
    )
    for statement in _COPIES:
        connection.execute(statement, offsets if ":" in statement else {})
    row_values.update_all_checksums(connection)
