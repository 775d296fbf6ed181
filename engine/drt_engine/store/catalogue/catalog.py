"""Documents, segments, landmark files and settings as catalogue rows; chunks: ``chunk_rows``.

Knows nothing of segment files' contents, of tensors or of locks: the store decides who may write.
"""

from __future__ import annotations

import datetime
import difflib
import json
import re
import sqlite3
from collections.abc import Sequence
from pathlib import PurePath

from drt_engine.errors import CorruptStore, NotFound, StoreError
from drt_engine.store.catalogue.database import Database, Row
from drt_engine.store.catalogue.row_checksums import expect, pack_text
from drt_engine.store.catalogue.row_removal import (
    detach_segments,
    drop_document,
    drop_landmark_file,
    drop_source,
)
from drt_engine.store.catalogue.row_values import (
    put_setting,
    setting_checksum,
    update_document_checksum,
    update_segment_checksum,
)
from drt_engine.store.types import MAX_CHUNKS, ChunkText, DocumentRow, LandmarkFileRow, SegmentRow

VOCABULARY = "vocabulary"  # setting: how many token ids the model has

Place = tuple[int, int | None, str | None]  # start, page, section
Origins = tuple[int, str]  # start, anchors from there on

_MIN_PREFIX = 4
_SEGMENT_NAME = re.compile(r"[0-9a-f]{16}-[0-9]{8,}-[0-9a-f]{8}\.seg")
_LANDMARK_FILE_NAME = re.compile(r"shelf-[0-9a-f]{12}\.lmk")
_MOST_CHUNKS = 1 << 40  # of a library; more is a damaged number
_DOCUMENT = "id, title, source, media_type, characters, tokens, chunks, created, author, date"
_SEGMENT = (
    "s.id, d.id, s.name, s.first_ordinal, s.first_chunk, s.chunks, s.landmarks_crc, s.shelf,"
    " s.shelf_row"
)


def now() -> str:
    """Return the current time as it is stored: UTC, ISO 8601, whole seconds."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def storable(text: str) -> str:
    """Return text as SQLite takes it: bytes of a file name that are not UTF-8 become escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


# an IN list of any length as one parameter, which ``json_list`` makes
IN_LIST = "IN (SELECT value FROM json_each(?))"


def json_list(values: Sequence[int] | Sequence[str]) -> str:
    """Return the parameter for IN_LIST."""
    return json.dumps(values)


def nearest(name: str, names: Sequence[str]) -> str:
    """Return the end of a "no such name" sentence: what is alike, or else what exists."""
    if not names:
        return "there is none yet"
    folded = {candidate.casefold(): candidate for candidate in names}
    close = [
        folded[candidate] for candidate in difflib.get_close_matches(name.casefold(), folded, n=3)
    ]
    close += [candidate for candidate in names if name and name.casefold() in candidate.casefold()]
    if close:
        return f"did you mean {' or '.join(map(repr, dict.fromkeys(close[:3])))}?"
    rest_of_names = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"there is {', '.join(map(repr, names[:3]))}{rest_of_names}"


