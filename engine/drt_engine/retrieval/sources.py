"""Where the decoder finds chunks: its own earlier chunks in memory, and a library on disk.

One ``Source`` answers "which chunks, with which probabilities" for one landmark at a time, with the
same scoring and selection as training. A retrieved chunk is known here by its place in the memory
that comes with it.
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
from drt_engine.retrieval.reading import Reading


@dataclass(frozen=True)
class Found:
    """What one landmark retrieved: ``retrieved`` for GCA [1, 1, R], and where each chunk comes
    from.

    ``chunk_ids`` are library chunk ids, or -1 - n for the stream's own chunk n; ``lexical`` are
    BM25 shares; ``slots`` [R, U] say which token of a chunk's neighbourhood a memory slot holds (0
    is the chunk's first, -1 may precede it).
    """

    retrieved: Retrieved
    chunk_ids: tuple[int, ...]
    lexical: tuple[float, ...] = ()
    slots: Tensor | None = None
    reread: Reread | None = None
    reading: Reading | None = None


class Source(Protocol):
    """Answers one landmark's query."""

    def find(self, query: Tensor, scorer: LandmarkScorer, asking: ChunkMemory) -> Found | None:
        """Query vector [E] of the chunk ``asking`` (P = 1) -> what it retrieves, or ``None`` when
        there is nothing.
        """

    def add(self, memory: ChunkMemory) -> None:
        """Make one more chunk of the stream (``memory`` of P = 1) retrievable for later
        landmarks.
        """


@dataclass
class StreamSource:
    """Only the stream's own chunks, as in the paper: the landmark of chunk t sees chunks k < t."""

    count: int
    chunks: list[ChunkMemory] = field(default_factory=list)

    def find(self, query: Tensor, scorer: LandmarkScorer, asking: ChunkMemory) -> Found | None:
        """Query vector [E] -> the best ``count`` chunks added so far."""
        if not self.chunks:
            return None
        memory = join_memories(self.chunks)
        scores = scorer.scores(query[None], memory.landmarks).total
        found = select(scores, torch.ones_like(scores, dtype=torch.bool), self.count)
        retrieved = Retrieved(
            memory, found.index[None], found.scores[None], found.probabilities[None]
        )
        ids = tuple(-1 - int(i) for i in found.index[0])
        return Found(retrieved, ids)

    def add(self, memory: ChunkMemory) -> None:
        """Make a closed chunk retrievable."""
        self.chunks.append(memory)


def join_memories(parts: Sequence[ChunkMemory]) -> ChunkMemory:
    """Join memories of chunks along P, padding shorter chunks with tokens that do not exist."""
    longest = max(p.mask.shape[1] for p in parts)
    return ChunkMemory(
        torch.cat([_grow(p.keys, longest) for p in parts]),
        torch.cat([_grow(p.values, longest) for p in parts]),
        torch.cat([_grow(p.mask, longest) for p in parts]),
        torch.cat([p.landmarks for p in parts]),
    )


def _grow(x: Tensor, size: int) -> Tensor:
    missing = size - x.shape[1]
    if missing == 0:
        return x
    return torch.cat([x, x.new_zeros(x.shape[0], missing, *x.shape[2:])], dim=1)
