"""Grouped cross-attention as two matrix products over all retrieved keys: the path for a CPU.

Every chunk gets one more key and value, both zero: its score is 0, so a plain softmax over the
chunk is the softmax off by one, and PyTorch's own, fused and in fp32 inside, does it forward and
backward. The retrieval probabilities scale the values, which are far fewer than the scores. Same
mathematics as ``reference.py``; autograd differentiates it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from drt_kernels.shapes import Retrieval


def gca_dense(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    retrieval: Retrieval,
    *,
    off_by_one: bool = True,
) -> Tensor:
    """Compute what ``gca_reference`` computes, with the same arguments, in the query's type."""
    mask, index, probabilities = retrieval.mask, retrieval.index, retrieval.probabilities
    batch, chunks, tokens, heads, size = query.shape
    retrieved, memory, groups = index.shape[2], keys.shape[1], keys.shape[2]
    shared = heads // groups
    rows, slots = batch * chunks, memory + 1
    flat = index.reshape(rows * retrieved)
    # [rows, Hk, T * shared, D]: the query heads that share one key head become extra rows.
    q = query.reshape(rows, tokens, groups, shared, size).permute(0, 2, 1, 3, 4)
    q = q.reshape(rows, groups, tokens * shared, size) * size**-0.5
    # Retrieved chunks side by side, with their extra key: [rows, R, S + 1, Hk, D].
    k, v = _gather(keys, flat, rows).to(q.dtype), _gather(values, flat, rows).to(q.dtype)
    v = v * probabilities.reshape(rows, retrieved, 1, 1, 1).to(v.dtype)
    k = k.permute(0, 3, 4, 1, 2).reshape(rows, groups, size, retrieved * slots)
    v = v.permute(0, 3, 1, 2, 4).reshape(rows, groups, retrieved * slots, size)
    # One softmax per retrieved chunk, over its S + 1 keys.
    scores = (q @ k).view(rows, groups, tokens * shared, retrieved, slots)
    bias = _bias(mask, off_by_one, scores.dtype)
    if bias is not None:
        scores = scores + bias[flat].view(rows, 1, 1, retrieved, slots)
    # The second product sums over keys and retrieved chunks at once.
    weights = torch.softmax(scores, dim=-1).view(rows, groups, tokens * shared, -1)
    out = (weights.to(v.dtype) @ v).view(rows, groups, tokens, shared, size)
    return out.permute(0, 2, 1, 3, 4).reshape(batch, chunks, tokens, heads, size)


def _gather(pool: Tensor, flat: Tensor, rows: int) -> Tensor:
    """Take chunks of a pool [P, S, Hk, D] -> [rows, R, S + 1, Hk, D], the last key of each zero."""
    # index_select's backward adds whole chunks; that of indexing adds number by number.
    chunks: Tensor = F.pad(pool.index_select(0, flat), (0, 0, 0, 0, 0, 1)).unflatten(0, (rows, -1))
    return chunks


def _bias(mask: Tensor, off_by_one: bool, dtype: torch.dtype) -> Tensor | None:
    """Return what is added to the scores of each chunk, [P, S + 1]; ``None`` for zeros."""
    # Looking costs a GPU a wait, and a compiler its graph.
    may_look = off_by_one and not mask.is_cuda and not torch.compiler.is_compiling()
    if may_look and bool(mask.all()):
        return None
    bias = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    bias = bias.masked_fill(~mask, float("-inf"))
    # Without the extra key's 1 it only catches what would be lost: a chunk where nothing exists.
    return F.pad(bias, (0, 1), value=0.0 if off_by_one else torch.finfo(dtype).min / 4)
