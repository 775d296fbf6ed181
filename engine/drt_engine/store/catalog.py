"""Documents, segments, chunks and settings as catalogue rows.

Knows nothing of segment files' contents, of tensors or of locks: the store decides who may write.
"""

from __future__ import annotations

import datetime
import difflib
import json
import sqlite3
from collections.abc import Sequence
from pathlib import PurePath

from drt_engine.errors import NotFound, StoreError
from drt_engine.store.database import Database
from drt_engine.store.types import ChunkRow, ChunkText, DocumentRow, SegmentRow

Place = tuple[int, int | None, str | None]  # start, page, section

_MIN_PREFIX = 4
_TEXT_BLOCK = 256  # chunks fetched at a time while a text is streamed
_DOCUMENT = "id, title, source, media_type, characters, tokens, chunks, created"
_SEGMENT = "s.id, d.id, s.name, s.first_ordinal, s.first_chunk, s.chunks"


def now() -> str:
    """The current time as it is stored: UTC, ISO 8601, whole seconds."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def storable(text: str) -> str:
    """Text as SQLite takes it: bytes of a file name that are not UTF-8 become escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


# an IN list of any length as one parameter, which `listed` makes
IN_LIST = "IN (SELECT value FROM json_each(?))"


def listed(values: Sequence[int] | Sequence[str]) -> str:
    """The parameter for IN_LIST."""
    return json.dumps(values)


def nearest(name: str, known: Sequence[str]) -> str:
    """The end of a "no such name" sentence: what comes closest, or what exists."""
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5) or list(known[:3])
    return f"did you mean {' or '.join(map(repr, close))}?" if close else "there is none yet"


