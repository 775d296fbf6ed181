"""Projections around causal sliding-window attention with ALiBi.

A sequence may hold padding. The attention itself is ``drt_kernels.window_attention``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from drt_engine.model.layers import RMSNorm, linear
from drt_kernels import window_attention


def alibi_slopes(heads: int) -> Tensor:
    """Return the slope of each head, ``2 ** (-8 (i + 1) / H)``."""
    return torch.tensor([2.0 ** (-8.0 * (i + 1) / heads) for i in range(heads)])


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
        self.keep_weights = True  # for the backward pass, or compute them again
        self.register_buffer("slopes", alibi_slopes(heads), persistent=False)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Project [B, T, E] to query [B, T, H, D], keys and values [B, T, Hk, D]."""
        batch, tokens, _ = x.shape
        heads = self.qkv(self.norm(x)).view(batch, tokens, -1, self.size)  # [B, T, H + 2 Hk, D]
        q, k, v = heads.split([self.heads, self.kv_heads, self.kv_heads], dim=2)
        return q, k, v

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        """Return what the residual stream [B, T, E] gains; ``valid`` [B, T]: tokens that exist."""
        return self.attend_projected(*self.project(x), valid)

    def attend_projected(self, q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
        """Return ``forward`` of what ``project`` has returned."""
        out = window_attention(
            q,
            k,
            v,
            valid=valid,
            window=self.window,
            slopes=self.slopes,
            keep_weights=self.keep_weights,
        )
        return self.out(out.flatten(2))  # type: ignore[no-any-return]
