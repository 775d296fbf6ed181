"""The words of a library's full-text index, each with the number of chunks that hold it.

Whoever asks many libraries keeps these tables, so that no question waits for their counts.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drt_engine.store.catalogue.catalog import Catalog
from drt_engine.store.federation.shard_state import ShardState, shard_state
from drt_engine.text.lexical import TOKENIZER

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Vocabulary:
    """The terms of an index in the order of their UTF-8 bytes, as of a state.

    ``text`` holds term after term, term ``n`` ends before ``ends[n]``, [n] int64, and is in
    ``counts[n]`` chunks, [n] int32: eight bytes a term and its letters.
    """

    state: ShardState
    text: bytes
    ends: NDArray[np.int64]
    counts: NDArray[np.int32]

    @classmethod
    def read(cls, catalog: Catalog) -> Vocabulary:
        """Read the table of a snapshot's index, from end to end."""
        import numpy as np

        state = shard_state(catalog)
        with catalog.database.reading() as connection:
            # A table of the connection alone, for which a snapshot has to be told that it may.
            connection.execute("PRAGMA query_only = OFF")
            connection.execute(
                "CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab(main, chunk_text, row)"
            )
            rows = connection.execute("SELECT term, doc FROM temp.vocabulary").fetchall()
            connection.execute("DROP TABLE temp.vocabulary")
            connection.execute("PRAGMA query_only = ON")
        terms = [row[0].encode() for row in rows]
        return cls(
            state,
            b"".join(terms),
            np.cumsum([len(term) for term in terms], dtype=np.int64),
            np.fromiter((row[1] for row in rows), np.int32, len(rows)),
        )

    def count(self, term: str) -> int:
        """Return how many chunks hold a term of the index."""
        key = term.encode()
        number = bisect_left(range(len(self.ends)), key, key=self._term)
        if number == len(self.ends) or self._term(number) != key:
            return 0
        return int(self.counts[number])

    def _term(self, number: int) -> bytes:
        return self.text[self.ends[number - 1] if number else 0 : self.ends[number]]


class Terms:
    """Says under which term an index has a word: its stem without marks, as FTS5 makes it."""

    def __init__(self) -> None:
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._database.execute(
            f"CREATE VIRTUAL TABLE words USING fts5(word, tokenize='{TOKENIZER}')"
        )
        self._database.execute("CREATE VIRTUAL TABLE terms USING fts5vocab(words, instance)")

    def of(self, words: Sequence[str]) -> dict[str, str]:
        """Return the terms of quoted words; without those that are no term, or several."""
        self._database.execute("DELETE FROM words")
        self._database.executemany(
            "INSERT INTO words (rowid, word) VALUES (?, ?)", enumerate(words)
        )
        terms: dict[int, list[str]] = {}
        for number, term in self._database.execute("SELECT doc, term FROM terms"):
            terms.setdefault(number, []).append(term)
        return {words[number]: parts[0] for number, parts in terms.items() if len(parts) == 1}

    def close(self) -> None:
        """Free the table."""
        self._database.close()
