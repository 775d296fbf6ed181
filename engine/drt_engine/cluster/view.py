"""Libraries with an actor beside each, as one: actors look up, all else is read here.

A retrieval is one call of each actor. What is read of the few best chunks, their tokens, memory and
texts, is read from the libraries' folders, which are known only then, and are shared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import torch

from drt_engine.cluster.messages import ShardFailure, ShardLookup, ShardReply
from drt_engine.cluster.shard_actors import ShardActors, expect_replies
from drt_engine.cluster.shard_server import looked_up
from drt_engine.cluster.word_tables import WordTables
from drt_engine.errors import LibraryUnavailable
from drt_engine.store.catalogue.search import Hits, query_words, rarer_words
from drt_engine.store.federation.bm25 import WordStatistics, merged
from drt_engine.store.federation.documents import shards_of_documents
from drt_engine.store.federation.shard import Shard
from drt_engine.store.federation.shard_state import ShardState
from drt_engine.store.federation.view import FederatedView
from drt_engine.store.lookup import Lookup
from drt_engine.store.view import LibraryView
from drt_kernels.scan import Landmarks


class ShardsUnavailable(LibraryUnavailable):
    """Raised when actors of shards have no answer; ``reasons`` by the shards' folders."""

    def __init__(self, reasons: Mapping[Path, str]) -> None:
        path, reason = next(iter(reasons.items()))
        super().__init__(reason, path)
        self.reasons = dict(reasons)


class ClusterView(FederatedView):
    """The libraries at one moment; ``states`` are those that their actors must find."""

    def __init__(
        self,
        path: Path,
        shards: Sequence[Shard],
        home: LibraryView | None,
        *,
        actors: ShardActors,
        words: WordTables,
        states: Mapping[Path, ShardState],
    ) -> None:
        super().__init__(path, shards, home)
        self._actors, self._words, self._states = actors, words, states

    def looked_up(self, lookup: Lookup) -> LibraryView:
        """Ask all actors at once; return a view of what they found.

        Raises LibraryUnavailable where one has no answer.
        """
        statistics = None
        words = query_words(lookup.words or "")
        if words:
            statistics = self._words.statistics(self.shards, self._states, words)
        requests = {
            shard.path: ShardLookup(
                lookup, shard.first, shard.excluded, self._states[shard.path], statistics
            )
            for shard, _ in shards_of_documents(self.shards, lookup.document_ids)
        }
        return _LookedUpView(self, lookup, statistics, self._replies(requests))

    def search_text(
        self,
        query: str,
        *,
        documents: Sequence[str] | None = None,
        chunks: Collection[int] | None = None,
        limit: int = 50,
    ) -> list[tuple[int, float]]:
        """Return (chunk id, BM25 score) of chunks with any of the query's words, best first."""
        lookup = Lookup(query, limit, document_ids=documents, chunk_ids=chunks)
        return self.looked_up(lookup).search_text(
            query, documents=documents, chunks=chunks, limit=limit
        )

    def _replies(self, requests: Mapping[Path, ShardLookup]) -> list[ShardReply]:
        """Return the replies in the order of the shards."""
        gathered = self._actors.ask(requests)
        expect_replies(gathered, (ShardReply, ShardFailure))
        if gathered.failures:
            raise ShardsUnavailable(gathered.failures)
        replies = []
        for shard in self.shards:
            if shard.path not in requests:
                continue
            reply = gathered.replies[shard.path]
            # A writer has changed it since this view was taken: the view itself has not changed.
            if isinstance(reply, ShardFailure):
                with shard.reading():
                    reply = looked_up(shard, requests[shard.path])
            replies.append(reply)
        return replies


class _LookedUpView(FederatedView):
    """The libraries as one retrieval needs them: with the hits and landmarks that were found."""

    def __init__(
        self,
        view: ClusterView,
        lookup: Lookup,
        statistics: WordStatistics | None,
        replies: Sequence[ShardReply],
    ) -> None:
        super().__init__(view.path, view.shards, None)
        self._lookup, self._statistics, self._replies = lookup, statistics, replies

    def search_text(
        self,
        query: str,
        *,
        documents: Sequence[str] | None = None,  # noqa: ARG002  those of the lookup
        chunks: Collection[int] | None = None,  # noqa: ARG002  those of the lookup
        limit: int = 50,
    ) -> Hits:
        """Return the merged hits of the words that were looked up."""
        assert (query, limit) == (self._lookup.words, self._lookup.limit)
        if self._statistics is None or limit < 1:
            return []
        rarer = rarer_words(self._statistics, query_words(query), limit)
        if rarer is not None:
            hits = merged((reply.hits.by_rarer_words for reply in self._replies), limit)
            if rarer.are_enough(hits, limit):
                return hits
        return merged((reply.hits.by_all_words or [] for reply in self._replies), limit)

    def scan_coded_landmarks(
        self,
        documents: Sequence[str] | None = None,  # noqa: ARG002  those of the lookup
    ) -> Iterator[tuple[Sequence[int], Landmarks]]:
        """Scan the landmarks that can be among the best, or are of hits and their neighbours."""
        for reply in self._replies:
            if len(reply.chunk_ids):
                yield reply.chunk_ids, Landmarks(torch.tensor(reply.landmarks))
