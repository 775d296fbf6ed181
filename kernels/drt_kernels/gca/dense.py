"""Grouped cross-attention as two matrix products over all retrieved keys: the path for a CPU, with
autograd.

One product gives the scores of all ``R * S`` keys, the softmax is taken per chunk, and the
retrieval probabilities are folded into the attention weights before the second product. Same
mathematics as ``reference.py``.
"""

from __future__ import annotations

import torch
from torch import Tensor


def gca_dense(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    mask: Tensor,
    index: Tensor,
    probabilities: Tensor,
    off_by_one: bool = True,
) -> Tensor:
    """Compute what ``gca_reference`` computes, with the same arguments, in the query's type."""
    batch, chunks, tokens, heads, size = query.shape
    retrieved, memory, groups = index.shape[2], keys.shape[1], keys.shape[2]
    shared = heads // groups
    rows = batch * chunks
    flat = index.reshape(rows, retrieved)
    # [rows, Hk, T * shared, D]: the query heads that share one key head become extra rows.
    q = query.reshape(rows, tokens, groups, shared, size).permute(0, 2, 1, 3, 4)
    q = q.reshape(rows, groups, tokens * shared, size) * size**-0.5
    k = keys[flat].permute(0, 3, 4, 1, 2).reshape(rows, groups, size, retrieved * memory)
    v = values[flat].permute(0, 3, 1, 2, 4).reshape(rows, groups, retrieved * memory, size)
    scores = (q @ k.to(q.dtype)).view(rows, groups, tokens * shared, retrieved, memory)
    bias = torch.zeros(mask.shape, dtype=scores.dtype, device=scores.device)
    bias = bias.masked_fill(~mask, float("-inf"))
    scores = scores + bias[flat][:, None, None]
    weights = _chunk_softmax(scores, off_by_one)
    weights = weights * probabilities.reshape(rows, 1, 1, retrieved, 1).to(weights.dtype)
    out = weights.view(rows, groups, tokens * shared, retrieved * memory) @ v.to(q.dtype)
    out = out.view(rows, groups, tokens, shared, size).permute(0, 2, 1, 3, 4)
    return out.reshape(batch, chunks, tokens, heads, size)


def _chunk_softmax(scores: Tensor, off_by_one: bool) -> Tensor:
    peak = scores.detach().amax(dim=-1, keepdim=True)
    peak = peak.clamp(min=0.0) if off_by_one else peak.masked_fill(peak == float("-inf"), 0.0)
    weights = torch.exp(scores - peak)
    total = weights.sum(dim=-1, keepdim=True)
    if off_by_one:
        return weights / (total + torch.exp(-peak))
    return weights / total.clamp(min=1.0)
