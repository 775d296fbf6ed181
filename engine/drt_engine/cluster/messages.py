"""What is sent to a shard's actor, and what it returns: plain data and NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from drt_engine.store.catalogue.search import Hits
from drt_engine.store.federation.bm25 import WordStatistics
from drt_engine.store.federation.shard_state import ShardState
from drt_engine.store.federation.shard_words import Excluded
from drt_engine.store.lookup import Lookup
from drt_engine.store.types import RecordLayout

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class ShardSettings:
    """How an actor opens its library, and for which model."""

    path: str
    fingerprint: str
    layout: RecordLayout
    vocabulary: int
    lock_timeout: float = 10.0
    threads: int = 1


@dataclass(frozen=True)
class ShardLookup:
    """One retrieval of one shard.

    ``first`` is added to its chunk ids, which are those of all shards in ``lookup`` and in the
    reply; ``excluded`` are another shard's documents. ``statistics`` are those of all shards for
    the words of ``lookup``. The shard must be in ``state``.
    """

    lookup: Lookup
    first: int
    excluded: Excluded
    state: ShardState
    statistics: WordStatistics | None = None


@dataclass(frozen=True)
class ShardHits:
    """The best chunks of a shard by the rarer words, and by all words, both best first.

    The latter are left out where the former are enough.
    """

    by_rarer_words: Hits = field(default_factory=list)
    by_all_words: Hits | None = None


@dataclass(frozen=True)
class ShardReply:
    """What one shard has for a retrieval.

    ``chunk_ids``, in the order of the scan, with ``landmarks`` [n, E] fp16, are those of the best
    landmarks and of the hits and their neighbours.
    """

    hits: ShardHits
    chunk_ids: Sequence[int]
    landmarks: NDArray[np.float16]


@dataclass(frozen=True)
class ShardFailure:
    """Why a shard has nothing; ``changed`` says that it is in another state than was expected."""

    reason: str
    changed: bool = False
