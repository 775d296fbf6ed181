"""Linear maps in eight bits: exact sums, rows that are independent, and a close result."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from drt_engine.model import int8
from drt_engine.model.int8 import Int8Linear


def pair(inputs: int = 96, outputs: int = 40, *, bias: bool = True) -> tuple[nn.Linear, Int8Linear]:
    torch.manual_seed(0)
    linear = nn.Linear(inputs, outputs, bias=bias)
    return linear, Int8Linear(linear)


WAYS = ["bytes", "laid out", "fp32"]


def multiply_by(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Multiply integers as a processor does that has this way; skip where this one has not."""
    if way == "laid out" and not int8.lays_out():
        pytest.skip("oneDNN does not multiply bytes exactly here")
    monkeypatch.setattr(int8, "fast_int8", lambda: way == "bytes")
    monkeypatch.setattr(int8, "lays_out", lambda: way == "laid out")


@pytest.fixture(autouse=True, params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test of all ways to multiply the integers."""
    multiply_by(request.param, monkeypatch)
    return str(request.param)


@pytest.mark.parametrize("inputs", [96, 1536, 3072])
def test_all_products_are_the_same_bits(
    way: str, inputs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(33, inputs) * torch.logspace(-3, 3, 33)[:, None]
    x[0] = x[0].sign() * 5  # the largest codes everywhere
    linear, _ = pair(inputs, 24)
    linear.weight.data[0] = x[0]  # and the largest sum
    rounded = Int8Linear(linear)
    assert (rounded.laid_out is not None) is (way == "laid out")
    out = rounded(x)
    multiply_by("bytes", monkeypatch)
    assert torch.equal(out, Int8Linear(linear)(x))


def test_sums_that_fp32_would_round_are_left_to_integers(way: str) -> None:
    rounded = Int8Linear(nn.Linear(2065, 1))
    assert rounded.wide is None and (rounded.laid_out is None) is (way != "laid out")


def test_it_gives_nearly_what_the_linear_map_gives() -> None:
    linear, rounded = pair()
    x = torch.randn(3, 700, 96)  # more rows than are multiplied at a time
    expected = linear(x)
    assert (rounded(x) - expected).norm() / expected.norm() < 0.02


def test_it_is_the_sum_of_integers_times_scales() -> None:
    linear, rounded = pair(bias=False)
    x = torch.randn(5, 96)
    step = x.abs().amax(dim=1, keepdim=True) / 127
    codes = (x / step).round()
    scale = linear.weight.abs().amax(dim=1) / 64
    weight = (linear.weight / scale[:, None]).round()
    expected = (codes.double() @ weight.double().t()) * step * scale
    assert torch.allclose(rounded(x).double(), expected, rtol=1e-5, atol=1e-6)


def test_the_largest_sums_do_not_overflow() -> None:
    """Without VNNI two products are added in sixteen bits: the largest of both signs must fit."""
    linear = nn.Linear(384, 2, bias=False)
    linear.weight.data = torch.tensor([[1.0], [-1.0]]).expand(2, 384).clone()
    rounded = Int8Linear(linear)
    for value in (1.0, -1.0):
        out = rounded(torch.full((4, 384), value))
        assert torch.allclose(out, value * torch.tensor([384.0, -384.0]).expand(4, 2))


def test_a_row_does_not_depend_on_the_rows_beside_it() -> None:
    _, rounded = pair()
    x = torch.randn(9, 96)
    x[0] *= 1000
    alone = torch.cat([rounded(row[None]) for row in x])
    assert torch.equal(rounded(x), alone)


def test_zeros_and_no_rows() -> None:
    linear, rounded = pair()
    assert torch.equal(rounded(torch.zeros(2, 96)), linear.bias.detach().expand(2, -1))
    assert rounded(torch.zeros(0, 96)).shape == (0, 40)
    empty = nn.Linear(8, 3)
    nn.init.zeros_(empty.weight)
    assert torch.isfinite(Int8Linear(empty)(torch.ones(1, 8))).all()