class Catalog:
    """Queries and changes on the tables; each changing method is one transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database

    # settings

    def get_setting(self, key: str) -> str | None:
        row = self.database.one("SELECT value FROM settings WHERE key = ?", (key,))
        return None if row is None else str(row[0])

    def set_setting(self, key: str, value: str) -> None:
        with self.database.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (key, value))

    # documents

    def documents(self, *, state: str = "ready") -> list[DocumentRow]:
        rows = self.database.query(
            f"SELECT {_DOCUMENT} FROM documents WHERE state = ? ORDER BY number", (state,)
        )
        return [DocumentRow(*row) for row in rows]

    def document_by_id(self, id: str, *, state: str = "ready") -> DocumentRow | None:
        row = self.database.one(
            f"SELECT {_DOCUMENT} FROM documents WHERE id = ? AND state = ?", (id, state)
        )
        return None if row is None else DocumentRow(*row)

    def document(self, name: str) -> DocumentRow:
        """The one ready document that a name means; NotFound when none or several."""
        name = storable(name)
        exact = self.document_by_id(name)
        if exact is not None:
            return exact
        rows = self.documents()
        for matches in _name_matches(name, rows):
            if len(matches) == 1:
                return matches[0]
            if matches:
                ids = ", ".join(row.id for row in matches[:5])
                raise NotFound(f"{len(matches)} documents are called {name!r}: use an id ({ids})")
        known = [row.title for row in rows] + [PurePath(row.source).name for row in rows]
        hint = nearest(name, list(dict.fromkeys(known)))
        raise NotFound(f"no document {name!r} in the library: {hint}")

    def number(self, id: str) -> int:
        """A ready document's row number; NotFound."""
        row = self.database.one(
            "SELECT number FROM documents WHERE id = ? AND state = 'ready'", (id,)
        )
        if row is None:
            raise _no_id(id)
        return int(row[0])

    def begin(self, id: str, title: str, *, source: str, media_type: str) -> DocumentRow:
        """Make or take up a partial document; StoreError when it is ready already."""
        with self.database.transaction() as connection:
            found = connection.execute("SELECT state FROM documents WHERE id = ?", (id,)).fetchone()
            if found is not None and found[0] == "ready":
                raise StoreError(f"document {id} is in the library already: remove it to reread it")
            connection.execute(
                "INSERT INTO documents (id, state, title, source, media_type, created)"
                " VALUES (?, 'partial', ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
                " title = excluded.title, source = excluded.source,"
                " media_type = excluded.media_type",
                (id, storable(title), storable(source), media_type, now()),
            )
        row = self.document_by_id(id, state="partial")
        if row is None:
            raise StoreError(f"document {id} was removed by another process: read it again")
        return row

    def finish(self, id: str, places: Sequence[Place]) -> list[str]:
        """Mark a document ready, replacing others of its source; returns the files to delete."""
        with self.database.transaction() as connection:
            number, source = connection.execute(
                "SELECT number, source FROM documents WHERE id = ?", (id,)
            ).fetchone()
            files = _drop_source(connection, source, keep=number)
            connection.executemany(
                "INSERT INTO places VALUES (?, ?, ?, ?)", [(number, *place) for place in places]
            )
            connection.execute(
                "UPDATE documents SET state = 'ready', created = ? WHERE number = ?",
                (now(), number),
            )
        return files

    def remove(self, id: str) -> list[str]:
        """Remove a document in any state; returns the files to delete; NotFound."""
        with self.database.transaction() as connection:
            row = connection.execute("SELECT number FROM documents WHERE id = ?", (id,)).fetchone()
            if row is None:
                raise _no_id(id)
            return _drop(connection, row[0])

    def rename_source(self, id: str, source: str) -> list[str]:
        """Move a document to another source, replacing what stood there; files to delete."""
        number, source = self.number(id), storable(source)
        with self.database.transaction() as connection:
            files = _drop_source(connection, source, keep=number)
            connection.execute("UPDATE documents SET source = ? WHERE number = ?", (source, number))
        return files

    def numbers(self, ids: Sequence[str]) -> list[int]:
        """Row numbers of ready documents, in library order; NotFound for an unknown id."""
        rows = self.database.query(
            f"SELECT id, number FROM documents WHERE id {IN_LIST} AND state = 'ready'",
            (listed(list(ids)),),
        )
        found: dict[str, int] = dict(rows)
        for id in ids:
            if id not in found:
                raise _no_id(id)
        return sorted(found.values())

    def only(self, ids: Sequence[str] | None) -> tuple[str, list[str]]:
        """A condition on `d.number`, with its parameters, that keeps these documents."""
        if ids is None:
            return "", []
        return f"AND d.number {IN_LIST}", [listed(self.numbers(ids))]

    # segments

    def add_segment(
        self,
        id: str,
        name: str,
        *,
        texts: Sequence[ChunkText],
        lengths: Sequence[int],
        first_ordinal: int,
    ) -> None:
        """The commit point: a written file's chunks become part of a partial document."""
        with self.database.transaction() as connection:
            number = _partial_number(connection, id, first_ordinal)
            first = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'chunks'")
            first_chunk = ((first.fetchone() or (0,))[0]) + 1
            connection.execute(
                "INSERT INTO segments (document, name, first_ordinal, first_chunk, chunks)"
                " VALUES (?, ?, ?, ?, ?)",
                (number, name, first_ordinal, first_chunk, len(texts)),
            )
            counted = enumerate(zip(texts, lengths, strict=True))
            connection.executemany(
                "INSERT INTO chunks (id, document, ordinal, tokens, start, text, page, section)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (first_chunk + i, number, first_ordinal + i, tokens)
                    + (text.start, text.text, text.page, text.section)
                    for i, (text, tokens) in counted
                ],
            )
            connection.execute(
                "INSERT INTO chunk_text (rowid, text) SELECT id, text FROM chunks WHERE id >= ?",
                (first_chunk,),
            )
            connection.execute(
                "UPDATE documents SET characters = characters + ?, tokens = tokens + ?,"
                " chunks = chunks + ? WHERE number = ?",
                (sum(len(text.text) for text in texts), sum(lengths), len(texts), number),
            )

    def segments(self, ids: Sequence[str] | None = None) -> list[SegmentRow]:
        """Segments of ready documents, in (document, ordinal) order."""
        where, parameters = self.only(ids)
        rows = self.database.query(
            f"SELECT {_SEGMENT} FROM segments s JOIN documents d ON d.number = s.document"
            f" WHERE d.state = 'ready' {where} ORDER BY s.document, s.first_ordinal",
            parameters,
        )
        return [SegmentRow(*row) for row in rows]

    def all_segments(self) -> list[SegmentRow]:
        """Every committed segment, of partial documents too."""
        rows = self.database.query(
            f"SELECT {_SEGMENT} FROM segments s JOIN documents d ON d.number = s.document"
            " ORDER BY s.id"
        )
        return [SegmentRow(*row) for row in rows]

    def segment_names(self) -> set[str]:
        return {name for (name,) in self.database.query("SELECT name FROM segments")}

    def has_segment(self, name: str) -> bool:
        return self.database.one("SELECT 1 FROM segments WHERE name = ?", (name,)) is not None

    def segment_of(self, chunk_id: int) -> SegmentRow | None:
        """The segment that holds a chunk."""
        row = self.database.one(
            f"SELECT {_SEGMENT} FROM segments s JOIN documents d ON d.number = s.document"
            " WHERE s.first_chunk <= ? ORDER BY s.first_chunk DESC LIMIT 1",
            (chunk_id,),
        )
        segment = None if row is None else SegmentRow(*row)
        if segment is None or chunk_id >= segment.first_chunk + segment.chunks:
            return None
        return segment

    # chunks

    def chunk_rows(self, chunk_ids: Sequence[int]) -> list[ChunkRow]:
        """Chunks in the order asked for; StoreError for one that is gone."""
        rows = self.database.query(
            "SELECT c.id, d.id, c.ordinal, c.start, c.text, c.page, c.section FROM chunks c"
            f" JOIN documents d ON d.number = c.document WHERE c.id {IN_LIST}",
            (listed(list(chunk_ids)),),
        )
        found = {row[0]: ChunkRow(*row) for row in rows}
        for chunk_id in chunk_ids:
            if chunk_id not in found:
                raise gone(chunk_id)
        return [found[chunk_id] for chunk_id in chunk_ids]

    def neighbours(self, chunk_id: int) -> tuple[int | None, int | None]:
        """Previous and next chunk of the same document."""
        row = self.database.one(
            "SELECT (SELECT p.id FROM chunks p WHERE p.document = c.document"
            " AND p.ordinal = c.ordinal - 1), (SELECT n.id FROM chunks n"
            " WHERE n.document = c.document AND n.ordinal = c.ordinal + 1)"
            " FROM chunks c WHERE c.id = ?",
            (chunk_id,),
        )
        if row is None:
            raise gone(chunk_id)
        return row[0], row[1]

    # text

    def text(self, id: str, start: int, end: int) -> str:
        """`document_text[start:end]`, for offsets that are not negative."""
        if start < 0 or end < 0:
            raise ValueError(f"text offsets are {start} and {end}, expected none below zero")
        number = self.number(id)
        rows = self.database.query(
            "SELECT start, text FROM chunks WHERE document = ? AND start < ? AND start >= coalesce("
            "(SELECT max(start) FROM chunks WHERE document = ? AND start <= ?), 0)"
            " ORDER BY ordinal",
            (number, end, number, start),
        )
        if not rows:
            return ""
        first = int(rows[0][0])
        return "".join(text for _, text in rows)[start - first : max(end - first, 0)]

    def text_blocks(self, id: str) -> list[range]:
        """Blocks of ordinals to stream a document's text by."""
        row = self.database.one("SELECT chunks FROM documents WHERE number = ?", (self.number(id),))
        total = 0 if row is None else int(row[0])
        return [range(i, min(i + _TEXT_BLOCK, total)) for i in range(0, total, _TEXT_BLOCK)]

    def text_block(self, id: str, ordinals: range) -> str:
        """The joined text of consecutive chunks; StoreError when they are gone meanwhile."""
        rows = self.database.query(
            "SELECT c.text FROM documents d JOIN chunks c ON c.document = d.number WHERE d.id = ?"
            " AND c.ordinal BETWEEN ? AND ? ORDER BY c.ordinal",
            (id, ordinals.start, ordinals.stop - 1),
        )
        if len(rows) != len(ordinals):
            raise StoreError(f"document {id} was removed while it was read: list the documents")
        return "".join(text for (text,) in rows)

    def place(self, id: str, start: int) -> tuple[int | None, str | None]:
        """Page and section of the character at `start`."""
        row = self.database.one(
            "SELECT page, section FROM places WHERE document = ? AND start <= ?"
            " ORDER BY start DESC LIMIT 1",
            (self.number(id), start),
        )
        return (None, None) if row is None else (row[0], row[1])

    def totals(self) -> dict[str, int]:
        """Counts over the whole library."""
        row = self.database.query(
            "SELECT count(*) FILTER (WHERE state = 'ready'),"
            " count(*) FILTER (WHERE state = 'partial'), coalesce(sum(characters), 0),"
            " coalesce(sum(tokens), 0), coalesce(sum(chunks), 0) FROM documents"
        )[0]
        names = ("documents", "partial", "characters", "tokens", "chunks")
        counts = dict(zip(names, map(int, row), strict=True))
        for table in ("segments", "sessions"):
            counts[table] = int(self.database.query(f"SELECT count(*) FROM {table}")[0][0])
        return counts


