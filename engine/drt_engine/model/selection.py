"""Top-k choice of chunks and their retrieval probabilities; Gumbel noise while training."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Selection:
    """Chosen chunks, best first: ``index``, clean ``scores`` and ``probabilities``, each [.., R].

    Where fewer than R chunks were allowed, the rest has index 0, score -inf and probability 0.
    """

    index: Tensor
    scores: Tensor
    probabilities: Tensor


def causal_mask(chunks: int, device: torch.device | None = None) -> Tensor:
    """Return [C, C], true where chunk t (row) may retrieve chunk k (column): ``k < t``."""
    return torch.ones(chunks, chunks, dtype=torch.bool, device=device).tril(diagonal=-1)


def gumbel_noise(shape: torch.Size, generator: torch.Generator) -> Tensor:
    """Return standard Gumbel noise, fp32."""
    uniform = torch.rand(shape, generator=generator).clamp(min=1e-20)
    return -torch.log((-torch.log(uniform)).clamp(min=1e-20))


def select(
    scores: Tensor,
    allowed: Tensor,
    count: int,
    *,
    generator: torch.Generator | None = None,
    ranking: Tensor | None = None,
) -> Selection:
    """Choose the ``count`` best of ``scores`` [.., P] among ``allowed`` [.., P] (paper, 3.1).

    With a generator, Gumbel noise decides the choice, and with a ``ranking`` [.., P] that instead
    of the scores; the probabilities always come from the clean scores.
    """
    with torch.no_grad():
        noisy = (scores if ranking is None else ranking).detach()
        if generator is not None:
            noisy = noisy + gumbel_noise(noisy.shape, generator).to(noisy.device)
        noisy = noisy.masked_fill(~allowed, float("-inf"))
        index = noisy.topk(min(count, scores.shape[-1]), dim=-1).indices
        present = allowed.gather(-1, index)  # top-k fills up with chunks that are not allowed
        index = index.masked_fill(~present, 0)
    return selection_of(scores, index, present)


def selection_of(scores: Tensor, index: Tensor, present: Tensor) -> Selection:
    """Return the selection of given chunks: ``index`` [.., R] into ``scores`` [.., P].

    ``present`` [.., R] says which of them there are.
    """
    selected = scores.gather(-1, index).masked_fill(~present, float("-inf"))
    # Where no chunk is present, a softmax over -inf alone would be NaN.
    finite = selected.masked_fill(~present.any(dim=-1, keepdim=True), 0.0)
    probabilities = torch.softmax(finite, dim=-1) * present.to(scores.dtype)
    return Selection(index, selected, probabilities)
