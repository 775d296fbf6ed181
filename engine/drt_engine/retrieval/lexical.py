"""BM25 by SQLite's FTS5: how a question becomes a query, and an index in memory for training and
evaluation.

The store keeps the same kind of index in its catalogue; both use ``fts_query``. Knows nothing of
tensors.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence

TOKENIZER = "porter unicode61 remove_diacritics 2"

STOP_WORDS = frozenset(
    [
        "a",
        "about",
        "after",
        "all",
        "also",
        "am",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "because",
        "been",
        "before",
        "being",
        "but",
        "by",
        "can",
        "could",
        "did",
        "do",
        "does",
        "doing",
        "during",
        "each",
        "for",
        "from",
        "had",
        "has",
        "have",
        "having",
        "he",
        "her",
        "here",
        "hers",
        "him",
        "his",
        "how",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "itself",
        "just",
        "me",
        "more",
        "most",
        "my",
        "no",
        "nor",
        "not",
        "of",
        "off",
        "on",
        "once",
        "only",
        "or",
        "other",
        "our",
        "ours",
        "out",
        "over",
        "own",
        "same",
        "she",
        "should",
        "so",
        "some",
        "such",
        "than",
        "that",
        "the",
        "their",
        "theirs",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "those",
        "through",
        "to",
        "too",
        "under",
        "until",
        "up",
        "very",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "while",
        "who",
        "whom",
        "whose",
        "why",
        "will",
        "with",
        "would",
        "you",
        "your",
        "yours",
    ]
)


def fts_query(text: str) -> str | None:
    """Return the FTS5 query of some plain words, any of which may match, or ``None`` when there are
    no words.

    Stop words are dropped unless nothing else is left; every word is quoted, so no syntax can be
    injected.
    """
    words = list(dict.fromkeys(re.findall(r"\w+", text.lower())))
    kept = [w for w in words if w not in STOP_WORDS] or words
    return " OR ".join(f'"{w}"' for w in kept) or None


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
    """BM25 scores -> shares of the best score, in 0..1: comparable between collections of any size.
    """
    best = max(scores.values(), default=0.0)
    return {key: score / best for key, score in scores.items()} if best > 0 else {}