class Catalog:
    """Queries and changes on the tables; each changing method is one transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database

    # settings

    def get_setting(self, key: str) -> str | None:
        """Return a setting's text, or None; CorruptStore when it is not what was written."""
        row = self.database.first_row("SELECT value, seal FROM settings WHERE key = ?", (key,))
        if row is not None and row[1] != setting_checksum(key, row[0]):
            raise CorruptStore(
                f"the setting {key!r} in the catalogue {self.database.path} is damaged: restore the"
                " library from a copy, or read the documents into a new one"
            )
        return None if row is None else str(row[0])

    def set_setting(self, key: str, value: str) -> None:
        with self.database.transaction() as connection:
            put_setting(connection, key, value)

    # documents

    def documents(self, *, state: str = "ready") -> list[DocumentRow]:
        rows = self.database.query(
            f"SELECT {_DOCUMENT} FROM documents WHERE state = ? ORDER BY number", (state,)
        )
        return [_document(row) for row in rows]

    def document_by_id(self, document_id: str, *, state: str = "ready") -> DocumentRow | None:
        row = self.database.first_row(
            f"SELECT {_DOCUMENT} FROM documents WHERE id = ? AND state = ?", (document_id, state)
        )
        return None if row is None else _document(row)

    def documents_by_id(self, ids: Sequence[str]) -> list[DocumentRow]:
        rows = self.database.query(
            f"SELECT {_DOCUMENT} FROM documents WHERE id {IN_LIST} AND state = 'ready'"
            " ORDER BY number",
            (json_list(list(ids)),),
        )
        return [_document(row) for row in rows]

    def has_documents(self) -> bool:
        row = self.database.first_row("SELECT 1 FROM documents WHERE state = 'ready' LIMIT 1")
        return row is not None

    def document_at(self, source: str) -> DocumentRow | None:
        row = self.database.first_row(
            f"SELECT {_DOCUMENT} FROM documents WHERE source = ? AND state = 'ready'",
            (storable(source),),
        )
        return None if row is None else _document(row)

    def document(self, name: str) -> DocumentRow:
        """Return the one ready document that a name means; NotFound when none or several."""
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
        names = [row.title for row in rows] + [PurePath(row.source).name for row in rows]
        hint = nearest(name, list(dict.fromkeys(names)))
        raise NotFound(f"no document {name!r} in the library: {hint}")

    def number(self, document_id: str) -> int:
        """Return a ready document's row number; NotFound."""
        row = self.database.first_row(
            "SELECT number FROM documents WHERE id = ? AND state = 'ready'", (document_id,)
        )
        if row is None:
            raise _no_id(document_id)
        return int(row[0])

    def begin(
        self,
        document_id: str,
        title: str,
        *,
        source: str,
        media_type: str,
        author: str = "",
        date: str = "",
    ) -> DocumentRow:
        """Make or take up a partial document; StoreError when it is ready already."""
        with self.database.transaction() as connection:
            state_row = connection.execute(
                "SELECT state FROM documents WHERE id = ?", (document_id,)
            ).fetchone()
            if state_row is not None and state_row[0] == "ready":
                raise StoreError(
                    f"document {document_id} is in the library already: remove it to reread it"
                )
            connection.execute(
                "INSERT INTO documents"
                " (id, state, title, source, media_type, created, author, date)"
                " VALUES (?, 'partial', ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
                " title = excluded.title, source = excluded.source,"
                " media_type = excluded.media_type, author = excluded.author,"
                " date = excluded.date",
                (document_id, storable(title), storable(source), media_type, now())
                + (storable(author), storable(date)),
            )
            update_document_checksum(connection, _number_of(connection, document_id))
        row = self.document_by_id(document_id, state="partial")
        if row is None:
            raise StoreError(
                f"document {document_id} was removed by another process: read it again"
            )
        return row

    def finish(
        self,
        document_id: str,
        places: Sequence[Place],
        *,
        origins: Sequence[Origins] = (),
        created: str | None = None,
    ) -> list[str]:
        """Mark a document ready, replacing others of its source; returns the files to delete."""
        with self.database.transaction() as connection:
            number, source = connection.execute(
                "SELECT number, source FROM documents WHERE id = ?", (document_id,)
            ).fetchone()
            files = drop_source(connection, source, keep=number)
            connection.executemany(
                "INSERT INTO places VALUES (?, ?, ?, ?)", [(number, *place) for place in places]
            )
            connection.executemany(
                "INSERT INTO origins VALUES (?, ?, ?)",
                [(number, start, pack_text(anchors)) for start, anchors in origins],
            )
            connection.execute(
                "UPDATE documents SET state = 'ready', created = ? WHERE number = ?",
                (created or now(), number),
            )
            update_document_checksum(connection, number)
        return files

    def remove(self, document_id: str) -> list[str]:
        """Remove a document in any state; returns the files to delete; NotFound."""
        with self.database.transaction() as connection:
            return self.remove_in(connection, document_id)

    def remove_in(self, connection: sqlite3.Connection, document_id: str) -> list[str]:
        """Remove a document inside a transaction of the caller; NotFound."""
        row = connection.execute(
            "SELECT number FROM documents WHERE id = ?", (document_id,)
        ).fetchone()
        if row is None:
            raise _no_id(document_id)
        return drop_document(connection, row[0])

    def rename_source(self, document_id: str, source: str) -> list[str]:
        """Move a document to another source, replacing the one there.

        Returns the files to delete.
        """
        number, source = self.number(document_id), storable(source)
        with self.database.transaction() as connection:
            files = drop_source(connection, source, keep=number)
            connection.execute("UPDATE documents SET source = ? WHERE number = ?", (source, number))
            update_document_checksum(connection, number)
        return files

    def set_author_and_date(self, document_id: str, author: str, date: str) -> None:
        """Set what a ready document names as its author and date; NotFound."""
        number = self.number(document_id)
        with self.database.transaction() as connection:
            connection.execute(
                "UPDATE documents SET author = ?, date = ? WHERE number = ?",
                (storable(author), storable(date), number),
            )
            update_document_checksum(connection, number)

    def numbers(self, ids: Sequence[str], *, state: str = "ready") -> list[int]:
        """Return row numbers of documents of a state, in library order.

        Raises NotFound for an unknown id.
        """
        rows = self.database.query(
            f"SELECT id, number FROM documents WHERE id {IN_LIST} AND state = ?",
            (json_list(list(ids)), state),
        )
        number_of_id: dict[str, int] = dict(rows)
        for document_id in ids:
            if document_id not in number_of_id:
                raise _no_id(document_id)
        return sorted(number_of_id.values())

    def document_condition(
        self, ids: Sequence[str] | None, *, state: str = "ready"
    ) -> tuple[str, list[str]]:
        """Return a condition on ``d.number``, with its parameters, that keeps these documents."""
        if ids is None:
            return "", []
        return f"AND d.number {IN_LIST}", [json_list(self.numbers(ids, state=state))]

    # segments

    def add_segment(
        self,
        document_id: str,
        name: str,
        *,
        texts: Sequence[ChunkText],
        lengths: Sequence[int],
        first_ordinal: int,
        landmarks_crc: int,
    ) -> None:
        """Commit a written file's chunks as part of a partial document."""
        with self.database.transaction() as connection:
            number = _partial_number(connection, document_id, first_ordinal)
            first_chunk = _next_chunk(connection)
            last = connection.execute(
                "SELECT id, text FROM chunk_words WHERE id ="
                " (SELECT id FROM chunks WHERE document = ? AND ordinal = ?)",
                (number, first_ordinal - 1),
            ).fetchone()
            segment = connection.execute(
                "INSERT INTO segments"
                " (document, name, first_ordinal, first_chunk, chunks, landmarks_crc)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (number, name, first_ordinal, first_chunk, len(texts), landmarks_crc),
            ).lastrowid
            counted = list(enumerate(zip(texts, lengths, strict=True)))
            connection.executemany(
                "INSERT INTO chunks (id, document, ordinal, tokens, start, text, page, section)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (first_chunk + i, number, first_ordinal + i, tokens)
                    + (text.start, pack_text(text.text), text.page, text.section)
                    for i, (text, tokens) in counted
                ],
            )
            index = "INSERT INTO chunk_text (rowid, text) SELECT id, text FROM chunk_words WHERE id"
            if last is not None:  # it has words after it now
                connection.execute(
                    "INSERT INTO chunk_text (chunk_text, rowid, text) VALUES ('delete', ?, ?)", last
                )
                connection.execute(f"{index} = ?", (last[0],))
            connection.execute(f"{index} >= ?", (first_chunk,))
            connection.execute(
                "UPDATE documents SET characters = characters + ?, tokens = tokens + ?,"
                " chunks = chunks + ? WHERE number = ?",
                (sum(len(text.text) for text in texts), sum(lengths), len(texts), number),
            )
            update_segment_checksum(connection, int(segment or 0))
            update_document_checksum(connection, number)

    def segments(
        self, ids: Sequence[str] | None = None, *, state: str = "ready"
    ) -> list[SegmentRow]:
        """Return segments of documents of a state, in (document, ordinal) order."""
        where, parameters = self.document_condition(ids, state=state)
        rows = self.database.query(
            f"SELECT {_SEGMENT} FROM segments s JOIN documents d ON d.number = s.document"
            f" WHERE d.state = ? {where} ORDER BY s.document, s.first_ordinal",
            [state, *parameters],
        )
        return [_segment(row) for row in rows]

    def all_segments(self) -> list[SegmentRow]:
        """Return every committed segment, of partial documents too."""
        rows = self.database.query(
            f"SELECT {_SEGMENT} FROM segments s JOIN documents d ON d.number = s.document"
            " ORDER BY s.id"
        )
        return [_segment(row) for row in rows]

    def loose_segments(self, landmark_files: Sequence[int] = ()) -> list[SegmentRow]:
        """Return segments of ready documents that are in no landmark file, or in one of these."""
        rows = self.database.query(
            f"SELECT {_SEGMENT} FROM segments s JOIN documents d ON d.number = s.document"
            f" WHERE d.state = 'ready' AND (s.shelf IS NULL OR s.shelf {IN_LIST})"
            " ORDER BY s.document, s.first_ordinal",
            (json_list(list(landmark_files)),),
        )
        return [_segment(row) for row in rows]

    def count_loose_segments(self) -> tuple[int, int]:
        """Return how many segments of ready documents are in no landmark file, and their chunks."""
        row = self.database.first_row(
            "SELECT count(*), coalesce(sum(s.chunks), 0) FROM segments s"
            " JOIN documents d ON d.number = s.document WHERE d.state = 'ready' AND s.shelf IS NULL"
        )
        return (0, 0) if row is None else (int(row[0]), int(row[1]))

    def swap_segments(self, old: Sequence[SegmentRow], name: str, *, landmarks_crc: int) -> bool:
        """Replace some segments with consecutive chunks by one file; False when they are gone.

        Their landmarks are no longer counted in landmark files.
        """
        first = old[0]
        with self.database.transaction() as connection:
            number = connection.execute(
                f"SELECT min(document) FROM segments WHERE name {IN_LIST} HAVING count(*) = ?",
                (json_list([row.name for row in old]), len(old)),
            ).fetchone()
            if number is None:
                return False
            detach_segments(connection, [row.id for row in old])
            connection.executemany("DELETE FROM segments WHERE id = ?", [(row.id,) for row in old])
            segment = connection.execute(
                "INSERT INTO segments"
                " (document, name, first_ordinal, first_chunk, chunks, landmarks_crc)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (number[0], name, first.first_ordinal, first.first_chunk)
                + (sum(row.chunks for row in old), landmarks_crc),
            ).lastrowid
            update_segment_checksum(connection, int(segment or 0))
        return True

    # landmark files

    def landmark_files(self) -> list[LandmarkFileRow]:
        """Return all landmark files, in the order they were made."""
        rows = self.database.query("SELECT id, name, chunks, live, crc FROM shelves ORDER BY id")
        return [_landmark_file(row) for row in rows]

    def add_landmark_file(
        self, name: str, rows: Sequence[SegmentRow], *, crc: int, instead: Sequence[LandmarkFileRow]
    ) -> bool:
        """Record that a file holds these segments' landmarks, in this order.

        False if one is gone.
        """
        chunks = sum(row.chunks for row in rows)
        with self.database.transaction() as connection:
            present = connection.execute(
                f"SELECT count(*) FROM segments WHERE id {IN_LIST}",
                (json_list([r.id for r in rows]),),
            ).fetchone()
            if present[0] != len(rows):
                return False
            for old in instead:
                drop_landmark_file(connection, old.id)
            landmark_file = connection.execute(
                "INSERT INTO shelves (name, chunks, live, crc) VALUES (?, ?, ?, ?)",
                (name, chunks, chunks, crc),
            ).lastrowid
            at = 0
            for row in rows:
                connection.execute(
                    "UPDATE segments SET shelf = ?, shelf_row = ? WHERE id = ?",
                    (landmark_file, at, row.id),
                )
                at += row.chunks
        return True

    def drop_landmark_files(self, landmark_files: Sequence[LandmarkFileRow]) -> None:
        """Drop landmark files; scanning goes back to their segments."""
        with self.database.transaction() as connection:
            for landmark_file in landmark_files:
                drop_landmark_file(connection, landmark_file.id)

    # files read before

    def source_digest(self, path: str) -> tuple[str, str] | None:
        """Return the digest of a file's bytes when it was read, and the document that it gave."""
        row = self.database.first_row(
            "SELECT digest, document FROM sources WHERE path = ?", (storable(path),)
        )
        return None if row is None else (str(row[0]), str(row[1]))

    def note_source(self, path: str, digest: str, document: str) -> None:
        """Remember which bytes gave which document."""
        with self.database.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO sources VALUES (?, ?, ?)",
                (storable(path), digest, document),
            )

    def file_names(self) -> set[str]:
        """Return the names of all files that rows refer to."""
        rows = self.database.query("SELECT name FROM segments UNION ALL SELECT name FROM shelves")
        return {name for (name,) in rows}

    def has_segment(self, name: str) -> bool:
        return self.database.first_row("SELECT 1 FROM segments WHERE name = ?", (name,)) is not None

    def segment_of(self, chunk_id: int) -> SegmentRow | None:
        """Return the segment that holds a chunk."""
        row = self.database.first_row(
            f"SELECT {_SEGMENT} FROM segments s JOIN documents d ON d.number = s.document"
            " WHERE s.first_chunk <= ? ORDER BY s.first_chunk DESC LIMIT 1",
            (chunk_id,),
        )
        segment = None if row is None else _segment(row)
        if segment is None or chunk_id >= segment.first_chunk + segment.chunks:
            return None
        return segment

    def totals(self) -> dict[str, int]:
        """Return the counts over the whole library."""
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


