"""Reads what can still be read of a damaged catalogue, row by row, and changes nothing.

SQLite stops a query at a damaged page; here the next one begins behind it. No row is trusted: a
document's text is whole where it has the id that the document is known by, and else it is not.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drt_engine.errors import CorruptStore
from drt_engine.store.catalogue.connection import connect, is_writable
from drt_engine.store.catalogue.row_checksums import expect, unpack_text
from drt_engine.store.catalogue.row_values import (
    document_checksum,
    session_checksum,
    setting_checksum,
)
from drt_engine.store.identity import TextHash
from drt_engine.store.tags import unpack_tags
from drt_engine.store.types import (
    ChunkText,
    DocumentRow,
    Origins,
    Place,
    SegmentRow,
    SessionRow,
)

_LAST = (1 << 63) - 1  # of SQLite's row numbers
_TEXT_COLUMNS = ("title", "source", "media_type", "created", "author", "date")
_FAULTS = (sqlite3.Error, UnicodeError, OverflowError)
Fields = dict[str, Any]


@dataclass
class DocumentRemains:
    """What is left of a document; ``chunks`` are those whose text can be read, in order."""

    row: DocumentRow
    chunks: list[ChunkText] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)  # tokens of each
    places: list[Place] = field(default_factory=list)
    origins: list[Origins] = field(default_factory=list)
    segments: list[SegmentRow] = field(default_factory=list)
    is_ready: bool = True  # it had been read to its end
    is_whole: bool = False  # its text is the one of its id
    is_described: bool = False  # title, source, places and origins are those that were written

    @property
    def name(self) -> str:
        """What a person knows it by."""
        return f"{self.row.title} ({self.row.source})"


class DamagedCatalogue:
    """An open catalogue that need not be whole."""

    def __init__(self, path: Path, *, timeout: float) -> None:
        self._connection = connect(path, timeout=timeout, read_only=not is_writable(path))
        self._connection.execute("PRAGMA writable_schema = ON")  # skips what it cannot parse
        self._connection.execute("PRAGMA trusted_schema = OFF")
        self._connection.execute("PRAGMA query_only = ON")

    def close(self) -> None:
        """Close it."""
        self._connection.close()

    def settings(self) -> dict[str, str]:
        """Return the settings whose checksums are right."""
        rows = self._selected("SELECT key, value, seal FROM settings")
        return {key: value for key, value, seal in rows if setting_checksum(key, value) == seal}

    def documents(self) -> Iterator[DocumentRemains]:
        """Yield what is left of each document, in the order in which they were read."""
        chunk_ids: dict[int, dict[int, int]] = {}  # document number -> ordinal -> chunk id
        for row in self._rows("chunks", "id, document, ordinal", key="id"):
            if all(type(value) is int for value in row.values()):
                chunk_ids.setdefault(row["document"], {})[row["ordinal"]] = row["id"]
        segments: dict[int, list[Fields]] = {}
        for row in self._rows("segments", "*", key="id"):
            segments.setdefault(row["document"], []).append(row)
        documents = {row["number"]: row for row in self._rows("documents", "*", key="number")}
        for number in sorted({*documents, *chunk_ids}):
            remains = _described(number, documents.get(number, {}), segments.get(number, []))
            self._add_texts(remains, chunk_ids.get(number, {}))
            self._add_places(remains, number, documents.get(number, {}).get("seal"))
            yield remains

    def sessions(self) -> Iterator[SessionRow]:
        """Yield the sessions whose checksums are right."""
        columns = ("name", "turns", "created", "updated", "meta", "transcript", "state")
        for row in self._rows("sessions", "rowid, *", key="rowid"):
            values: Any = tuple(row.get(column) for column in columns)
            try:
                expect(values, "sissssb")
                if session_checksum(values) == row.get("seal"):
                    yield SessionRow(
                        values[0], json.loads(values[5]), json.loads(values[4]), values[6],
                        *values[2:4],
                    )  # fmt: skip
            except (CorruptStore, ValueError):
                continue

    def _add_texts(self, remains: DocumentRemains, chunk_ids: dict[int, int]) -> None:
        text_hash, end = TextHash(), 0
        is_whole = sorted(chunk_ids) == list(range(len(chunk_ids)))
        for ordinal in sorted(chunk_ids):
            rows = self._selected(
                "SELECT start, text, page, section, tokens FROM chunks NOT INDEXED WHERE id = ?",
                chunk_ids[ordinal],
            )
            try:
                start, packed, page, section, tokens = next(rows)
                expect((start, page, section, tokens), "inti")
                text = packed if isinstance(packed, str) else unpack_text(packed)
                text_hash.update([text])
            except (StopIteration, CorruptStore, ValueError):
                is_whole = False
                continue
            is_whole = is_whole and start == end
            remains.chunks.append(ChunkText(end, text, page, section))
            remains.lengths.append(tokens)
            end += len(text)
        remains.is_whole = is_whole and text_hash.document_id == remains.row.id

    def _add_places(self, remains: DocumentRemains, number: int, seal: object) -> None:
        """Add pages, sections and the map to the file, where the row's checksum is right."""
        try:
            if not remains.is_whole or document_checksum(self._connection, number) != seal:
                return
            remains.places = list(
                self._selected(
                    "SELECT start, page, section FROM places WHERE document = ? ORDER BY start",
                    number,
                )
            )
            rows = self._selected(
                "SELECT start, anchors FROM origins WHERE document = ? ORDER BY start", number
            )
            remains.origins = [(start, unpack_text(packed)) for start, packed in rows]
            remains.is_described = True
        except (*_FAULTS, CorruptStore, TypeError):
            return

    def _selected(self, sql: str, *parameters: object) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query up to the first that cannot be read."""
        try:
            yield from self._connection.execute(sql, parameters)
        except _FAULTS:
            return

    def _rows(self, table: str, columns: str, *, key: str) -> Iterator[Fields]:
        """Yield the rows of a table that can be read, by their row numbers."""
        sql = f"SELECT {columns} FROM {table} NOT INDEXED WHERE {key} >= ? ORDER BY {key} LIMIT ?"
        begin: int | None = 0
        together = _LAST
        while begin is not None:
            try:
                cursor = self._connection.execute(sql, (begin, together))
                names = [column[0] for column in cursor.description]
                row: Fields | None = None
                for values in cursor:
                    row = dict(zip(names, values, strict=True))
                    yield row
                    begin = int(row[key]) + 1
                if together == _LAST or row is None:
                    return
                together = _LAST
            except _FAULTS:
                # an error takes the row before it along: ask for that one alone, then go on
                if together == _LAST:
                    together = 1
                    continue
                begin, together = self._behind_damage(sql, begin), _LAST

    def _behind_damage(self, sql: str, begin: int) -> int | None:
        """Return from where on rows can be read again, about the first such; None if nowhere."""
        failing, step = begin, 1
        while not self._is_readable(sql, begin + step):
            failing, step = begin + step, step * 2
            if begin + step > _LAST:
                return None
        readable = begin + step
        while readable - failing > 1:
            middle = (failing + readable) // 2
            if self._is_readable(sql, middle):
                readable = middle
            else:
                failing = middle
        return readable

    def _is_readable(self, sql: str, begin: int) -> bool:
        try:
            self._connection.execute(sql, (begin, 1)).fetchone()
        except _FAULTS:
            return False
        return True


def _described(number: int, fields: Fields, segments: list[Fields]) -> DocumentRemains:
    """Return a document without its texts; one whose row is lost is named by its segments."""
    rows = sorted(filter(_is_segment, segments), key=lambda row: int(row["first_ordinal"]))
    document_id = fields.get("id")
    if not isinstance(document_id, str):
        name = str(rows[0]["name"]) if rows else f"document {number}"
        document_id = name.partition("-")[0]
    texts = {
        column: value
        for column in _TEXT_COLUMNS
        if isinstance(value := fields.get(column), str) and value
    }
    try:
        tags = unpack_tags(str(fields.get("tags") or ""))
    except CorruptStore:
        tags = ()
    title = texts.get("title", document_id)
    described = DocumentRow(
        document_id, title, texts.get("source", title), texts.get("media_type", "text/plain"),
        0, 0, 0, texts.get("created", ""), texts.get("author", ""), texts.get("date", ""), tags,
    )  # fmt: skip
    return DocumentRemains(
        described,
        segments=[
            SegmentRow(
                0, document_id, row["name"], row["first_ordinal"], row["first_chunk"],
                row["chunks"], row.get("landmarks_crc"), None, None,
            )
            for row in rows
        ],
        is_ready=fields.get("state", "ready") == "ready",
    )  # fmt: skip


def _is_segment(row: Fields) -> bool:
    try:
        expect(
            [row.get(name) for name in ("name", "first_ordinal", "first_chunk", "chunks")], "siii"
        )
    except CorruptStore:
        return False
    return True
