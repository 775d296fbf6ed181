"""Lexical search over chunk texts: plain words in, BM25 scores out (SQLite FTS5).

FTS5 ranks every chunk that holds any of the words, which for frequent words are most of a large
library. Frequent words add little to a score: chunks without a rarer one are left out where it is
certain that none of them would be among the best. Knows nothing of landmarks; the caller's words
never reach FTS5 as syntax.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from drt_engine.store.catalogue.catalog import Catalog
from drt_engine.store.catalogue.database import IN_LIST, json_list
from drt_engine.text.lexical import search_terms

Hits = list[tuple[int, float]]

_FEW = 4096  # chunks that are ranked in a few milliseconds
_MOST = 2.2  # of its rarity (IDF), what one word can add to a score: FTS5's k1 + 1
_WORTH = 1.5  # rarities of the commonest kept word; more, and the try would hardly succeed


class IndexCounts(Protocol):
    """How large a full-text index is, and how frequent words are in it."""

    def last_chunk(self) -> int:
        """Return the number of chunks, or more where some were removed."""

    def counts(self, words: Sequence[str]) -> Mapping[str, int]:
        """Return how many chunks hold each word."""


class FullTextIndex(IndexCounts, Protocol):
    """The full-text index of one library, or of several as if they were one."""

    def ranked(self, needed: Sequence[str], free: Sequence[str], limit: int) -> Hits:
        """Return the best chunks with any of the needed words; those and the free ones score."""


def search_text(
    catalog: Catalog,
    query: str,
    *,
    documents: Sequence[str] | None = None,
    chunks: Collection[int] | None = None,
    limit: int = 50,
) -> Hits:
    """Return chunks of ready documents that hold any of the words, best first.

    Only of ``documents``, and only ``chunks``, where they are given.

    Returns (chunk id, score) pairs, a score being BM25, above zero, larger when better.
    """
    where, parameters = restriction(catalog, documents, chunks)
    return best_chunks(_CatalogIndex(catalog, where, parameters), query, limit)


def restriction(
    catalog: Catalog, documents: Sequence[str] | None, chunks: Collection[int] | None
) -> tuple[str, list[str | int]]:
    """Return a condition on documents ``d``, chunks ``c`` and the index ``f``, with its parameters.

    Of ``f`` the first and the last chunk: FTS5 passes over all others, which are most of a large
    library, where the other conditions look at each chunk that holds a word.
    """
    where, document_parameters = catalog.document_condition(documents)
    parameters: list[str | int] = [*document_parameters]
    span: tuple[int, int] | None = None
    if chunks is not None:
        where += f" AND c.id {IN_LIST}"
        parameters.append(json_list(sorted(chunks)))
        span = (min(chunks), max(chunks)) if chunks else None
    elif documents is not None:
        span = catalog.chunk_span(documents)
    if span is not None:
        where += " AND f.rowid BETWEEN ? AND ?"
        parameters += span
    return where, parameters


def holds_words(catalog: Catalog, query: str, documents: Sequence[str] | None) -> bool:
    """Return whether a chunk of ready documents, or of some of them, holds any of the words."""
    words = query_words(query)
    if not words:
        return False
    where, parameters = restriction(catalog, documents, None)
    row = catalog.database.first_row(
        "SELECT 1 FROM chunk_text f CROSS JOIN chunks c ON c.id = f.rowid"
        " CROSS JOIN documents d ON d.number = c.document"
        f" WHERE chunk_text MATCH ? AND d.state = 'ready' {where} LIMIT 1",
        (any_of(words), *parameters),
    )
    return row is not None


def query_words(query: str) -> list[str]:
    """Return the words of a query that are searched for, quoted."""
    return [f'"{word}"' for word in search_terms(query)]


def best_chunks(index: FullTextIndex, query: str, limit: int) -> Hits:
    """Return the chunks of an index that hold any word of a query, best first."""
    words = query_words(query)
    if not words or limit < 1:
        return []
    hits = _by_rarer_words(index, words, limit)
    if hits is None:
        hits = index.ranked(words, (), limit)
    return sorted(hits, key=lambda hit: (-hit[1], hit[0]))


class _CatalogIndex:
    """The index of a catalogue, restricted by a condition."""

    def __init__(self, catalog: Catalog, where: str, parameters: Sequence[str | int]) -> None:
        self._catalog = catalog
        self._where = where
        self._parameters = parameters

    def last_chunk(self) -> int:
        """Return the largest chunk id."""
        return last_chunk(self._catalog)

    def counts(self, words: Sequence[str]) -> Mapping[str, int]:
        """Return how many chunks hold each word."""
        return {word: count(self._catalog, word) for word in words}

    def ranked(self, needed: Sequence[str], free: Sequence[str], limit: int) -> Hits:
        """Return the best chunks as FTS5 ranks them."""
        rows = self._catalog.database.query(
            "SELECT c.id, -f.rank FROM chunk_text f CROSS JOIN chunks c ON c.id = f.rowid"
            " CROSS JOIN documents d ON d.number = c.document"
            f" WHERE chunk_text MATCH ? AND d.state = 'ready' {self._where}"
            " ORDER BY f.rank LIMIT ?",
            (_expression(needed, free), *self._parameters, limit),
        )
        times = 2 if free else 1  # that every word is in the expression
        return [(int(row[0]), float(row[1]) / times) for row in rows]


class RarerWords(NamedTuple):
    """Words of which the best chunks have one, the ``free`` others, and what these add at most."""

    needed: Sequence[str]
    free: Sequence[str]
    bound: float

    def are_enough(self, hits: Hits, limit: int) -> bool:
        """Return whether ``limit`` hits, best first, are certainly those that all words give."""
        return len(hits) == limit and hits[-1][1] > self.bound


def rarer_words(index: IndexCounts, words: Sequence[str], limit: int) -> RarerWords | None:
    """Return the words of a cheaper query that probably has the same hits as all of them."""
    chunks = index.last_chunk()
    if chunks <= _FEW or len(words) < 2:
        return None
    counts = index.counts(words)
    indexed_words = sorted((word for word in words if counts[word]), key=counts.__getitem__)
    if sum(counts.values()) <= _FEW:
        return None
    rarity = [_rarity(chunks, counts[word]) for word in indexed_words]
    for num_needed in range(1, len(indexed_words)):
        max_score_without = _MOST * sum(
            rarity[num_needed:]
        )  # of a chunk that holds none of the kept words
        enough = sum(counts[word] for word in indexed_words[:num_needed]) >= limit
        if enough and max_score_without <= _WORTH * rarity[num_needed - 1]:
            needed, free = indexed_words[:num_needed], indexed_words[num_needed:]
            return RarerWords(needed, free, max_score_without)
    return None


def _by_rarer_words(index: FullTextIndex, words: Sequence[str], limit: int) -> Hits | None:
    """Return the hits that all words give, from a cheaper query; None if that is not certain."""
    rarer = rarer_words(index, words, limit)
    if rarer is None:
        return None
    hits = index.ranked(rarer.needed, rarer.free, limit)
    return hits if rarer.are_enough(hits, limit) else None


def last_chunk(catalog: Catalog) -> int:
    """Return the largest chunk id, 0 without chunks."""
    row = catalog.database.first_row("SELECT max(id) FROM chunks")
    return int(row[0] or 0) if row is not None else 0


def count(catalog: Catalog, word: str) -> int:
    """Return how many chunks hold a quoted word."""
    row = catalog.database.first_row(
        "SELECT count(*) FROM chunk_text WHERE chunk_text MATCH ?", (word,)
    )
    return int(row[0]) if row is not None else 0


def _rarity(chunks: int, count: int) -> float:
    """Return FTS5's inverse document frequency, or more where chunks were removed."""
    return max(1e-6, math.log((chunks - count + 0.5) / (count + 0.5)))


def any_of(words: Sequence[str]) -> str:
    """Return the chunks with any of some quoted words."""
    return " OR ".join(words)


def _expression(needed: Sequence[str], free: Sequence[str]) -> str:
    """Return chunks with any of the needed words; with free ones every word twice, to count alike.

    FTS5 has no words that only count: these are the second half of an AND.
    """
    if not free:
        return any_of(needed)
    return f"({any_of(needed)}) AND ({any_of([*needed, *free, *free])})"
