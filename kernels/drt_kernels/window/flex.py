"""Sliding-window attention through FlexAttention: the path for a GPU.

FlexAttention makes one fused kernel from the bias and the mask below and skips the blocks outside
the band. The mask depends on lengths alone, because padding is moved behind the tokens that exist.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

_ROUND = 128  # lengths are padded to multiples of the mask's blocks


def window_flex(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    valid: Tensor | None,
    window: int,
    slopes: Tensor,
    compiled: bool = True,
) -> Tensor:
    """Compute what ``window_reference`` computes, with the same arguments, in the query's type.

    ``compiled=False`` runs PyTorch's own form of the same computation, which holds all scores.
    """
    if valid is not None:
        order = (~valid).to(torch.int8).argsort(dim=1, stable=True)
        # Memory where no token exists may hold anything, and 0 * NaN is NaN.
        moved = [_take(t, order, valid) for t in (query, keys, values)]
        out = window_flex(*moved, valid=None, window=window, slopes=slopes, compiled=compiled)
        back = out.gather(1, order.argsort(dim=1)[:, :, None, None].expand_as(out))
        return back.masked_fill(~valid[:, :, None, None], 0.0)
    length = query.shape[1]
    pad = -length % _ROUND
    pieces = (query, keys.to(query.dtype), values.to(query.dtype))
    q, k, v = (F.pad(t, (0, 0, 0, 0, 0, pad)).transpose(1, 2) for t in pieces)
    steep = slopes.to(torch.float32)

    def alibi(score: Tensor, batch: Tensor, head: Tensor, at: Tensor, seen: Tensor) -> Tensor:
        return score - steep[head] * (at - seen)

    attend = _compiled() if compiled else flex_attention
    out = attend(
        q,
        k,
        v,
        score_mod=alibi,
        block_mask=_band(length + pad, window, query.device),
        enable_gqa=query.shape[2] != keys.shape[2],
    )
    return out.transpose(1, 2)[:, :length]


def _take(x: Tensor, order: Tensor, valid: Tensor) -> Tensor:
    x = x.masked_fill(~valid[:, :, None, None], 0.0)
    return x.gather(1, order[:, :, None, None].expand_as(x))


@lru_cache(maxsize=32)
def _band(length: int, window: int, device: torch.device) -> BlockMask:
    def inside(batch: Tensor, head: Tensor, at: Tensor, seen: Tensor) -> Tensor:
        return (at >= seen) & (at - seen < window)

    with torch.inference_mode(False):
        return create_block_mask(inside, None, None, length, length, device=device)


@lru_cache(maxsize=1)
def _compiled() -> Callable[..., Tensor]:
    """One compiled function for all shapes: PyTorch compiles per family of shapes and keeps it."""
    return torch.compile(flex_attention)
