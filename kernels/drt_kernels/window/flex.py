"""Sliding-window attention through FlexAttention: the path for a GPU.

FlexAttention makes one fused kernel from the bias and the mask below and skips the blocks outside
the band. The mask depends on lengths alone, because padding is moved behind the tokens that exist.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from drt_kernels.window.band import Band

_ROUND = 128  # lengths are padded to multiples of the mask's blocks


def window_flex(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    band: Band,
    *,
    compiled: bool = True,
) -> Tensor:
    """Compute what ``window_reference`` computes, with the same arguments, in the query's type.

    ``compiled=False`` runs PyTorch's own form of the same computation, which holds all scores.
    """
    valid, window, slopes = band
    if valid is not None:
        # Tokens that exist come first, in their order: then distances are those of places.
        order = (~valid).to(torch.int8).argsort(dim=1, stable=True)
        # Memory where no token exists may hold anything, and 0 * NaN is NaN.
        q, k, v = (_take(t, order, valid) for t in (query, keys, values))
        out = window_flex(q, k, v, Band(None, window, slopes), compiled=compiled)
        back = out.gather(1, order.argsort(dim=1)[:, :, None, None].expand_as(out))
        return back.masked_fill(~valid[:, :, None, None], 0.0)
    length = query.shape[1]
    pad = -length % _ROUND
    pieces = (query, keys.to(query.dtype), values.to(query.dtype))
    q, k, v = (F.pad(t, (0, 0, 0, 0, 0, pad)).transpose(1, 2) for t in pieces)
    steep = slopes.to(torch.float32)

    def alibi(score: Tensor, _: Tensor, head: Tensor, at: Tensor, seen: Tensor) -> Tensor:
        return score - steep[head] * (at - seen)

    # PyTorch's own function is typed for all it can return; with these arguments it is a tensor.
    attend = cast("Callable[..., Tensor]", _compiled() if compiled else flex_attention)
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
    """Return tokens of ``x`` [B, T, H, D] in the ``order`` [B, T], zeros for those not there."""
    x = x.masked_fill(~valid[:, :, None, None], 0.0)
    return x.gather(1, order[:, :, None, None].expand_as(x))


@lru_cache(maxsize=32)
def _band(length: int, window: int, device: torch.device) -> BlockMask:
    """Return which blocks of scores hold any inside the window."""

    def inside(_: Tensor, __: Tensor, at: Tensor, seen: Tensor) -> Tensor:
        return (at >= seen) & (at - seen < window)

    with torch.inference_mode(False):
        return create_block_mask(inside, None, None, length, length, device=device)


@lru_cache(maxsize=1)
def _compiled() -> Callable[..., Tensor]:
    """Return one compiled function for all shapes: PyTorch compiles and keeps one per family."""
    return torch.compile(flex_attention)
