"""Choices of chunks that nothing is learnt from: the random and the fixed retriever of the paper.

They are what a learnt retriever is compared with (arXiv 2410.01651, table 1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

# Of cosines, as sentence encoders are trained with it: their softmax would be nearly uniform.
_COSINE_SCALE = 20.0
_32_BITS = (1 << 32) - 1

# Ranks chunks 0..P-1, the largest number first, in place of the scores: from a group's number, the
# query chunks [Q] and P to numbers that broadcast to [B, Q, P].
Ranking = Callable[[int, Tensor, int], Tensor]


class ChunkVectors(Protocol):
    """A frozen encoder of chunks of token ids."""

    def __call__(self, chunks: Tensor, valid: Tensor) -> Tensor:
        """Return the unit vectors [B, C, F] of chunks [B, C, S], ``valid`` where tokens exist."""
        ...


def vector_scores(queries: Tensor, vectors: Tensor) -> Tensor:
    """Return the scores [.., Q, P] of chunks by unit vectors [.., P, F], for [.., Q, F]."""
    return _COSINE_SCALE * queries.float() @ vectors.float().transpose(-1, -2)


def random_ranking(group: int, rows: Tensor, count: int) -> Tensor:
    """Return numbers [Q, P] that rank chunks 0..P-1 at random for the query chunks ``rows`` [Q].

    They are a hash of group, query and chunk, so that a stream read in pieces, or again, chooses
    the same chunks.
    """
    chunks = torch.arange(count, device=rows.device)
    x = group * 0x9E3779B1 + rows[:, None] * 0x85EBCA77 + chunks * 0xC2B2AE3D & _32_BITS
    # The finaliser of MurmurHash3; products that overflow still have the right lower 32 bits.
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        x = (x ^ x >> shift) * factor & _32_BITS
    return (x ^ x >> 16).double()


def recent_ranking(group: int, rows: Tensor, count: int) -> Tensor:  # noqa: ARG001  a Ranking
    """Return numbers [Q, P] that rank the latest chunks first."""
    return torch.arange(count, device=rows.device).expand(len(rows), -1).double()
