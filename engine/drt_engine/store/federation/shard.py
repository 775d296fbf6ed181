"""One library of a federation, with the chunk ids that its chunks have there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from drt_engine.errors import FingerprintMismatch, LibraryUnavailable, StoreError
from drt_engine.store.catalogue.search import restriction
from drt_engine.store.federation.shard_words import Excluded, IndexSize, ShardWords, WordRows
from drt_engine.store.filesystem import library_folder
from drt_engine.store.types import DocumentRow
from drt_engine.store.view import LibraryView

Part = TypeVar("Part")
Scan = Callable[[LibraryView, Sequence[str] | None], Iterable[tuple[Sequence[int], Part]]]


@dataclass(frozen=True)
class Shard:
    """A library as a part of several.

    ``first`` is added to its chunk ids, so that ids count up through all shards. ``excluded`` are
    documents that an earlier shard has.
    """

    path: Path
    view: LibraryView
    first: int = 0
    excluded: Excluded = Excluded()

    @contextlib.contextmanager
    def reading(self) -> Iterator[LibraryView]:
        """Yield the library; raise ``LibraryUnavailable`` where it cannot be read as it should."""
        try:
            with library_folder.file_errors(self.path):
                yield self.view
        except (FingerprintMismatch, LibraryUnavailable):
            raise
        except StoreError as error:
            raise LibraryUnavailable(str(error), self.path) from error

    def documents(
        self, document_ids: Sequence[str] | None = None, *, partial: bool = False
    ) -> list[DocumentRow]:
        """Return its documents that count, or those of some that do, in full or interrupted."""
        with self.reading() as view:
            if partial:
                rows = view.partial_documents()
            elif document_ids is None:
                rows = view.documents()
            else:
                rows = view.documents_by_id(document_ids)
        allowed = None if document_ids is None else set(document_ids)
        return [
            row
            for row in rows
            if row.id not in self.excluded.ids and (allowed is None or row.id in allowed)
        ]

    def restricted(
        self, document_ids: Sequence[str] | None, *, partial: bool = False
    ) -> list[str] | None:
        """Return which of the documents it has, ``None`` for all that it has."""
        if document_ids is None and not self.excluded.ids:
            return None
        return [row.id for row in self.documents(document_ids, partial=partial)]

    def index(
        self, document_ids: Sequence[str] | None, chunk_ids: Collection[int] | None
    ) -> ShardText:
        """Return its full-text index for chunks of documents, and only for some chunks of all."""
        shard_chunk_ids = None
        if chunk_ids is not None:
            shard_chunk_ids = [c - self.first for c in chunk_ids if c > self.first]
        documents = self.restricted(document_ids)
        with self.reading() as view:
            where, parameters = restriction(view.catalog, documents, shard_chunk_ids)
            words = ShardWords(view.catalog, self.first, self.excluded, where, parameters)
        return ShardText(self, words)

    def parts(
        self, scan: Scan[Part], document_ids: Sequence[str] | None
    ) -> Iterator[tuple[Sequence[int], Part]]:
        """Yield what a scan of its documents yields, with the chunk ids among all shards."""
        with self.reading() as view:
            parts = iter(scan(view, document_ids))
        while True:
            with self.reading():
                part = next(parts, None)
            if part is None:
                return
            yield self.numbered(part[0]), part[1]

    def numbered(self, chunk_ids: Sequence[int]) -> Sequence[int]:
        """Return ids among all shards for ids of its own."""
        if not self.first:
            return chunk_ids
        if isinstance(chunk_ids, range):
            return range(chunk_ids.start + self.first, chunk_ids.stop + self.first)
        return [chunk_id + self.first for chunk_id in chunk_ids]


@dataclass(frozen=True)
class ShardText:
    """A shard's full-text index, which names the shard where it cannot be read."""

    shard: Shard
    words: ShardWords

    def size(self) -> IndexSize:
        """Return how many chunks and tokens it holds."""
        with self.shard.reading():
            return self.words.size()

    def last_chunk(self) -> int:
        """Return the number of chunks, or more where some were removed."""
        with self.shard.reading():
            return self.words.last_chunk()

    def counts(self, words: Sequence[str]) -> Mapping[str, int]:
        """Return how many chunks hold each quoted word."""
        with self.shard.reading():
            return self.words.counts(words)

    def rows(self, needed: Sequence[str], free: Sequence[str]) -> WordRows:
        """Return the chunks asked for with any of the needed words, by their ids among all."""
        with self.shard.reading():
            return self.words.rows(needed, free)
