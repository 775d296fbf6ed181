"""RPT with a retriever that is not trained: chunked cross-attention (arXiv 2306.13421).

A DRT whose upper layers read the retrieved chunks side by side, in one softmax without retrieval
weights (the CCA of RETRO, arXiv 2112.04426), instead of by GCA. As in RPT a gate of a chunk's own
mean scales its keys and values. Simpler than RPT: a gate does not see the other chunks, and the
retriever is not taught by the scores of a reference model; it is the frozen one of
``config.retriever``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from drt_engine.config.model import ModelConfig
from drt_engine.model.drt import DRT
from drt_engine.model.gca_layer import Retrieved
from drt_engine.model.layers import RMSNorm, linear
from drt_kernels.decode import DecodeMemory

_LEAST_GATE = 0.1  # so that a chunk that is shut out still has a gradient


class ChunkedCrossAttention(nn.Module):
    """Pre-norm cross-attention to all tokens of the retrieved chunks in one softmax."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads, self.size = config.heads, config.head_size
        self.norm = RMSNorm(config.width)
        self.query = linear(config.width, config.width)
        self.out = linear(config.width, config.width, scale=0.3)
        self.gate = nn.Parameter(torch.zeros(config.kv_heads * config.head_size))

    def forward(
        self,
        x: Tensor,
        retrieved: Retrieved,
        *,
        ready: DecodeMemory | None = None,  # noqa: ARG002  laid out for GCA, in decoding steps
    ) -> Tensor:
        """Attend from chunks [B, C, T, E] to what was retrieved for each -> [B, C, T, E]."""
        memory, index = retrieved.memory, retrieved.index  # index [B, C, R]
        query = self.query(self.norm(x)).unflatten(-1, (-1, self.size)) * self.size**-0.5
        shared = self.heads // memory.keys.shape[2]
        # A place that no chunk fills has the score -inf.
        exists = memory.mask[index] & (retrieved.scores > float("-inf"))[..., None]  # [B, C, R, S]
        gates = self._gates(memory.values, memory.mask)[index].to(x.dtype)  # [B, C, R]
        keys, values = (
            (t[index].to(x.dtype) * gates[..., None, None, None])
            .flatten(2, 3)  # [B, C, R * S, Hk, D]
            .repeat_interleave(shared, dim=3)
            for t in (memory.keys, memory.values)
        )
        scores = torch.einsum("bcthd,bcshd->bchts", query, keys)
        here = exists.flatten(2)[:, :, None, None]
        weights = scores.masked_fill(~here, torch.finfo(scores.dtype).min).softmax(dim=-1)
        # Where nothing was retrieved all weights are equal, and nothing is read.
        weights = weights * here.any(dim=-1, keepdim=True)
        out = torch.einsum("bchts,bcshd->bcthd", weights, values)
        return self.out(out.flatten(-2))  # type: ignore[no-any-return]

    def _gates(self, values: Tensor, mask: Tensor) -> Tensor:
        """Return how far each chunk [P, S, Hk, D] is read, [P], from the mean of its values."""
        exists = mask[..., None].to(values.dtype)
        means = (values.flatten(2) * exists).sum(dim=1) / exists.sum(dim=1).clamp(min=1)
        scores: Tensor = means @ self.gate.to(means.dtype) / means.shape[-1] ** 0.5
        return scores.sigmoid().clamp(min=_LEAST_GATE)


class RPT(DRT):
    """A DRT with chunked cross-attention in the place of GCA."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        for layer in self.upper:
            layer.gca = ChunkedCrossAttention(config)
