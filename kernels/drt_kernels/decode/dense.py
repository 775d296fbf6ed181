"""A decoding step as two matrix products and a softmax: the path for a CPU."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from drt_kernels.decode.memory import DecodeMemory


def lay_out(memory: DecodeMemory, dtype: torch.dtype) -> DecodeMemory:
    """Gather what was retrieved, side by side, so that a step is products with whole matrices.

    A slot of zeros after each chunk is the 1 of the softmax off by one: its score is 0.
    """
    keys, values, mask = memory.records.gather(memory.index, dtype)  # [B, R, S, Hk, D]
    batch, _, _, groups, size = keys.shape
    weights = memory.probabilities.to(dtype)[:, :, None, None, None]
    # A chunk of probability 0 may hold anything, NaN too: it is hidden, not multiplied by 0.
    mask = mask & (weights != 0)[..., 0, 0]
    # Scale keys and weight values once here, not in every step; append the slot, S + 1.
    keys, values = (
        F.pad(t.masked_fill(weights == 0, 0.0), (0, 0, 0, 0, 0, 1))
        for t in (keys * size**-0.5, values * weights)
    )
    bias = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    bias = bias.masked_fill(~mask, float("-inf"))  # [B, R, S]
    # Without the 1, the slot is seen only in a chunk that has no token at all.
    slot_bias = bias.new_zeros(bias.shape[:2])
    if not memory.off_by_one:
        slot_bias = slot_bias.masked_fill(mask.any(dim=-1), float("-inf"))
    bias = torch.cat([bias, slot_bias[..., None]], dim=-1).flatten(1)  # [B, R * (S + 1)]
    return replace(
        memory,
        keys=keys.permute(0, 3, 4, 1, 2).reshape(batch * groups, size, -1),
        values=values.permute(0, 3, 1, 2, 4).reshape(batch * groups, -1, size),
        bias=bias.repeat_interleave(groups, dim=0)[:, None],
    )


def decode_dense(query: Tensor, memory: DecodeMemory) -> Tensor:
    """Compute what ``decode_reference`` computes from what ``lay_out`` made."""
    keys, values, bias = memory.keys, memory.values, memory.bias
    assert keys is not None and values is not None and bias is not None
    batch, tokens, heads, size = query.shape
    groups, chunks = keys.shape[0] // batch, memory.index.shape[1]
    if not chunks:
        return torch.zeros_like(query)
    # Query heads that share a key head become rows: [B * Hk, T * H / Hk, D].
    rows = query.to(keys.dtype).view(batch, tokens, groups, -1, size).transpose(1, 2)
    rows = rows.reshape(batch * groups, -1, size)
    # Autocast leaves products into given memory alone, and costs nothing that way.
    scores = keys.new_empty(*rows.shape[:2], keys.shape[2])
    torch.baddbmm(bias, rows, keys, out=scores)
    # One softmax per chunk: [B * Hk, T * H / Hk, R, S + 1].
    weights = torch.softmax(scores.view(*rows.shape[:2], chunks, -1), dim=-1).view_as(scores)
    out = torch.bmm(weights, values, out=torch.empty_like(rows))
    out = out.view(batch, groups, tokens, -1, size).transpose(1, 2)
    return out.reshape(query.shape).to(query.dtype)
