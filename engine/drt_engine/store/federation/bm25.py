"""BM25 over several libraries with the statistics of all: the scores that FTS5 gives in one.

Numbers of chunks, of tokens and of chunks with each word are summed over the shards; then each
chunk is scored as FTS5 does it, operation by operation, so that not even the last bit differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Protocol

from drt_engine.store.catalogue.search import Hits
from drt_engine.store.federation.shard_words import K1, B, IndexSize, WordRows, rarity

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class ShardIndex(Protocol):
    """The full-text index of one shard, without the documents that an earlier shard has too."""

    def size(self) -> IndexSize:
        """Return how many chunks and tokens it holds."""

    def last_chunk(self) -> int:
        """Return the number of chunks, or more where some were removed."""

    def counts(self, words: Sequence[str]) -> Mapping[str, int]:
        """Return how many chunks hold each quoted word."""

    def rows(self, needed: Sequence[str], free: Sequence[str]) -> WordRows:
        """Return the chunks asked for with any of the needed words, their ids those of all."""


@dataclass(frozen=True)
class WordStatistics:
    """What scoring words needs to know of all shards together.

    ``counts`` are the chunks that hold each quoted word. As an index it ranks nothing.
    """

    size: IndexSize
    chunks: int  # or more, where some were removed
    counts_by_word: Mapping[str, int]

    def last_chunk(self) -> int:
        """Return the number of chunks, or more where some were removed."""
        return self.chunks

    def counts(self, words: Sequence[str]) -> Mapping[str, int]:
        """Return how many chunks hold each word."""
        return {word: self.counts_by_word[word] for word in words}


@dataclass(frozen=True)
class FederatedIndex:
    """The full-text indexes of several shards as if they were one."""

    shards: Sequence[ShardIndex]

    def last_chunk(self) -> int:
        """Return the number of chunks, or more where some were removed."""
        return sum(shard.last_chunk() for shard in self.shards)

    def counts(self, words: Sequence[str]) -> Mapping[str, int]:
        """Return how many chunks hold each word."""
        by_shard = [shard.counts(words) for shard in self.shards]
        return {word: sum(counts[word] for counts in by_shard) for word in words}

    def ranked(self, needed: Sequence[str], free: Sequence[str], limit: int) -> Hits:
        """Return the best chunks with any of the needed words; those and the free ones score."""
        size = reduce(add, (shard.size() for shard in self.shards), IndexSize())
        counts = self.counts([*needed, *free])
        statistics = WordStatistics(size, self.last_chunk(), counts)
        hits = (ranked(shard, statistics, needed, free, limit=limit) for shard in self.shards)
        return merged(hits, limit)


def merged(hits_by_shard: Iterable[Hits], limit: int) -> Hits:
    """Return the best of the shards' hits, of equals the lower ids."""
    hits = [hit for hits in hits_by_shard for hit in hits]
    return sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:limit]


def ranked(
    shard: ShardIndex,
    statistics: WordStatistics,
    needed: Sequence[str],
    free: Sequence[str],
    *,
    limit: int,
) -> Hits:
    """Return one shard's best chunks with any of the needed words, scored as among all shards."""
    if not statistics.size.rows:
        return []
    counts = statistics.counts([*needed, *free])
    rarities = {word: rarity(statistics.size.rows, counts[word]) for word in counts}
    times = 2 if free else 1  # as in the expression that FTS5 would get
    words = [*needed, *needed, *free, *free] if free else list(needed)
    rows = shard.rows(needed, free)
    scores = _scores(rows, words, rarities, statistics.size.average) / times
    return _best(rows.chunk_ids, scores, limit)


def _scores(
    rows: WordRows, words: Sequence[str], rarities: Mapping[str, float], average: float
) -> NDArray[np.float64]:
    """Return BM25 [n] of chunks: the sum of FTS5's ``bm25()``, in its order of operations."""
    import numpy as np

    scores = np.zeros(len(rows.chunk_ids))
    base = K1 * ((1 - B) + B * rows.tokens / average)
    for word in words:
        occurrences = rows.occurrences[word]
        scores += rarities[word] * ((occurrences * (K1 + 1.0)) / (occurrences + base))
    return scores


def _best(chunk_ids: NDArray[np.int64], scores: NDArray[np.float64], limit: int) -> Hits:
    """Return the best pairs of ids, which count up, and scores; of equals the lower ids."""
    import numpy as np

    order = np.argsort(-scores, kind="stable")[:limit]
    return list(zip(chunk_ids[order].tolist(), scores[order].tolist(), strict=True))
