"""Queries on chunk rows: texts, places and neighbours. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from drt_engine.errors import StoreError
from drt_engine.store.catalogue.block_rows import block_groups
from drt_engine.store.catalogue.catalog import Catalog
from drt_engine.store.catalogue.database import IN_LIST, Row, json_list
from drt_engine.store.catalogue.row_checksums import expect, unpack_text
from drt_engine.store.identity import TextHash
from drt_engine.store.types import Blocks, ChunkRow, ChunkText

_TEXT_BLOCK = 256  # chunks fetched at a time while a text is streamed


class Texts:
    """What the catalogue knows of chunks."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._database = catalog.database

    def chunk_rows(self, chunk_ids: Sequence[int]) -> list[ChunkRow]:
        """Return chunks in the order asked for; StoreError for one that is gone."""
        rows = self._database.query(
            "SELECT c.id, d.id, c.ordinal, c.start, c.text, c.page, c.section FROM chunks c"
            f" JOIN documents d ON d.number = c.document WHERE c.id {IN_LIST}",
            (json_list(list(chunk_ids)),),
        )
        row_of_chunk = {row[0]: _chunk(row) for row in rows}
        for chunk_id in chunk_ids:
            if chunk_id not in row_of_chunk:
                raise missing_chunk(chunk_id)
        return [row_of_chunk[chunk_id] for chunk_id in chunk_ids]

    def neighbours_of(self, chunk_ids: Sequence[int]) -> dict[int, tuple[int | None, int | None]]:
        """Return the previous and next chunk of each chunk in its document, in one query.

        Raises ``StoreError`` when a chunk is gone.
        """
        rows = self._database.query(
            "SELECT c.id, p.id, n.id FROM chunks c"
            " LEFT JOIN chunks p ON p.document = c.document AND p.ordinal = c.ordinal - 1"
            " LEFT JOIN chunks n ON n.document = c.document AND n.ordinal = c.ordinal + 1"
            f" WHERE c.id {IN_LIST}",
            (json_list(list(chunk_ids)),),
        )
        neighbours = {chunk_id: (before, after) for chunk_id, before, after in rows}
        for chunk_id in chunk_ids:
            if chunk_id not in neighbours:
                raise missing_chunk(chunk_id)
        return neighbours

    def text(self, document_id: str, start: int, end: int) -> str:
        """Return ``document_text[start:end]``, for offsets that are not negative."""
        if start < 0 or end < 0:
            raise ValueError(f"text offsets are {start} and {end}, expected none below zero")
        number = self._catalog.number(document_id)
        rows = self._database.query(
            "SELECT start, text FROM chunks WHERE document = ? AND start < ? AND start >= coalesce("
            "(SELECT max(start) FROM chunks WHERE document = ? AND start <= ?), 0)"
            " ORDER BY ordinal",
            (number, end, number, start),
        )
        if not rows:
            return ""
        for row in rows:
            expect(row, "ib")
        first = rows[0][0]
        return "".join(unpack_text(text) for _, text in rows)[start - first : max(end - first, 0)]

    def blocks(self, document_id: str) -> Iterator[range]:
        """Return blocks of ordinals to stream a document's text by."""
        row = self._database.first_row(
            "SELECT chunks FROM documents WHERE number = ?", (self._catalog.number(document_id),)
        )
        expect(row or (0,), "i")
        total = 0 if row is None else row[0]
        return (range(i, min(i + _TEXT_BLOCK, total)) for i in range(0, total, _TEXT_BLOCK))

    def block(self, document_id: str, ordinals: range) -> list[ChunkText]:
        """Return consecutive chunks' texts; StoreError when they are gone meanwhile."""
        rows = self._database.query(
            "SELECT c.start, c.text, c.page, c.section FROM documents d"
            " JOIN chunks c ON c.document = d.number WHERE d.id = ?"
            " AND c.ordinal BETWEEN ? AND ? ORDER BY c.ordinal",
            (document_id, ordinals.start, ordinals.stop - 1),
        )
        if len(rows) != len(ordinals):
            raise StoreError(
                f"document {document_id} was removed while it was read: list the documents"
            )
        for row in rows:
            expect(row, "ibnt")
        return [
            ChunkText(start, unpack_text(text), page, section)
            for start, text, page, section in rows
        ]

    def hash_of(self, document_id: str) -> TextHash:
        """Return the hash of a document's text, or of what is there of an interrupted reading."""
        text_hash, ordinal = TextHash(), 0
        while True:
            rows = self._database.query(
                "SELECT c.text FROM documents d JOIN chunks c ON c.document = d.number"
                " WHERE d.id = ? AND c.ordinal >= ? ORDER BY c.ordinal LIMIT ?",
                (document_id, ordinal, _TEXT_BLOCK),
            )
            text_hash.update(unpack_text(text) for (text,) in rows)
            ordinal += len(rows)
            if len(rows) < _TEXT_BLOCK:
                return text_hash

    def tokens(self, document_id: str, ordinals: range) -> list[int]:
        """Return how many tokens each of some consecutive chunks has."""
        rows = self._database.query(
            "SELECT tokens FROM chunks WHERE document = ? AND ordinal BETWEEN ? AND ?"
            " ORDER BY ordinal",
            (self._catalog.number(document_id), ordinals.start, ordinals.stop - 1),
        )
        for row in rows:
            expect(row, "i")
        return [tokens for (tokens,) in rows]

    def place(self, document_id: str, start: int) -> tuple[int | None, str | None]:
        """Return page and section of the character at ``start``."""
        row = self._database.first_row(
            "SELECT page, section FROM places WHERE document = ? AND start <= ?"
            " ORDER BY start DESC LIMIT 1",
            (self._catalog.number(document_id), start),
        )
        expect(row or (None, None), "nt")
        return (None, None) if row is None else (row[0], row[1])

    def places(self, document_id: str) -> list[tuple[int, int | None, str | None]]:
        """Return where page or section change: (start, page, section), in order."""
        rows = self._database.query(
            "SELECT start, page, section FROM places WHERE document = ? ORDER BY start",
            (self._catalog.number(document_id),),
        )
        for row in rows:
            expect(row, "int")
        return [(row[0], row[1], row[2]) for row in rows]

    def placed_parts(
        self, document_ids: Sequence[str]
    ) -> Iterator[tuple[str, int, int, int | None, str | None]]:
        """Yield the parts of documents with one page and section: (id, start, end, page, section).

        In order; a part ends where the next begins, the last with its document.
        """
        rows = self._database.query(
            "SELECT d.id, d.characters, p.start, p.page, p.section FROM documents d"
            f" JOIN places p ON p.document = d.number WHERE d.id {IN_LIST} AND d.state = 'ready'"
            " ORDER BY d.number, p.start",
            (json_list(list(document_ids)),),
        )
        for row, following in zip_longest(rows, rows[1:]):
            expect(row, "siint")
            document_id, characters, start, page, section = row
            same = following is not None and following[0] == document_id
            yield document_id, start, following[2] if same else characters, page, section

    def chunk_ids_between(self, document_id: str, start: int, end: int) -> list[int]:
        """Return the ids of the chunks that have characters ``start:end`` of a document."""
        number = self._catalog.number(document_id)
        rows = self._database.query(
            "SELECT id FROM chunks WHERE document = ? AND start < ? AND start >= coalesce("
            "(SELECT max(start) FROM chunks WHERE document = ? AND start <= ?), 0)",
            (number, end, number, start),
        )
        return [chunk_id for (chunk_id,) in rows]

    def origins(self, document_id: str, start: int, end: int | None) -> list[tuple[int, str]]:
        """Return what leads from the text between two characters to its file: (start, anchors)."""
        number = self._catalog.number(document_id)
        rows = self._database.query(
            "SELECT start, anchors FROM origins WHERE document = ? AND (? IS NULL OR start < ?)"
            " AND start >= coalesce("
            "(SELECT max(start) FROM origins WHERE document = ? AND start <= ?), 0)"
            " ORDER BY start",
            (number, end, end, number, start),
        )
        for row in rows:
            expect(row, "ib")
        return [(row[0], unpack_text(row[1])) for row in rows]

    def tree(self, document_id: str, start: int, end: int | None) -> list[Blocks]:
        """Return the groups of a document's block tree between two characters: (start, nodes)."""
        return block_groups(self._database.query, self._catalog.number(document_id), start, end)


def _chunk(row: Row) -> ChunkRow:
    expect(row, "isiibnt")
    chunk_id, document, ordinal, start, text, page, section = row
    return ChunkRow(chunk_id, document, ordinal, start, unpack_text(text), page, section)


def missing_chunk(chunk_id: int) -> StoreError:
    """Return the error for a chunk id that the library does not hold (any more)."""
    return StoreError(
        f"chunk {chunk_id} is not in the library, its document was removed or replaced: ask again"
    )
