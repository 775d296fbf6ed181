"""BM25 by SQLite's FTS5: how a question becomes a query, and an index in memory for training and
evaluation.

The store keeps the same kind of index in its catalogue; both use ``fts_query``. Knows nothing of
tensors.
"""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from collections.abc import Callable, Iterable, Sequence

from drt_engine.text.units import STOP_WORDS

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
    """BM25 over some texts, numbered from 0, in memory."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        self._db.execute(f"CREATE VIRTUAL TABLE t USING fts5(text, tokenize='{TOKENIZER}')")
        self._db.executemany("INSERT INTO t(rowid, text) VALUES (?, ?)", enumerate(texts))

    def search(self, question: str, limit: int = -1) -> list[tuple[int, float]]:
        """Return numbers and positive BM25 scores of the texts that share a word with the question,
        best first.
        """
        query = fts_query(question)
        if query is None:
            return []
        rows = self._db.execute(
            "SELECT rowid, -bm25(t) FROM t WHERE t MATCH ? ORDER BY bm25(t), rowid LIMIT ?",
            (query, limit),
        )
        return [(row, max(score, 0.0)) for row, score in rows]

    def close(self) -> None:
        """Free the index."""
        self._db.close()


def shares(scores: dict[int, float]) -> dict[int, float]:
    """BM25 scores -> shares of the best score, in 0..1: comparable between any collections."""
    best = max(scores.values(), default=0.0)
    return {key: score / best for key, score in scores.items()} if best > 0 else {}


def with_neighbours(
    shares: dict[int, float], neighbours: Callable[[int], Iterable[int | None]], part: float
) -> dict[int, float]:
    """Add ``part`` of the better share beside it to each chunk's: an answer often stands just
    across the border of the chunk that has the question's words.
    """
    if part == 0:
        return shares
    beside: dict[int, float] = {}
    for chunk, share in shares.items():
        for near in neighbours(chunk):
            if near is not None:
                beside[near] = max(beside.get(near, 0.0), share)
    return {c: shares.get(c, 0.0) + part * beside.get(c, 0.0) for c in {**shares, **beside}}
