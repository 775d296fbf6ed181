"""What the decoder asks for chunks: the ``Source`` interface, and a stream's own earlier chunks.

A ``Source`` answers one landmark at a time, with the same scores and the same selection as
training. A retrieved chunk is known to the model by its row in the memory that comes with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from drt_engine.model.gca_layer import ChunkMemory, Retrieved
from drt_engine.model.quote_head import Reread
from drt_engine.model.scorer import LandmarkScorer
from drt_engine.model.selection import select
from drt_engine.retrieval.passages import Passage
from drt_engine.retrieval.reader_pass import PassageLogits


@dataclass(frozen=True)
class Retrieval:
    """What one landmark retrieved: ``retrieved`` for GCA [1, 1, R], and where each chunk is from.

    ``chunk_ids`` [R] are library chunk ids, or -1 - n for the stream's own chunk n. The chunks of a
    library come first and have ``passages``; ``passage_logits`` or ``reread`` are of the reader
    pass over them, which read ``tokens_read`` tokens.
    """

    retrieved: Retrieved
    chunk_ids: tuple[int, ...]
    passages: tuple[Passage, ...] = ()
    reread: Reread | None = None
    passage_logits: PassageLogits | None = None
    tokens_read: int = 0


class Source(Protocol):
    """Answers one landmark's query."""

    def find(
        self, query: Tensor, scorer: LandmarkScorer, query_chunk: ChunkMemory
    ) -> Retrieval | None:
        """Retrieve for the query vector [E] of ``query_chunk`` (P = 1).

        ``None`` where there is nothing to retrieve.
        """

    def add(self, memory: ChunkMemory) -> None:
        """Make one more chunk of the stream (P = 1) retrievable for later landmarks."""


@dataclass
class StreamSource:
    """Only the stream's own chunks, as in the paper: the landmark of chunk t sees chunks k < t."""

    top_k: int
    chunks: list[ChunkMemory] = field(default_factory=list)

    def find(
        self,
        query: Tensor,
        scorer: LandmarkScorer,
        query_chunk: ChunkMemory,  # noqa: ARG002  a stream is scored by landmarks alone
    ) -> Retrieval | None:
        """Retrieve the best ``top_k`` chunks added so far for a query vector [E]."""
        if not self.chunks:
            return None
        memory = join_memories(self.chunks)
        scores = scorer.scores(query[None], memory.landmarks).total
        selection = select(scores, torch.ones_like(scores, dtype=torch.bool), self.top_k)
        retrieved = Retrieved(
            memory, selection.index[None], selection.scores[None], selection.probabilities[None]
        )
        return Retrieval(retrieved, tuple(-1 - i for i in selection.index[0].tolist()))

    def add(self, memory: ChunkMemory) -> None:
        """Make a closed chunk retrievable."""
        self.chunks.append(memory)


def join_memories(parts: Sequence[ChunkMemory]) -> ChunkMemory:
    """Join memories of chunks along P, padding shorter chunks with tokens that do not exist."""
    longest = max(part.mask.shape[1] for part in parts)
    return ChunkMemory(
        torch.cat([_grow(part.keys, longest) for part in parts]),
        torch.cat([_grow(part.values, longest) for part in parts]),
        torch.cat([_grow(part.mask, longest) for part in parts]),
        torch.cat([part.landmarks for part in parts]),
    )


def merge_chunks(memory: ChunkMemory) -> ChunkMemory:
    """Return the chunks of one question as if they were a single one (P = 1)."""
    keys, values, mask = (t.flatten(0, 1)[None] for t in (memory.keys, memory.values, memory.mask))
    return ChunkMemory(keys, values, mask, memory.landmarks[-1:])


def _grow(x: Tensor, size: int) -> Tensor:
    missing = size - x.shape[1]
    if missing == 0:
        return x
    return torch.cat([x, x.new_zeros(x.shape[0], missing, *x.shape[2:])], dim=1)
