"""Window attention: blocks equal the full square, padding changes nothing, the window is kept."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from drt_engine.model.attention import WindowAttention, alibi_slopes, window_attention
from drt_engine.model.chunking import positions_of
from tests.engine.model.factories import full

HEADS, GROUPS, SIZE = 4, 2, 4


def attend(x: Tensor, valid: Tensor, *, window: int = 70, blocked: bool) -> Tensor:
    """Attention over random queries, keys and values [B, T, (H + 2 Hk) * D]."""
    q, k, v = x.unflatten(-1, (-1, SIZE)).split([HEADS, GROUPS, GROUPS], dim=2)
    return window_attention(
        q,
        k,
        v,
        positions=positions_of(valid),
        valid=valid,
        window=window,
        slopes=alibi_slopes(HEADS),
        blocked=blocked,
    )


def tokens(batch: int, length: int) -> Tensor:
    return torch.randn(batch, length, (HEADS + 2 * GROUPS) * SIZE)


@pytest.mark.parametrize("length", [1, 63, 64, 65, 128, 129, 195, 1100])
def test_blocked_equals_dense(length: int) -> None:
    x = tokens(1 if length > 500 else 2, length)
    valid = full(x[..., 0])
    dense = attend(x, valid, blocked=False)
    torch.testing.assert_close(attend(x, valid, blocked=True), dense)


@pytest.mark.parametrize("window", [1, 16, 127, 128, 129, 400])
def test_blocked_equals_dense_for_any_window(window: int) -> None:
    x = tokens(1, 300)
    valid = full(x[..., 0])
    dense = attend(x, valid, window=window, blocked=False)
    torch.testing.assert_close(attend(x, valid, window=window, blocked=True), dense)


def scalar_attention(x: Tensor, window: int) -> Tensor:
    """The definition, one query and head at a time."""
    q, k, v = x.unflatten(-1, (-1, SIZE)).split([HEADS, GROUPS, GROUPS], dim=1)
    out = torch.zeros_like(q)
    for t in range(len(x)):
        for h in range(HEADS):
            seen = range(max(0, t - window + 1), t + 1)
            group = h // (HEADS // GROUPS)
            slope = 2.0 ** (-8 * (h + 1) / HEADS)
            scores = [q[t, h] @ k[u, group] / SIZE**0.5 - slope * (t - u) for u in seen]
            weights = torch.softmax(torch.stack(scores), 0)
            out[t, h] = sum(w * v[u, group] for w, u in zip(weights, seen, strict=True))
    return out


@pytest.mark.parametrize("blocked", [False, True])
def test_it_is_softmax_with_alibi_over_the_window(blocked: bool) -> None:
    x = tokens(1, 9)
    wanted = scalar_attention(x[0], 4)
    torch.testing.assert_close(attend(x, full(x[..., 0]), window=4, blocked=blocked)[0], wanted)


@pytest.mark.parametrize("blocked", [False, True])
@pytest.mark.parametrize(
    ("left", "middle", "right"),
    [(1, 0, 0), (0, 1, 0), (0, 0, 1), (63, 0, 0), (0, 63, 0), (0, 0, 63), (130, 5, 7), (2, 200, 0)],
    ids=str,
)
def test_padding_changes_nothing(left: int, middle: int, right: int, blocked: bool) -> None:
    x = tokens(1, 150)
    alone = attend(x, full(x[..., 0]), blocked=False)
    parts = [tokens(1, left), x[:, :100], tokens(1, middle), x[:, 100:], tokens(1, right)]
    exists = [0, 1, 0, 1, 0]
    valid = torch.cat(
        [torch.full(p.shape[:2], bool(e)) for p, e in zip(parts, exists, strict=True)], dim=1
    )
    padded = attend(torch.cat(parts, dim=1), valid, blocked=blocked)
    torch.testing.assert_close(padded[valid], alone[0])


@pytest.mark.parametrize("blocked", [False, True])
def test_padding_in_several_chunks_of_one_window_changes_nothing(blocked: bool) -> None:
    x = tokens(1, 40)
    valid = (torch.arange(400) % 10 == 0)[None]
    padded = tokens(1, 400)
    padded[valid] = x[0]
    out = attend(padded, valid, window=30, blocked=blocked)
    torch.testing.assert_close(out[valid], attend(x, full(x[..., 0]), window=30, blocked=False)[0])


@pytest.mark.parametrize("blocked", [False, True])
def test_the_window_ends_with_the_token_itself(blocked: bool) -> None:
    x, window = tokens(1, 300), 70
    out = attend(x, full(x[..., 0]), window=window, blocked=blocked)
    other = x.clone()
    other[0, 150] += 1.0
    moved = (attend(other, full(x[..., 0]), window=window, blocked=blocked) != out)[0]
    assert moved.flatten(1).any(dim=1).nonzero().flatten().tolist() == [*range(150, 150 + window)]


def test_slopes_halve_as_in_alibi() -> None:
    torch.testing.assert_close(alibi_slopes(8), 2.0 ** -torch.arange(1.0, 9.0))
    assert alibi_slopes(12)[11].item() == pytest.approx(2**-8)


def test_a_token_that_may_see_nothing_gets_nothing() -> None:
    x = tokens(1, 5)
    valid = torch.tensor([[False, False, True, True, False]])
    out = attend(x, valid, blocked=False)
    assert out[0, :2].abs().max() == 0
    assert torch.isfinite(out).all()


def test_the_layer_projects_normalises_and_joins_heads() -> None:
    layer = WindowAttention(16, HEADS, GROUPS, window=3)
    x = torch.randn(1, 6, 16)
    wanted = scalar_attention(layer.qkv(layer.norm(x))[0], 3).flatten(1) @ layer.out.weight.T
    torch.testing.assert_close(layer(x, positions_of(full(x[..., 0])), full(x[..., 0]))[0], wanted)
