"""One shard and the actor beside it, which looks up words and landmarks there.

Loads no model: what it is sent are words and vectors. Knows nothing of Ray.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from drt_engine.cluster.connection import Actor
from drt_engine.cluster.messages import (
    ShardFailure,
    ShardHits,
    ShardLookup,
    ShardReply,
    ShardSettings,
)
from drt_engine.errors import EngineError
from drt_engine.retrieval.candidates import (
    LandmarkScan,
    ScannedLandmarks,
    restricted_parts,
)
from drt_engine.store import Store
from drt_engine.store.catalogue.search import Hits, query_words, rarer_words
from drt_engine.store.federation.bm25 import ranked
from drt_engine.store.federation.shard import Shard
from drt_engine.store.federation.shard_state import shard_state
from drt_engine.store.federation.vocabulary import Vocabulary
from drt_kernels import landmark_topk
from drt_kernels.scan import Landmarks


class ShardServer(Actor):
    """Looks up in one library, which it keeps open; its methods may run in several threads."""

    def __init__(self, settings: ShardSettings) -> None:
        self._settings = settings
        self._store: Store | None = None
        torch.set_num_threads(settings.threads)

    def open(self) -> ShardFailure | None:
        """Open the library; return why it cannot be opened."""
        try:
            self._opened()
        except EngineError as error:
            return ShardFailure(str(error))
        return None

    def lookup(self, request: ShardLookup) -> ShardReply | ShardFailure:
        """Return the shard's part of one retrieval, or why there is none."""
        try:
            with self._opened().snapshot() as view:
                if shard_state(view.catalog) != request.state:
                    return ShardFailure("it has changed meanwhile", changed=True)
                path = Path(self._settings.path)
                return looked_up(Shard(path, view, request.first, request.excluded), request)
        except EngineError as error:
            return ShardFailure(str(error))

    def vocabulary(self) -> Vocabulary | ShardFailure:
        """Return the table of the library's words as it is now."""
        try:
            with self._opened().snapshot() as view:
                return Vocabulary.read(view.catalog)
        except EngineError as error:
            return ShardFailure(str(error))

    def _opened(self) -> Store:
        """Return the library, opened again where that failed before."""
        if self._store is None:
            settings = self._settings
            self._store = Store.open(
                Path(settings.path),
                fingerprint=settings.fingerprint,
                layout=settings.layout,
                vocabulary=settings.vocabulary,
                lock_timeout=settings.lock_timeout,
            )
        return self._store


@torch.inference_mode()
def looked_up(shard: Shard, request: ShardLookup) -> ShardReply:
    """Return what a shard has for a retrieval, scored with the statistics of all shards."""
    hits = _hits(shard, request)
    if request.lookup.query is None:
        return ShardReply(hits, (), np.empty((0, 0), np.float16))
    numbers = [hit[0] - shard.first for hit in (*hits.by_rarer_words, *(hits.by_all_words or ()))]
    with shard.reading() as view:
        pairs = view.neighbours_of(sorted(set(numbers)))
    needed = {*pairs, *(chunk for pair in pairs.values() for chunk in pair if chunk is not None)}
    shortlist = _Shortlist(_scan(shard, request), shard.numbered(sorted(needed)))
    chunk_ids, landmarks = shortlist.chunks(request.lookup.query, request.lookup.count)
    return ShardReply(hits, chunk_ids, landmarks.numpy())


def _hits(shard: Shard, request: ShardLookup) -> ShardHits:
    """Return the best chunks by words."""
    lookup, statistics = request.lookup, request.statistics
    if lookup.words is None or statistics is None:
        return ShardHits()
    words, limit = query_words(lookup.words), lookup.limit
    index = shard.index(lookup.document_ids, lookup.chunk_ids)
    rarer = rarer_words(statistics, words, limit)
    by_rarer_words: Hits = []
    if rarer is not None:
        by_rarer_words = ranked(index, statistics, rarer.needed, rarer.free, limit=limit)
        # Enough here is enough among all shards, too: no other shard then needs what is left out.
        if rarer.are_enough(by_rarer_words, limit):
            return ShardHits(by_rarer_words)
    return ShardHits(by_rarer_words, ranked(index, statistics, words, (), limit=limit))


def _scan(shard: Shard, request: ShardLookup) -> LandmarkScan:
    """Scan the landmarks that the retrieval may take, as one process scans all shards."""
    document_ids = shard.restricted(request.lookup.document_ids)
    parts = shard.parts(lambda view, ids: view.scan_coded_landmarks(ids), document_ids)
    chunk_ids = request.lookup.chunk_ids
    return LandmarkScan(parts if chunk_ids is None else restricted_parts(parts, chunk_ids))


class _Shortlist(ScannedLandmarks):
    """A scan that can return landmarks by their numbers."""

    def __iter__(self) -> Iterator[Landmarks]:
        self._scanned: list[Tensor] = []
        for landmarks in super().__iter__():
            self._scanned.append(landmarks.rows)
            yield landmarks

    def chunks(self, query: Tensor, count: int) -> tuple[list[int], Tensor]:
        """Return the chunks with the best landmarks and those kept, with landmarks [n, E] fp16.

        They are in the order of the scan, which decides between equal scores.
        """
        top = landmark_topk(query[None], self, count)
        real = top.scores[0] > float("-inf")
        numbers = sorted({*top.index[0][real].tolist(), *self.numbers.values()})
        if not numbers:
            return [], torch.empty(0, query.shape[0], dtype=torch.float16)
        rows = torch.stack([self._row(number) for number in numbers])
        return [self._chunk_id(number) for number in numbers], rows

    def _row(self, number: int) -> Tensor:
        part = bisect_right(self._starts, number) - 1
        return self._scanned[part][number - self._starts[part]]
