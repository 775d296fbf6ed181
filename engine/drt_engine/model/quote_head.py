"""Start, end and null logits over the tokens of retrieved chunks (DESIGN section 2: quote head).

Reads the stored chunk memory. Where chunks were encoded again with the question in front, their
states add a linear term.
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
    """Logits of N questions: ``start``, ``end`` [N, R, U] over token slots, ``null`` [N].

    ``end_null`` [N] is the null logit of the end where it differs from that of the start.
    """

    start: Tensor
    end: Tensor
    null: Tensor
    end_null: Tensor | None = None


@dataclass(frozen=True)
class Reread:
    """Retrieved chunks encoded with the question in front.

    ``states`` [N, R, U, E] of the chunk's tokens and of the margin around it, ``mask`` [N, R, U],
    and ``border`` [N, R, E], the state of the landmark that closes each sequence.
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
        """Return logits over [N, R, S] for the ``<answer>`` states ``answer`` [N, E].

        ``index`` and ``log_probability`` [N, R] are the retrieved chunks of ``memory``.
        """
        state = self.norm(answer.float())
        stored = torch.cat([memory.keys.flatten(2), memory.values.flatten(2)], dim=-1)
        stored = self.memory_norm(stored.float())[index]  # [N, R, S, 2 Hk D]
        # A token can only be as probable as the retrieval of its chunk.
        prior = log_probability[..., None]
        mask = memory.mask[index] & torch.isfinite(prior)
        return QuoteLogits(
            _hide(_point(self.start_query(state), stored) + prior, mask),
            _hide(_point(self.end_query(state), stored) + prior, mask),
            self.null(state).float()[..., 0],
        )

    def add_reread(self, logits: QuoteLogits, reread: Reread, probability: Tensor) -> QuoteLogits:
        """Add the linear term of the re-encoded states to logits over their memory [N, R, U].

        ``probability`` [N, R] is that of retrieval; it weighs the per-chunk null logits.
        """
        assert self.reread_span is not None
        span = self.reread_span(reread.states.float()).float()
        null = self.chunk_null_logits(reread)
        reranked = self.reranker_scores(reread)[..., None]
        return QuoteLogits(
            logits.start + span[..., 0] + reranked,
            logits.end + span[..., 1] + reranked,
            logits.null + (null * probability).sum(dim=-1),
        )

    def chunk_null_logits(self, reread: Reread) -> Tensor:
        """Return the per-chunk null logits [N, R] of re-encoded chunks."""
        assert self.reread_null is not None
        null: Tensor = self.reread_null(reread.border.float())
        return null.float()[..., 0]

    def reranker_scores(self, reread: Reread) -> Tensor:
        """Return what re-encoding adds to the scores of chunks, [N, R]; 0 without such a map."""
        if self.reread_relevance is None:
            return reread.border.new_zeros(reread.border.shape[:2], dtype=torch.float32)
        scores: Tensor = self.reread_relevance(reread.border.float())
        return scores.float()[..., 0]


def _point(query: Tensor, stored: Tensor) -> Tensor:
    """Return the scaled dot products [N, R, S] of ``query`` [N, M] and ``stored`` [N, R, S, M]."""
    product: Tensor = torch.einsum("ne,nrse->nrs", query, stored.to(query.dtype))
    scale: float = query.shape[-1] ** -0.5
    return product.float() * scale


def _hide(logits: Tensor, mask: Tensor) -> Tensor:
    return logits.masked_fill(~mask, float("-inf"))
