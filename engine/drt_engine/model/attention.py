"""Causal sliding-window attention with ALiBi over a sequence that may hold padding.

Distances are counted in tokens that exist (``positions``), so padding changes nothing wherever it stands.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from drt_engine.model.cache import WindowCache
from drt_engine.model.layers import RMSNorm, linear

_DENSE_LIMIT = 1040  # above this, blocks cost less than the full square of scores


def alibi_slopes(heads: int) -> Tensor:
    """Return the slope of each head, ``2 ** (-8 (i + 1) / H)``."""
    return torch.tensor([2.0 ** (-8.0 * (i + 1) / heads) for i in range(heads)])


def attend(
    query: Tensor, keys: Tensor, values: Tensor, *, distance: Tensor, allowed: Tensor, slopes: Tensor
) -> Tensor:
    """Softmax attention with ALiBi: ``query`` [N, T, H, D] over ``keys``, ``values`` [N, U, Hk, D].

    ``distance`` and ``allowed`` are [N, T, U]. A row that may see nothing gives zeros. Returns [N, T, H, D].
    """
    n, tokens, heads, size = query.shape
    groups = keys.shape[2]
    shared = heads // groups
    q = query.view(n, tokens, groups, shared, size).permute(0, 2, 3, 1, 4)  # [N, Hk, shared, T, D]
    q = q.reshape(n, groups, shared * tokens, size) * size**-0.5
    k, v = keys.permute(0, 2, 3, 1), values.transpose(1, 2)
    scores = (q @ k.to(q.dtype)).view(n, groups, shared, tokens, -1)
    fill = torch.finfo(scores.dtype).min / 2
    bias = -slopes.view(1, groups, shared, 1, 1) * distance[:, None, None].to(slopes.dtype)
    bias = bias.masked_fill(~allowed[:, None, None], fill).to(scores.dtype)
    weights = torch.softmax(scores + bias, dim=-1)
    out = weights.view(n, groups, shared * tokens, -1) @ v.to(weights.dtype)
    out = out.view(n, groups, shared, tokens, size).permute(0, 3, 1, 2, 4)
    out = out.reshape(n, tokens, heads, size)
    return out * allowed.any(dim=-1)[:, :, None, None].to(out.dtype)


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

    ``query`` [B, T, H, D], ``keys``, ``values`` [B, T, Hk, D], ``positions`` [B, T] counting only tokens that exist,
    ``valid`` [B, T]. ``blocked`` overrides the choice between one square of scores and blocks of it.
    """
    length = query.shape[1]
    if not (length > _DENSE_LIMIT if blocked is None else blocked):
        distance = positions[:, :, None] - positions[:, None, :]
        causal = torch.ones(length, length, dtype=torch.bool, device=query.device).tril()
        allowed = causal & valid[:, None, :] & (distance < window)
        return attend(query, keys, values, distance=distance, allowed=allowed, slopes=slopes)
    return _blocked(
        query, keys, values, positions=positions, valid=valid, window=window, slopes=slopes
    )


def _blocked(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    positions: Tensor,
    valid: Tensor,
    window: int,
    slopes: Tensor,
) -> Tensor:
    """Each block of queries sees its own block and as many before it as the window and padding can reach."""
    batch, length, heads, size = query.shape
    block = 128
    pad = -length % block
    n = (length + pad) // block
    # One chunk of padding may stand inside the window: one more block keeps every real token in reach.
    back = -(-window // block) + 1
    q = F.pad(query, (0, 0, 0, 0, 0, pad)).view(batch * n, block, heads, size)
    spans = [_bands(F.pad(t, (0, 0, 0, 0, 0, pad)), block, back) for t in (keys, values)]
    place = F.pad(positions, (0, pad))
    key_place = _bands(place[..., None, None], block, back)[..., 0, 0]
    key_valid = _bands(F.pad(valid, (0, pad))[..., None, None], block, back)[..., 0, 0]
    distance = place.view(batch * n, block, 1) - key_place[:, None, :]
    slot = torch.arange((back + 1) * block, device=query.device)
    causal = slot[None, :] <= slot[:block, None] + back * block
    allowed = causal & key_valid[:, None, :] & (distance < window)
    out = attend(q, spans[0], spans[1], distance=distance, allowed=allowed, slopes=slopes)
    return out.reshape(batch, n * block, heads, size)[:, :length]


def _bands(x: Tensor, block: int, back: int) -> Tensor:
    """[B, n * block, H, D] -> [B * n, (back + 1) * block, H, D]: each block with those before it."""
    batch, length, heads, size = x.shape
    n = length // block
    x = F.pad(x, (0, 0, 0, 0, back * block, 0))
    bands = x.unfold(1, (back + 1) * block, block)  # [B, n, H, D, (back + 1) * block]
    return bands.permute(0, 1, 4, 2, 3).reshape(batch * n, (back + 1) * block, heads, size)


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

    def step(
        self, x: Tensor, positions: Tensor, past: WindowCache, layer: int
    ) -> Tensor:
        """The same for new tokens [B, T, E] that follow ``past``, which receives their keys and values."""
        q, k, v = self.project(x)
        keys, values, places, valid = past.extend(layer, k, v)
        distance = positions[:, :, None] - places[:, None, :]
        allowed = valid[:, None, :] & (distance >= 0) & (distance < self.window)
        out = attend(q, keys, values, distance=distance, allowed=allowed, slopes=self.slopes)
        return self.out(out.flatten(2))  # type: ignore[no-any-return]

