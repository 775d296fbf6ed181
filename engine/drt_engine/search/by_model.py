"""Chunks by landmarks, BM25 and late interaction, and sentences by the late interaction of words.

The query goes through the lower stack and its landmark retrieves, as a question's does; nothing
reads what was retrieved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import torch
from torch import Tensor

from drt_engine.generate.decode import Decoder
from drt_engine.generate.prompt_run import feed_query_chunks, question_ids
from drt_engine.model.gca_layer import ChunkMemory
from drt_engine.model.scorer import LandmarkScorer
from drt_engine.retrieval.candidates import Candidates
from drt_engine.retrieval.library import (
    LibraryQuery,
    SearchOptions,
    library_candidates,
    query_library,
)
from drt_engine.retrieval.rerank import memory_of_records
from drt_engine.retrieval.sources import Retrieval, join_memories, merge_chunks
from drt_engine.runtime import Runtime
from drt_engine.search.chunks import FoundPassage, ScoredChunk
from drt_engine.store import ChunkBatch
from drt_engine.store.view import LibraryView


@dataclass
class ModelSearch:
    """A query that went through the lower stack: its candidates, and its words as a memory.

    As a ``Source`` it notes what a landmark asks for, and retrieves nothing.
    """

    library: LibraryQuery
    candidates: Candidates | None = None
    question: ChunkMemory | None = None
    _query_chunks: list[ChunkMemory] = field(default_factory=list)

    def find(
        self, query: Tensor, scorer: LandmarkScorer, query_chunk: ChunkMemory
    ) -> Retrieval | None:
        """Note the candidates for the query vector [E] of ``query_chunk`` (P = 1)."""
        self.question = merge_chunks(join_memories([*self._query_chunks, query_chunk]))
        query = query.float().cpu()
        self.candidates = library_candidates(self.library, query, scorer, self.question)
        return None

    def add(self, memory: ChunkMemory) -> None:
        """Keep a closed chunk of the query for late interaction."""
        self._query_chunks.append(memory)

    def chunks(self, limit: int) -> list[ScoredChunk]:
        """Return the best candidates with their scores, best first."""
        assert self.candidates is not None
        scores = self.candidates.scores
        order = scores.total.argsort(descending=True, stable=True)[:limit]
        rows = self.library.store.chunk_rows(
            [self.candidates.chunk_ids[number] for number in order.tolist()]
        )
        nothing = torch.zeros_like(scores.total)
        parts = (scores.total, scores.landmark, scores.lexical, scores.late)
        columns = [(nothing if part is None else part)[order].tolist() for part in parts]
        return [ScoredChunk(row, *values) for row, *values in zip(rows, *columns, strict=True)]

    def sentence_scores(self, passages: Sequence[FoundPassage]) -> list[list[float]]:
        """Return the late interaction of the query with each sentence of each passage.

        A sentence has the tokens of the passage's chunks that begin in it.
        """
        late = self.library.runtime.model.scorer.late
        if late is None or self.question is None or not passages:
            return [[0.0] * len(passage.sentences) for passage in passages]
        records = self._records([c.row.id for passage in passages for c in passage.chunks])
        memory = memory_of_records(records, self.question.keys.device)
        queries, weights = late.queries(self.question)
        cosines = torch.einsum("nm,psm->psn", queries, late.keys(memory))  # [P, S, n]
        weights = weights * late.log_scale.exp()
        begin, scores = 0, []
        for passage in passages:
            part = slice(begin, begin + len(passage.chunks))
            begin = part.stop
            first = torch.tensor([[chunk.row.start] for chunk in passage.chunks])
            starts = (records.starts[part] + first)[memory.mask[part].cpu()]  # [T]
            spans = torch.tensor(passage.sentences)  # [N, 2]
            inside = (starts >= spans[:, :1]) & (starts < spans[:, 1:])  # [N, T]
            inside = inside.to(cosines.device)
            words = cosines[part][memory.mask[part]]  # [T, n]
            # MaxSim: for each word of the query the best token of each sentence, [N, n].
            best = words[None].masked_fill(~inside[..., None], -1.0).amax(dim=1)
            scores.append((best @ weights).tolist())
        return scores

    def _records(self, chunk_ids: Sequence[int]) -> ChunkBatch:
        """Return the records of candidates, which late interaction has read already."""
        assert self.candidates is not None
        records = self.candidates.records
        if records is None:
            return self.library.store.read_chunks(chunk_ids)
        number = {chunk_id: n for n, chunk_id in enumerate(self.candidates.chunk_ids)}
        index = torch.tensor([number[chunk_id] for chunk_id in chunk_ids])
        return ChunkBatch(*(getattr(records, f.name)[index] for f in fields(ChunkBatch)))


def search_by_model(
    runtime: Runtime, view: LibraryView, query: str, options: SearchOptions
) -> ModelSearch:
    """Score the chunks of a library for a query; ``QuestionError`` without words or too long."""
    ids = question_ids(runtime, query, what="query")
    source = ModelSearch(query_library(runtime, view, query, ids, options=options))
    decoder = Decoder(runtime.model, source, dtype=runtime.dtype, retrieves_only=True)
    feed_query_chunks(decoder, ids)
    return source