def _no_id(document_id: str) -> NotFound:
    return NotFound(f"no document has the id {document_id!r}: list the library's documents")


def _document(row: Row) -> DocumentRow:
    expect(row, "ssssiiisss")
    return DocumentRow(*row)


def _segment(row: Row) -> SegmentRow:
    expect(row, "issiiinnn")
    segment = SegmentRow(*row)
    if not 1 <= segment.chunks <= MAX_CHUNKS or not _SEGMENT_NAME.fullmatch(segment.name):
        raise _strange(segment.name)
    return segment


def _landmark_file(row: Row) -> LandmarkFileRow:
    expect(row, "isiii")
    landmark_file = LandmarkFileRow(*row)
    has_valid_name = _LANDMARK_FILE_NAME.fullmatch(landmark_file.name)
    if not 0 <= landmark_file.live <= landmark_file.chunks < _MOST_CHUNKS or not has_valid_name:
        raise _strange(landmark_file.name)
    return landmark_file


def _strange(name: str) -> CorruptStore:
    return CorruptStore(
        f"the catalogue's row of {name!r} is none that a library writes: run `drt library check`"
    )


def _name_matches(name: str, rows: Sequence[DocumentRow]) -> list[list[DocumentRow]]:
    """Return rows a name may mean, by decreasing strictness."""
    ways = [
        [row for row in rows if row.source == name],
        [row for row in rows if row.title == name],
        [row for row in rows if PurePath(row.source).name == name],
    ]
    if len(name) >= _MIN_PREFIX:
        ways.append([row for row in rows if row.id.startswith(name.lower())])
    return ways


def _partial_number(connection: sqlite3.Connection, document_id: str, chunks: int) -> int:
    row = connection.execute(
        "SELECT number, chunks FROM documents WHERE id = ? AND state = 'partial'", (document_id,)
    ).fetchone()
    if row is None or row[1] != chunks:
        raise StoreError(f"document {document_id} was changed by another writer: read it again")
    return int(row[0])


def _number_of(connection: sqlite3.Connection, document_id: str) -> int:
    row = connection.execute("SELECT number FROM documents WHERE id = ?", (document_id,)).fetchone()
    return int(row[0])


def _next_chunk(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'chunks'").fetchone()
    return int((row or (0,))[0]) + 1
