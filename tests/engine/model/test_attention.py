"""The window attention layer: what surrounds the kernel, whose own tests are in tests/kernels."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from drt_engine.model.attention import WindowAttention, alibi_slopes
from tests.engine.model.factories import full

HEADS, GROUPS, SIZE, WINDOW = 4, 2, 4, 3


def scalar_attention(x: Tensor) -> Tensor:
    """The definition, one query and head at a time, over projections [T, (H + 2 Hk) * D]."""
    q, k, v = x.unflatten(-1, (-1, SIZE)).split([HEADS, GROUPS, GROUPS], dim=1)
    out = torch.zeros_like(q)
    for t in range(len(x)):
        for h in range(HEADS):
            seen = range(max(0, t - WINDOW + 1), t + 1)
            group = h // (HEADS // GROUPS)
            slope = 2.0 ** (-8 * (h + 1) / HEADS)
            scores = [q[t, h] @ k[u, group] / SIZE**0.5 - slope * (t - u) for u in seen]
            weights = torch.softmax(torch.stack(scores), 0)
            out[t, h] = sum(w * v[u, group] for w, u in zip(weights, seen, strict=True))
    return out.flatten(1)


def layer() -> WindowAttention:
    return WindowAttention(HEADS * SIZE, HEADS, GROUPS, window=WINDOW)


def test_slopes_halve_as_in_alibi() -> None:
    torch.testing.assert_close(alibi_slopes(8), 2.0 ** -torch.arange(1.0, 9.0))
    assert alibi_slopes(12)[11].item() == pytest.approx(2**-8)


def test_the_layer_projects_normalises_and_joins_heads() -> None:
    attention = layer()
    x = torch.randn(1, 6, HEADS * SIZE)
    valid = full(x[..., 0])
    wanted = scalar_attention(attention.qkv(attention.norm(x))[0]) @ attention.out.weight.T
    torch.testing.assert_close(attention(x, valid)[0], wanted)


def test_padding_changes_nothing_and_gets_nothing() -> None:
    attention = layer()
    x = torch.randn(1, 9, HEADS * SIZE)
    valid = torch.tensor([[False, True, True, False, True, True, True, False, True]])
    out = attention(x, valid)
    alone = x[valid][None]
    wanted = attention(alone, full(alone[..., 0]))
    torch.testing.assert_close(out[valid], wanted[0])
    assert out[~valid].abs().max() == 0


def test_every_weight_learns() -> None:
    attention = layer()
    x = torch.randn(2, 7, HEADS * SIZE)
    valid = torch.rand(2, 7) < 0.7
    attention(x, valid).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in attention.parameters())
