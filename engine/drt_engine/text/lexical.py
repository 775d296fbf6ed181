"""BM25 by SQLite's FTS5: questions as queries, scores, and an index in memory.

The store keeps the same kind of index in its catalogue; training and evaluation use the one here.
All use ``fts_query``. Knows nothing of tensors.
"""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

from drt_engine.text.words import STOP_WORDS

TOKENIZER = "porter unicode61 remove_diacritics 2"

# The combining marks are those that FTS5's unicode61 keeps inside a word.
_WORD = re.compile(r"(?:[^\W_][\u0300-\u036f]*)+")


def search_terms(text: str) -> list[str]:
    """Return the distinct words to search for: no stop words, unless nothing else is left."""
    words = _WORD.findall(unicodedata.normalize("NFC", text).lower())
    distinct = list(dict.fromkeys(words))
    return [word for word in distinct if word not in STOP_WORDS] or distinct


def fts_query(text: str) -> str | None:
    """Return the FTS5 query of some plain words, any of which may match; ``None`` without words.

    Every word is quoted, so no syntax can be injected.
    """
    return " OR ".join(f'"{word}"' for word in search_terms(text)) or None


class LexicalIndex:
    """A BM25 index in memory over some texts, which are numbered from 0."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        self._db.execute(f"CREATE VIRTUAL TABLE t USING fts5(text, tokenize='{TOKENIZER}')")
        self._db.executemany("INSERT INTO t(rowid, text) VALUES (?, ?)", enumerate(texts))

    def search(self, question: str, limit: int = -1) -> list[tuple[int, float]]:
        """Return numbers and BM25 scores (0 or more) of texts that match any word, best first."""
        query = fts_query(question)
        if query is None:
            return []
        # FTS5's bm25() is negative, the best score the lowest. Equal scores come in text order.
        rows = self._db.execute(
            "SELECT rowid, -bm25(t) FROM t WHERE t MATCH ? ORDER BY bm25(t), rowid LIMIT ?",
            (query, limit),
        )
        return [(row, max(score, 0.0)) for row, score in rows]

    def close(self) -> None:
        """Free the index."""
        self._db.close()

    # Python 3.13 and later warn of connections that nobody closed, those in memory too.
    __del__ = close


def normalised_bm25(scores: dict[int, float]) -> dict[int, float]:
    """Return BM25 scores divided by the best: 0..1, so comparable between collections.

    Raw BM25 grows with the collection and with the number of words in the question.
    """
    best = max(scores.values(), default=0.0)
    return {key: score / best for key, score in scores.items()} if best > 0 else {}


def with_neighbours(
    scores: Mapping[int, float],
    neighbours: Mapping[int, Iterable[int | None]],
    weight: float,
) -> dict[int, float]:
    """Add to each chunk's score ``weight`` times the better score of the chunks beside it.

    ``neighbours`` holds the previous and next chunk of each scored chunk. An answer is often just
    across the border of the chunk that has the question's words.
    """
    if weight == 0:
        return dict(scores)
    beside: dict[int, float] = {}
    for chunk_id, score in scores.items():
        for neighbour in neighbours[chunk_id]:
            if neighbour is not None:
                beside[neighbour] = max(beside.get(neighbour, 0.0), score)
    # Chunks with words of their own come first, then those that only have a neighbour with some.
    return {c: scores.get(c, 0.0) + weight * beside.get(c, 0.0) for c in {**scores, **beside}}
