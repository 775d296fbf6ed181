"""Causal sliding-window attention with ALiBi over a sequence that may hold padding.

Distances are counted in tokens that exist (``positions``), so padding changes nothing wherever it
stands.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from drt_engine.model.cache import WindowCache
from drt_engine.model.layers import RMSNorm, linear

_DENSE_LIMIT = 1040  # above this, blocks cost less than the full square of scores
_BLOCK = 128
_BLOCKS_AT_ONCE = 16  # their scores stay in the processor's cache


def alibi_slopes(heads: int) -> Tensor:
    """Return the slope of each head, ``2 ** (-8 (i + 1) / H)``."""
    return torch.tensor([2.0 ** (-8.0 * (i + 1) / heads) for i in range(heads)])


def attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    distance: Tensor,
    allowed: Tensor,
    slopes: Tensor,
) -> Tensor:
    """Softmax attention with ALiBi: ``query`` [N, T, H, D] over ``keys``, ``values`` [N, U, Hk, D].

    ``distance`` and ``allowed`` are [N or 1, T, U]. A row that may see nothing gives zeros.
    """
    bias = _bias(distance, allowed, slopes, groups=keys.shape[2], dtype=query.dtype)
    out = _weigh(query, keys, values, bias)
    return out * allowed.any(dim=-1)[:, :, None, None].to(out.dtype)


def _bias(
    distance: Tensor, allowed: Tensor, slopes: Tensor, *, groups: int, dtype: torch.dtype
) -> Tensor:
    """[N, T, U] -> what is added to the scores, [N, Hk, heads per group, T, U]."""
    bias = -slopes.view(1, groups, -1, 1, 1) * distance[:, None, None].to(slopes.dtype)
    fill = torch.finfo(dtype).min / 2
    return bias.masked_fill(~allowed[:, None, None], fill).to(dtype)


def _weigh(query: Tensor, keys: Tensor, values: Tensor, bias: Tensor) -> Tensor:
    n, tokens, heads, size = query.shape
    groups = keys.shape[2]
    shared = heads // groups
    q = query.view(n, tokens, groups, shared, size).permute(0, 2, 3, 1, 4)  # [N, Hk, shared, T, D]
    q = q.reshape(n, groups, shared * tokens, size) * size**-0.5
    k, v = keys.permute(0, 2, 3, 1), values.transpose(1, 2)
    scores = (q @ k.to(q.dtype)).view(n, groups, shared, tokens, -1)
    weights = torch.softmax(scores + bias, dim=-1)
    out = weights.view(n, groups, shared * tokens, -1) @ v.to(weights.dtype)
    out = out.view(n, groups, shared, tokens, size).permute(0, 3, 1, 2, 4)
    return out.reshape(n, tokens, heads, size)


def window_attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    positions: Tensor,
    valid: Tensor,
    window: int,
    slopes: Tensor,
    blocked: bool | None = None,
) -> Tensor:
    """Causal attention of each token to the ``window`` tokens that end with it.

    ``query`` [B, T, H, D], ``keys``, ``values`` [B, T, Hk, D], ``positions`` [B, T] counting only
    tokens that exist, ``valid`` [B, T]. ``blocked`` overrides the choice between one square of
    scores and blocks of it.
    """
    length = query.shape[1]
    if length > _DENSE_LIMIT if blocked is None else blocked:
        if bool(valid.all()):
            return _blocked(query, keys, values, window=window, slopes=slopes)
        # Padding behind the tokens that exist is never seen by them: move it there.
        order = (~valid).long().argsort(dim=1, stable=True)
        moved = [_reorder(t, order) for t in (query, keys, values)]
        out = _blocked(moved[0], moved[1], moved[2], window=window, slopes=slopes)
        return _reorder(out, order.argsort(dim=1))
    distance = positions[:, :, None] - positions[:, None, :]
    causal = torch.ones(length, length, dtype=torch.bool, device=query.device).tril()
    allowed = causal & valid[:, None, :] & (distance < window)
    return attend(query, keys, values, distance=distance, allowed=allowed, slopes=slopes)


def _reorder(x: Tensor, order: Tensor) -> Tensor:
    return x.gather(1, order[:, :, None, None].expand_as(x))


def _blocked(query: Tensor, keys: Tensor, values: Tensor, *, window: int, slopes: Tensor) -> Tensor:
    """Each block of queries against its own block of keys and those before it in the window."""
    batch, length, heads, size = query.shape
    pad = -length % _BLOCK
    count = (length + pad) // _BLOCK
    back = -(-(window - 1) // _BLOCK)
    q, k, v = (F.pad(t, (0, 0, 0, 0, 0, pad)) for t in (query, keys, values))
    slot = torch.arange((back + 1) * _BLOCK, device=query.device)
    distance = (slot[:_BLOCK, None] + back * _BLOCK - slot[None, :])[None]
    allowed = (distance >= 0) & (distance < window)
    bias = _bias(distance, allowed, slopes, groups=keys.shape[2], dtype=query.dtype)
    parts = []
    for i in range(min(back, count)):  # the first blocks have fewer keys before them
        here, seen = slice(i * _BLOCK, (i + 1) * _BLOCK), slice(0, (i + 1) * _BLOCK)
        near = bias[..., (back - i) * _BLOCK :]
        parts.append(_weigh(q[:, here], k[:, seen], v[:, seen], near))
    for i in range(back, count, _BLOCKS_AT_ONCE):
        some = min(_BLOCKS_AT_ONCE, count - i)
        here = slice(i * _BLOCK, (i + some) * _BLOCK)
        reach = slice((i - back) * _BLOCK, (i + some) * _BLOCK)
        rows = q[:, here].reshape(batch * some, _BLOCK, heads, size)
        out = _weigh(rows, _bands(k[:, reach], back), _bands(v[:, reach], back), bias)
        parts.append(out.reshape(batch, some * _BLOCK, heads, size))
    return torch.cat(parts, dim=1)[:, :length]


def _bands(x: Tensor, back: int) -> Tensor:
    """[B, (back + n) * block, H, D] -> [B * n, (back + 1) * block, H, D], overlapping."""
    bands = x.unfold(1, (back + 1) * _BLOCK, _BLOCK)  # [B, n, H, D, (back + 1) * block]
    return bands.permute(0, 1, 4, 2, 3).flatten(0, 1)


class WindowAttention(nn.Module):
    """Pre-norm self-attention: norm, projections, causal window with ALiBi, output projection."""

    slopes: Tensor

    def __init__(
        self, width: int, heads: int, kv_heads: int, *, window: int, out_scale: float = 1.0
    ) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size, self.window = heads, kv_heads, width // heads, window
        self.norm = RMSNorm(width)
        self.qkv = linear(width, (heads + 2 * kv_heads) * self.size)
        self.out = linear(heads * self.size, width, scale=out_scale)
        self.register_buffer("slopes", alibi_slopes(heads), persistent=False)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[B, T, E] -> query [B, T, H, D], keys and values [B, T, Hk, D]."""
        batch, tokens, _ = x.shape
        both = self.qkv(self.norm(x)).view(batch, tokens, -1, self.size)
        q, k, v = both.split([self.heads, self.kv_heads, self.kv_heads], dim=2)
        return q, k, v

    def forward(self, x: Tensor, positions: Tensor, valid: Tensor) -> Tensor:
        """[B, T, E] -> what is added to the residual stream, [B, T, E]."""
        q, k, v = self.project(x)
        out = window_attention(
            q,
            k,
            v,
            positions=positions,
            valid=valid,
            window=self.window,
            slopes=self.slopes,
        )
        return self.out(out.flatten(2))  # type: ignore[no-any-return]

    def step(self, x: Tensor, positions: Tensor, past: WindowCache, layer: int) -> Tensor:
        """The same for new tokens [B, T, E] that follow ``past``, which receives their keys and
        values.
        """
        q, k, v = self.project(x)
        keys, values, places, valid = past.extend(layer, k, v)
        distance = positions[:, :, None] - places[:, None, :]
        allowed = valid[:, None, :] & (distance >= 0) & (distance < self.window)
        out = attend(q, keys, values, distance=distance, allowed=allowed, slopes=self.slopes)
        return self.out(out.flatten(2))  # type: ignore[no-any-return]
