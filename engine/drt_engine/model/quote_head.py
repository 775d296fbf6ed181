"""Start, end and null logits over the tokens of retrieved chunks (DESIGN section 2, the quote
head).

Reads the stored chunk memory alone; re-read states, where there are any, add a linear term of their
own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from drt_engine.config.model import ModelConfig
from drt_engine.model.gca_layer import ChunkMemory
from drt_engine.model.layers import RMSNorm, linear


@dataclass(frozen=True)
class QuoteLogits:
    """Logits of one question each: ``start``, ``end`` [N, R, U] over token positions, ``null`` [N].

    ``end_null`` [N] is the null logit of the end where it is another than that of the start.
    """

    start: Tensor
    end: Tensor
    null: Tensor
    end_null: Tensor | None = None


@dataclass(frozen=True)
class Reread:
    """Retrieved chunks encoded with the question in front: ``states`` [N, R, U, E] of the chunk's
    tokens and margins,

    ``mask`` [N, R, U], and ``border`` [N, R, E], the state of the landmark that closes each
    sequence.
    """

    states: Tensor
    mask: Tensor
    border: Tensor


class QuoteHead(nn.Module):
    """Pointer over retrieved tokens from the state of the ``<answer>`` token; fp32 throughout."""

    keeps_fp32 = True

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        memory = 2 * config.kv_heads * config.head_size
        self.norm = RMSNorm(config.width)
        self.memory_norm = RMSNorm(memory)
        self.start_query = linear(config.width, memory)
        self.end_query = linear(config.width, memory)
        self.null = linear(config.width, 1, scale=0.0, bias=True)
        self.reread_span: nn.Linear | None = None
        self.reread_null: nn.Linear | None = None
        self.reread_relevance: nn.Linear | None = None
        if config.reread_relevance:
            self.reread_relevance = linear(config.width, 1, scale=0.0)
        if config.reread:
            self.reread_span = linear(config.width, 2, scale=0.3, bias=True)
            self.reread_null = linear(config.width, 1, scale=0.0, bias=True)

    def forward(
        self, answer: Tensor, memory: ChunkMemory, index: Tensor, log_probability: Tensor
    ) -> QuoteLogits:
        """``answer`` [N, E], ``index`` and ``log_probability`` [N, R] -> logits over [N, R, S]."""
        a = self.norm(answer.float())
        stored = torch.cat([memory.keys.flatten(2), memory.values.flatten(2)], dim=-1)
        stored = self.memory_norm(stored.float())[index]  # [N, R, S, 2 Hk D]
        weight = log_probability[..., None]
        mask = memory.mask[index] & torch.isfinite(weight)
        return QuoteLogits(
            _hide(_point(self.start_query(a), stored) + weight, mask),
            _hide(_point(self.end_query(a), stored) + weight, mask),
            self.null(a).float()[..., 0],
        )

    def add_reread(self, logits: QuoteLogits, reread: Reread, probability: Tensor) -> QuoteLogits:
        """Add to logits over re-read memory [N, R, U] the linear term of the re-read states;
        ``probability`` [N, R].
        """
        assert self.reread_span is not None
        span = self.reread_span(reread.states.float()).float()
        null = self.absence(reread)
        judged = self.relevance(reread)[..., None]
        return QuoteLogits(
            logits.start + span[..., 0] + judged,
            logits.end + span[..., 1] + judged,
            logits.null + (null * probability).sum(dim=-1),
        )

    def absence(self, reread: Reread) -> Tensor:
        """What a chunk adds to the null logit once it has been read with the question, [N, R]."""
        assert self.reread_null is not None
        return self.reread_null(reread.border.float()).float()[..., 0]  # type: ignore[no-any-return]

    def relevance(self, reread: Reread) -> Tensor:
        """What a chunk's score gains once it has been read with the question in front, [N, R]."""
        if self.reread_relevance is None:
            return reread.border.new_zeros(reread.border.shape[:2], dtype=torch.float32)
        return self.reread_relevance(reread.border.float()).float()[..., 0]  # type: ignore[no-any-return]


def _point(query: Tensor, stored: Tensor) -> Tensor:
    product = torch.einsum("ne,nrse->nrs", query, stored.to(query.dtype))
    return product.float() * query.shape[-1] ** -0.5


def _hide(logits: Tensor, mask: Tensor) -> Tensor:
    return logits.masked_fill(~mask, float("-inf"))