def gone(chunk_id: int) -> StoreError:
    """The error for a chunk id that the library does not hold (any more)."""
    return StoreError(
        f"chunk {chunk_id} is not in the library, its document was removed or replaced: ask again"
    )


def _no_id(id: str) -> NotFound:
    return NotFound(f"no document has the id {id!r}: list the library's documents")


def _name_matches(name: str, rows: Sequence[DocumentRow]) -> list[list[DocumentRow]]:
    """Rows a name may mean, by decreasing strictness."""
    ways = [
        [row for row in rows if row.source == name],
        [row for row in rows if row.title == name],
        [row for row in rows if PurePath(row.source).name == name],
    ]
    if len(name) >= _MIN_PREFIX:
        ways.append([row for row in rows if row.id.startswith(name.lower())])
    return ways


def _partial_number(connection: sqlite3.Connection, id: str, chunks: int) -> int:
    row = connection.execute(
        "SELECT number, chunks FROM documents WHERE id = ? AND state = 'partial'", (id,)
    ).fetchone()
    if row is None or row[1] != chunks:
        raise StoreError(f"document {id} was changed by another writer: read it again")
    return int(row[0])


def _drop_source(connection: sqlite3.Connection, source: str, *, keep: int) -> list[str]:
    rows = connection.execute(
        "SELECT number FROM documents WHERE source = ? AND number <> ?", (source, keep)
    ).fetchall()
    return [name for (number,) in rows for name in _drop(connection, number)]


def _drop(connection: sqlite3.Connection, number: int) -> list[str]:
    """Remove a document's rows; returns the names of its segment files."""
    mine = "WHERE document = ?"
    files = connection.execute(f"SELECT name FROM segments {mine}", (number,)).fetchall()
    connection.execute(
        "INSERT INTO chunk_text (chunk_text, rowid, text)"
        f" SELECT 'delete', id, text FROM chunks {mine}",
        (number,),
    )
    for table in ("chunks", "segments", "places"):
        connection.execute(f"DELETE FROM {table} {mine}", (number,))
    connection.execute("DELETE FROM documents WHERE number = ?", (number,))
    return [name for (name,) in files]
