"""Sliding-window attention by its definition: the truth that other forms are held to."""

from __future__ import annotations

import torch
from torch import Tensor

from drt_kernels.window.band import Band


def window_reference(query: Tensor, keys: Tensor, values: Tensor, band: Band) -> Tensor:
    """Apply causal softmax attention with ALiBi over the tokens of a window that ends with each.

    ``query`` [B, T, H, D], ``keys``, ``values`` [B, T, Hk, D] -> [B, T, H, D]. Distances count
    tokens that exist; one that does not gets zeros. fp32 inside, double for double. Source: arXiv
    2108.12409 for the bias.
    """
    valid, window, slopes = band
    wide = query.dtype if query.dtype == torch.float64 else torch.float32
    repeat = query.shape[2] // keys.shape[2]
    exists = query.new_ones(query.shape[:2], dtype=torch.bool) if valid is None else valid
    q, k, v = (
        t.to(wide).masked_fill(~exists[:, :, None, None], 0.0) for t in (query, keys, values)
    )
    k, v = (t.repeat_interleave(repeat, dim=2) for t in (k, v))
    places = exists.long().cumsum(dim=1)
    distance = places[:, :, None] - places[:, None, :]  # [B, T, U]
    order = torch.arange(query.shape[1], device=query.device)
    allowed = (order[:, None] >= order) & exists[:, None] & exists[:, :, None]
    allowed &= distance < window
    # All scores at once, [B, H, T, U], less the bias; only then the mask.
    scores = torch.einsum("bthd,buhd->bhtu", q, k) * q.shape[-1] ** -0.5
    scores = scores - slopes.to(wide).view(1, -1, 1, 1) * distance[:, None]
    scores = scores.masked_fill(~allowed[:, None], float("-inf"))
    # A row without any key would be NaN in the softmax, and so would its gradient.
    scores = scores.masked_fill(~exists[:, None, :, None], 0.0)
    out = torch.einsum("bhtu,buhd->bthd", torch.softmax(scores, dim=-1), v)
    return out.masked_fill(~exists[:, :, None, None], 0.0).to(query.dtype)
