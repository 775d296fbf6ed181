"""The catalogue: segments and consolidated landmark files as rows, with the documents' rows.

Knows nothing of segment files' contents, of tensors or of locks: the store decides who may write.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Sequence

from drt_engine.errors import CorruptStore, StoreError
from drt_engine.store.catalogue.database import IN_LIST, Row, json_list
from drt_engine.store.catalogue.document_rows import DocumentRows
from drt_engine.store.catalogue.row_checksums import expect, pack_text
from drt_engine.store.catalogue.row_removal import detach_segments, drop_landmark_file
from drt_engine.store.catalogue.row_values import (
    put_setting,
    update_document_checksum,
    update_segment_checksum,
)
from drt_engine.store.index.format import SETTING, IndexRow
from drt_engine.store.types import MAX_CHUNKS, ChunkText, LandmarkFileRow, SegmentRow

_SEGMENT_NAME = re.compile(r"[0-9a-f]{16}-[0-9]{8,}-[0-9a-f]{8}\.seg")
_LANDMARK_FILE_NAME = re.compile(r"shelf-[0-9a-f]{12}\.lmk")
_MOST_CHUNKS = 1 << 40  # of a library; more is a damaged number
_SEGMENT = (
    "s.id, d.id, s.name, s.first_ordinal, s.first_chunk, s.chunks, s.landmarks_crc, s.shelf,"
    " s.shelf_row"
)


class Catalog(DocumentRows):
    """All of the catalogue but chunks' texts; each changing method is one transaction."""

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

    def segments_between(self, first_chunk: int, stop: int | None = None) -> list[SegmentRow]:
        """Return segments of ready documents whose first chunk is ``first_chunk`` or later.

        Those that begin before ``stop``, where it is given.
        """
        rows = self.database.query(
            f"SELECT {_SEGMENT} FROM segments s JOIN documents d ON d.number = s.document"
            " WHERE d.state = 'ready' AND s.first_chunk >= ? AND s.first_chunk < ?"
            " ORDER BY s.document, s.first_ordinal",
            (first_chunk, _MOST_CHUNKS if stop is None else stop),
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

    def landmark_runs(self, landmark_file: LandmarkFileRow) -> list[tuple[int, int]]:
        """Return the rows of a file whose chunks are still there, as spans: (first, stop)."""
        rows = self.database.query(
            "SELECT shelf_row, before, stop, after FROM (SELECT shelf_row,"
            " lag(shelf_row + chunks) OVER in_file AS before, shelf_row + chunks AS stop,"
            " lead(shelf_row) OVER in_file AS after"
            " FROM segments WHERE shelf = ? WINDOW in_file AS (ORDER BY shelf_row))"
            " WHERE before IS NOT shelf_row OR after IS NOT stop",
            (landmark_file.id,),
        )
        for row in rows:
            expect(row, "inin")
        # a span begins where none ends, and ends where none begins
        firsts = [first for first, before, _, _ in rows if before != first]
        stops = [stop for _, _, stop, after in rows if after != stop]
        return list(zip(firsts, stops, strict=True))

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

    # the approximate index

    def index_row(self) -> IndexRow | None:
        """Return which file is the approximate index, if there is one; CorruptStore."""
        text = self.get_setting(SETTING)
        return None if text is None else IndexRow.parse(text)

    def set_index_row(self, row: IndexRow | None) -> None:
        """Name another file as the approximate index, or none."""
        with self.database.transaction() as connection:
            if row is not None:
                put_setting(connection, SETTING, row.text())
            else:
                connection.execute("DELETE FROM settings WHERE key = ?", (SETTING,))

    # the whole

    def file_names(self) -> set[str]:
        """Return the names of all files that rows refer to."""
        rows = self.database.query("SELECT name FROM segments UNION ALL SELECT name FROM shelves")
        names: set[str] = {name for (name,) in rows}
        with contextlib.suppress(CorruptStore):  # which ``check`` reports
            index = self.index_row()
            names |= set() if index is None else {index.name}
        return names

    def has_segment(self, name: str) -> bool:
        return self.database.first_row("SELECT 1 FROM segments WHERE name = ?", (name,)) is not None

    def chunk_span(self, document_ids: Sequence[str]) -> tuple[int, int] | None:
        """Return the first and the last chunk of ready documents, with others between them."""
        row = self.database.first_row(
            "SELECT min(first_chunk), max(first_chunk + chunks - 1) FROM segments"
            f" WHERE document {IN_LIST}",
            (json_list(self.numbers(document_ids)),),
        )
        return None if row is None or row[0] is None else (int(row[0]), int(row[1]))

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

    def segments_of(self, chunk_ids: Sequence[int]) -> dict[int, SegmentRow]:
        """Return the segments that hold some chunks, by chunk id; without those that are gone."""
        rows = self.database.query(
            f"SELECT j.value, {_SEGMENT} FROM json_each(?) j JOIN segments s ON s.first_chunk ="
            " (SELECT max(first_chunk) FROM segments WHERE first_chunk <= j.value)"
            " JOIN documents d ON d.number = s.document",
            (json_list(list(chunk_ids)),),
        )
        segments = {row[0]: _segment(row[1:]) for row in rows}
        return {
            chunk_id: segment
            for chunk_id, segment in segments.items()
            if chunk_id < segment.first_chunk + segment.chunks
        }

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


def _partial_number(connection: sqlite3.Connection, document_id: str, chunks: int) -> int:
    row = connection.execute(
        "SELECT number, chunks FROM documents WHERE id = ? AND state = 'partial'", (document_id,)
    ).fetchone()
    if row is None or row[1] != chunks:
        raise StoreError(f"document {document_id} was changed by another writer: read it again")
    return int(row[0])


def _next_chunk(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'chunks'").fetchone()
    return int((row or (0,))[0]) + 1
