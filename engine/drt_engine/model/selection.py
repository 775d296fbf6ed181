"""Top-k choice of chunks and their retrieval probabilities; Gumbel noise while training."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Selection:
    """Chosen chunks, best first: pool ``index``, clean ``scores`` and ``probabilities``, each [..,
    R].

    Where fewer than R chunks were allowed, the rest has index 0, score -inf and probability 0.
    """

    index: Tensor
    scores: Tensor
    probabilities: Tensor


def causal_mask(chunks: int, device: torch.device | None = None) -> Tensor:
    """[C, C], true where the landmark of chunk t (row) may retrieve chunk k (column): ``k < t``."""
    return torch.ones(chunks, chunks, dtype=torch.bool, device=device).tril(diagonal=-1)


def gumbel_noise(shape: torch.Size, generator: torch.Generator) -> Tensor:
    """Return standard Gumbel noise, fp32."""
    uniform = torch.rand(shape, generator=generator).clamp(min=1e-20)
    return -torch.log((-torch.log(uniform)).clamp(min=1e-20))


def select(
    scores: Tensor, allowed: Tensor, count: int, *, generator: torch.Generator | None = None
) -> Selection:
    """Keep the ``count`` best of ``scores`` [.., P] among ``allowed`` [.., P] (paper section 3.1).

    With a generator, Gumbel noise decides the choice; the probabilities always come from the clean
    scores.
    """
    with torch.no_grad():
        noisy = scores.detach()
        if generator is not None:
            noisy = noisy + gumbel_noise(noisy.shape, generator).to(noisy.device)
        noisy = noisy.masked_fill(~allowed, float("-inf"))
        index = noisy.topk(min(count, scores.shape[-1]), dim=-1).indices
        kept = allowed.gather(-1, index)
        index = index.masked_fill(~kept, 0)
    return selection_of(scores, index, kept)


def selection_of(scores: Tensor, index: Tensor, kept: Tensor) -> Selection:
    """Return the selection of given chunks: ``index`` [.., R] into ``scores`` [.., P], ``kept``
    [.., R].
    """
    chosen = scores.gather(-1, index).masked_fill(~kept, float("-inf"))
    safe = chosen.masked_fill(~kept.any(dim=-1, keepdim=True), 0.0)
    probabilities = torch.softmax(safe, dim=-1) * kept.to(scores.dtype)
    return Selection(index, chosen, probabilities)
