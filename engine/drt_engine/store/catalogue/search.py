"""Lexical search over chunk texts: plain words in, BM25 scores out (SQLite FTS5).

FTS5 ranks every chunk that holds any of the words, which for frequent words are most of a large
library. Frequent words add little to a score: chunks without a rarer one are left out where it is
certain that none of them would be among the best. Knows nothing of landmarks; the caller's words
never reach FTS5 as syntax.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import partial

from drt_engine.store.catalogue.catalog import Catalog
from drt_engine.store.catalogue.database import IN_LIST, json_list
from drt_engine.text.lexical import search_terms

Hits = list[tuple[int, float]]

_FEW = 4096  # chunks that are ranked in a few milliseconds
_MOST = 2.2  # of its rarity (IDF), what one word can add to a score: FTS5's k1 + 1
_WORTH = 1.5  # rarities of the commonest kept word; more, and the try would hardly succeed


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
    words = [f'"{word}"' for word in search_terms(query)]
    if not words or limit < 1:
        return []
    where, parameters = catalog.document_condition(documents)
    if chunks is not None:
        where += f" AND c.id {IN_LIST}"
        parameters = [*parameters, json_list(sorted(chunks))]
    rank = partial(_ranked, catalog, where, parameters, limit)
    hits = _by_rarer_words(catalog, words, rank, limit)
    if hits is None:
        hits = rank(" OR ".join(words), 1)
    return sorted(hits, key=lambda hit: (-hit[1], hit[0]))


def _ranked(
    catalog: Catalog, where: str, parameters: Sequence[str], limit: int, expression: str, times: int
) -> Hits:
    """Return the best chunks for an expression that holds every word so many times."""
    rows = catalog.database.query(
        "SELECT c.id, -f.rank FROM chunk_text f CROSS JOIN chunks c ON c.id = f.rowid"
        " CROSS JOIN documents d ON d.number = c.document"
        f" WHERE chunk_text MATCH ? AND d.state = 'ready' {where} ORDER BY f.rank LIMIT ?",
        (expression, *parameters, limit),
    )
    return [(int(row[0]), float(row[1]) / times) for row in rows]


def _by_rarer_words(
    catalog: Catalog, words: Sequence[str], rank: Callable[[str, int], Hits], limit: int
) -> Hits | None:
    """Return the hits that all words give, from a cheaper query; None if that is not certain."""
    row = catalog.database.first_row("SELECT max(id) FROM chunks")
    chunks = int(row[0] or 0) if row is not None else 0
    if chunks <= _FEW or len(words) < 2:
        return None
    counts = {word: _count(catalog, word) for word in words}
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
            hits = rank(_expression(indexed_words[:num_needed], indexed_words[num_needed:]), 2)
            certain = len(hits) == limit and hits[-1][1] > max_score_without
            return hits if certain else None
    return None


def _count(catalog: Catalog, word: str) -> int:
    row = catalog.database.first_row(
        "SELECT count(*) FROM chunk_text WHERE chunk_text MATCH ?", (word,)
    )
    return int(row[0]) if row is not None else 0


def _rarity(chunks: int, count: int) -> float:
    """Return FTS5's inverse document frequency, or more where chunks were removed."""
    return max(1e-6, math.log((chunks - count + 0.5) / (count + 0.5)))


def _expression(needed: Sequence[str], free: Sequence[str]) -> str:
    """Return chunks with any of the needed words; every word twice, so that all count alike.

    FTS5 has no words that only count: these are the second half of an AND.
    """
    any_needed = " OR ".join(needed)
    return f"({any_needed}) AND ({' OR '.join([*needed, *free, *free])})"
