"""Projections around grouped cross-attention; the attention itself is ``drt_kernels.gca``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from drt_engine.config.model import ModelConfig
from drt_engine.model.layers import RMSNorm, linear
from drt_kernels import gca
from drt_kernels.decode import ChunkRecords, DecodeMemory, decode_memory, gca_decode


@dataclass(frozen=True)
class ChunkMemory:
    """Memory of P chunks: ``keys``, ``values`` [P, S, Hk, D], ``mask`` [P, S].

    ``landmarks`` [P, E] are the vectors that chunks are found by, as the scorer projects them.
    """

    keys: Tensor
    values: Tensor
    mask: Tensor
    landmarks: Tensor


@dataclass(frozen=True)
class Retrieved:
    """Chunks retrieved for the tokens of each chunk.

    ``index`` [B, C, R] into ``memory``, with ``scores`` and ``probabilities`` of the same shape.
    """

    memory: ChunkMemory
    index: Tensor
    scores: Tensor
    probabilities: Tensor


def laid_out(retrieved: Retrieved, *, off_by_one: bool) -> DecodeMemory:
    """Lay out what one chunk of each stream retrieved, ``index`` [B, 1, R], for decoding steps."""
    index, memory = retrieved.index[:, 0], retrieved.memory
    return decode_memory(
        ChunkRecords(memory.keys, memory.values, memory.mask),
        index,
        probabilities=retrieved.probabilities[:, 0],
        off_by_one=off_by_one,
    )


class GroupedCrossAttention(nn.Module):
    """Pre-norm query and output projection of GCA in one upper layer (paper section 3.2)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads, self.size = config.heads, config.head_size
        self.off_by_one = config.gca_softmax == "off-by-one"
        self.compute: Callable[..., Tensor] = gca  # a benchmark puts others in its place
        self.norm = RMSNorm(config.width)
        self.query = linear(config.width, config.width)
        self.out = linear(config.width, config.width, scale=0.3)

    def forward(
        self, x: Tensor, retrieved: Retrieved, *, ready: DecodeMemory | None = None
    ) -> Tensor:
        """Attend from chunks [B, C, T, E] to what was retrieved for each -> [B, C, T, E].

        ``ready`` is what was retrieved, laid out before, for a decoding step: C is 1, T at most 4.
        """
        # [B, C, T, H, D]
        query = self.query(self.norm(x)).unflatten(-1, (self.heads, self.size))
        if ready is not None:
            return self.out(gca_decode(query[:, 0], ready).flatten(-2))[:, None]  # type: ignore[no-any-return]
        out = self.compute(
            query,
            retrieved.memory.keys.to(query.dtype),
            retrieved.memory.values.to(query.dtype),
            mask=retrieved.memory.mask,
            index=retrieved.index,
            probabilities=retrieved.probabilities,
            off_by_one=self.off_by_one,
        )
        return self.out(out.flatten(-2))  # type: ignore[no-any-return]
