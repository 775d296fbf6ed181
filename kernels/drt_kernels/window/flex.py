"""Sliding-window attention through FlexAttention: the path for a GPU.

FlexAttention makes one fused kernel from the bias and the mask below and skips the blocks outside
the band. The mask depends on lengths alone, because padding is moved behind the tokens that exist.
Heads are padded to a power of two, the sizes that every PyTorch takes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from drt_kernels.launch import power_of_two
from drt_kernels.window.band import Band

_ROUND = 128  # lengths are padded to multiples of the mask's blocks
_LEAST = 16  # numbers of a head that matrix units multiply


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
    length, size = query.shape[1], query.shape[3]
    pad, more = -length % _ROUND, power_of_two(size, least=_LEAST) - size
    pieces = (query, keys.to(query.dtype), values.to(query.dtype))
    q, k, v = (F.pad(t, (0, more, 0, 0, 0, pad)).transpose(1, 2) for t in pieces)
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
        scale=size**-0.5,
        enable_gqa=query.shape[2] != keys.shape[2],
    )
    return out.transpose(1, 2)[:, :length, :, :size]


def _take(x: Tensor, order: Tensor, valid: Tensor) -> Tensor:
    """Return tokens of ``x`` [B, T, H, D] in the ``order`` [B, T], zeros for those not there."""
    x = x.masked_fill(~valid[:, :, None, None], 0.0)
    return x.gather(1, order[:, :, None, None].expand_as(x))


@lru_cache(maxsize=32)
def _band(length: int, window: int, device: torch.device) -> BlockMask:
    """Return which blocks of scores hold any inside the window, and which are all inside.

    By blocks: PyTorch's own function looks at every score, many GB of them for a long stream.
    """

    def inside(_: Tensor, __: Tensor, at: Tensor, seen: Tensor) -> Tensor:
        return (at >= seen) & (at - seen < window)

    with torch.inference_mode(False):
        first = torch.arange(0, length, _ROUND, device=device)
        # How far the first query of a block, or row, is behind the first key of one, or column.
        distance = first[:, None] - first
        nearest, farthest = distance - (_ROUND - 1), distance + (_ROUND - 1)
        some = (farthest >= 0) & (nearest < window)
        whole = (nearest >= 0) & (farthest < window)
        return BlockMask.from_kv_blocks(
            *_listed(some & ~whole), *_listed(whole), BLOCK_SIZE=_ROUND, mask_mod=inside
        )


def _listed(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Return how many columns [1, 1, N] of each row of ``blocks`` [N, N] are true, and which."""
    columns = blocks.to(torch.int8).argsort(dim=1, descending=True, stable=True)
    return blocks.sum(dim=1, dtype=torch.int32)[None, None], columns.to(torch.int32)[None, None]


@lru_cache(maxsize=1)
def _compiled() -> Callable[..., Tensor]:
    """Return one compiled function for all shapes: PyTorch compiles and keeps one per family."""
    return torch.compile(flex_attention)
