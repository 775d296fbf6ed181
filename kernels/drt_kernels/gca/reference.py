"""Grouped cross-attention as the paper's two equations: the truth for all implementations.

fp32 inside, one retrieved chunk at a time. Source: arXiv 2410.01651, section 3.2.
"""

from __future__ import annotations

import torch
from torch import Tensor

from drt_kernels.shapes import Retrieval


def softmax_off_by_one(scores: Tensor) -> Tensor:
    """Return ``exp(s_i) / (1 + sum_j exp(s_j))`` over the last dimension, for scores of any size.

    The running maximum starts at 0, the score of the implicit extra key, so that the 1 is not lost.
    """
    peak = scores.amax(dim=-1, keepdim=True).clamp(min=0.0)
    weights = torch.exp(scores - peak)
    return weights / (torch.exp(-peak) + weights.sum(dim=-1, keepdim=True))


def plain_softmax(scores: Tensor) -> Tensor:
    """Return the softmax over the last dimension; a row without any key gives zeros."""
    peak = scores.amax(dim=-1, keepdim=True)
    weights = torch.exp(scores - peak.masked_fill(peak == float("-inf"), 0.0))
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=1.0)


def gca_reference(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    retrieval: Retrieval,
    *,
    off_by_one: bool = True,
) -> Tensor:
    """Attend to each retrieved chunk separately and sum the results by retrieval probability.

    ``query`` [B, C, T, H, D]; ``keys``, ``values`` [P, S, Hk, D]. Returns [B, C, T, H, D] in the
    query's type.
    """
    mask, index, probabilities = retrieval.mask, retrieval.index, retrieval.probabilities
    repeat = query.shape[3] // keys.shape[2]
    normalise = softmax_off_by_one if off_by_one else plain_softmax
    wide = query.double() if query.dtype == torch.float64 else query.float()
    out = torch.zeros_like(wide)
    for r in range(index.shape[2]):
        chunk = index[:, :, r]
        k = keys[chunk].to(wide.dtype).repeat_interleave(repeat, dim=3)  # [B, C, S, H, D]
        v = values[chunk].to(wide.dtype).repeat_interleave(repeat, dim=3)
        # One softmax per chunk: [B, C, H, T, S].
        scores = torch.einsum("bcthd,bcshd->bchts", wide, k) * query.shape[-1] ** -0.5
        scores = scores.masked_fill(~mask[chunk][:, :, None, None, :], float("-inf"))
        attended = torch.einsum("bchts,bcshd->bcthd", normalise(scores), v)
        out = out + probabilities[:, :, r, None, None, None].to(wide.dtype) * attended
    return out.to(query.dtype)
