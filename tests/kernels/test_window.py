"""Sliding-window attention: every form against the definition, forward and every gradient."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention.flex_attention import create_block_mask

from drt_kernels import explain_window, window_attention
from drt_kernels.testing import assert_close, relative_error
from drt_kernels.window import banded
from drt_kernels.window.band import Band
from drt_kernels.window.flex import _band, window_flex
from tests.sampling import sampled

H, HK, D = 4, 2, 8
NAMES = ("query", "keys", "values")
BANDED_AND_REFERENCE = pytest.mark.parametrize("backend", ["banded", "reference"])


def slopes(heads: int = H) -> Tensor:
    return torch.tensor([2.0 ** (-8 * (i + 1) / heads) for i in range(heads)])


def operands(
    batch: int, length: int, *, dtype: torch.dtype = torch.float64, size: int = D
) -> list[Tensor]:
    return [torch.randn(batch, length, n, size).to(dtype) for n in (H, HK, HK)]


def attend(
    pieces: list[Tensor],
    valid: Tensor | None = None,
    *,
    window: int = 70,
    backend: str | None = None,
) -> Tensor:
    return window_attention(*pieces, valid=valid, window=window, slopes=slopes(), backend=backend)


def gradients(
    pieces: list[Tensor], weight: Tensor, valid: Tensor | None = None, **more: object
) -> dict[str, Tensor]:
    leaves = [t.detach().clone().requires_grad_() for t in pieces]
    out = attend(leaves, valid, **more)  # type: ignore[arg-type]
    grads = torch.autograd.grad((out.to(weight.dtype) * weight).sum(), leaves)
    return {"out": out.detach(), **dict(zip(("dq", "dk", "dv"), grads, strict=True))}


def check(pieces: list[Tensor], valid: Tensor | None = None, *, window: int, ratio: float) -> None:
    weight = torch.randn(pieces[0].shape, dtype=torch.float64)
    double = [t.double() for t in pieces]
    wanted = gradients(double, weight, valid, window=window, backend="reference")
    actual = gradients(pieces, weight, valid, window=window, backend="banded")
    for name, reference in wanted.items():
        assert_close(name, reference, actual[name], ratio)


@pytest.mark.parametrize("length", [1, 2, 63, 65, 128, 129, 257, 400])
def test_lengths(length: int) -> None:
    check(operands(2, length), window=70, ratio=1e-12)


@pytest.mark.few(4)
@pytest.mark.parametrize("window", [1, 2, 31, 32, 33, 34, 127, 128, 129, 500])
def test_windows(window: int) -> None:
    check(operands(1, 300), window=window, ratio=1e-12)


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("left", "middle", "right"),
    [(1, 0, 0), (0, 1, 0), (0, 0, 1), (63, 0, 0), (0, 63, 0), (0, 0, 63), (130, 5, 7), (2, 200, 0)],
    ids=str,
)
@BANDED_AND_REFERENCE
def test_padding_changes_nothing_whatever_it_holds(
    left: int, middle: int, right: int, backend: str
) -> None:
    pieces = operands(1, 150)
    alone = attend(pieces, backend="reference")
    exists = [False] * left + [True] * 100 + [False] * middle + [True] * 50 + [False] * right
    valid = torch.tensor([exists])
    padded = [t.new_full((1, len(exists), *t.shape[2:]), float("nan")) for t in pieces]
    for whole, piece in zip(padded, pieces, strict=True):
        whole[valid] = piece[0]
    out = attend(padded, valid, backend=backend)
    assert_close("out", alone[0], out[valid], 1e-12)
    assert out[~valid].abs().max() == 0
    weight = torch.randn(alone.shape, dtype=torch.float64)
    spread = torch.zeros(out.shape, dtype=torch.float64)
    spread[valid] = weight[0]
    wanted = gradients(pieces, weight, backend="reference")
    actual = gradients(padded, spread, valid, backend=backend)
    for name, reference in wanted.items():
        assert_close(name, reference[0], actual[name][valid], 1e-12)
        assert actual[name][~valid].abs().max() == 0


def test_sequences_of_one_batch_do_not_see_each_other() -> None:
    valid = torch.rand(3, 140) < 0.6
    valid[1] = False
    pieces = operands(3, 140)
    together = attend(pieces, valid, backend="banded")
    for row in range(3):
        one = attend([t[row : row + 1] for t in pieces], valid[row : row + 1], backend="reference")
        torch.testing.assert_close(together[row], one[0])


def scalar_attention(pieces: list[Tensor], window: int) -> Tensor:
    """The definition, one query and head at a time."""
    q, k, v = (t[0] for t in pieces)
    out = torch.zeros_like(q)
    for t in range(len(q)):
        for h in range(H):
            seen = range(max(0, t - window + 1), t + 1)
            group, slope = h // (H // HK), 2.0 ** (-8 * (h + 1) / H)
            scores = [q[t, h] @ k[u, group] / D**0.5 - slope * (t - u) for u in seen]
            weights = torch.softmax(torch.stack(scores), 0)
            out[t, h] = sum(w * v[u, group] for w, u in zip(weights, seen, strict=True))
    return out


@BANDED_AND_REFERENCE
def test_it_is_softmax_with_alibi_over_the_window(backend: str) -> None:
    pieces = operands(1, 9)
    out = attend(pieces, window=4, backend=backend)
    torch.testing.assert_close(out[0], scalar_attention(pieces, 4))


@BANDED_AND_REFERENCE
def test_the_window_ends_with_the_token_itself(backend: str) -> None:
    pieces, window = operands(1, 300), 70
    out = attend(pieces, window=window, backend=backend)
    other = [t.clone() for t in pieces]
    for piece in other:
        piece[0, 150] += 1.0
    moved = (attend(other, window=window, backend=backend) != out)[0].flatten(1).any(dim=1)
    assert moved.nonzero().flatten().tolist() == [*range(150, 150 + window)]


def plain_bf16(pieces: list[Tensor], weight: Tensor, *, window: int) -> dict[str, Tensor]:
    """The same formula as PyTorch computes it in bf16, every product and the softmax."""
    leaves = [t.detach().clone().requires_grad_() for t in pieces]
    q, k, v = (t.transpose(1, 2) for t in leaves)
    k, v = (t.repeat_interleave(H // HK, dim=1) for t in (k, v))
    at = torch.arange(q.shape[2])
    distance = at[:, None] - at
    bias = (-slopes()[:, None, None] * distance).bfloat16()
    bias = bias.masked_fill((distance < 0) | (distance >= window), float("-inf"))
    weights = torch.softmax(q @ k.transpose(2, 3) * q.shape[-1] ** -0.5 + bias, dim=-1)
    out = (weights @ v).transpose(1, 2)
    grads = torch.autograd.grad((out.double() * weight).sum(), leaves)
    return {"out": out.detach(), **dict(zip(("dq", "dk", "dv"), grads, strict=True))}


def test_fp32_and_bf16_errors() -> None:
    check(operands(1, 260, dtype=torch.float32, size=64), window=100, ratio=1e-5)
    pieces = operands(1, 260, dtype=torch.bfloat16, size=64)
    check(pieces, window=100, ratio=1e-2)
    weight = torch.randn(pieces[0].shape, dtype=torch.float64)
    wanted = gradients([t.double() for t in pieces], weight, window=100, backend="reference")
    plain = plain_bf16(pieces, weight, window=100)
    actual = gradients(pieces, weight, window=100, backend="banded")
    for name, reference in wanted.items():
        assert relative_error(reference, actual[name]) <= 1.5 * relative_error(
            reference, plain[name]
        )


@contextlib.contextmanager
def uncompiled() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
        yield


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("length", "window", "padded"),
    sampled(
        [(*size, padded) for size in ((1, 5), (130, 70), (300, 300)) for padded in (False, True)],
        {0},
        thorough={3},
        unpack=True,
    ),
)
def test_flex_attention_is_given_the_same_problem(length: int, window: int, padded: bool) -> None:
    pieces = operands(2, length, dtype=torch.float32)
    valid = torch.rand(2, length) < 0.7 if padded else None
    wanted = attend(pieces, valid, window=window, backend="reference")
    if valid is not None:
        pieces = [t.masked_fill(~valid[:, :, None, None], float("nan")) for t in pieces]
    with uncompiled():
        out = window_flex(*pieces, Band(valid, window, slopes()), compiled=False)
    assert_close("out", wanted, out, 1e-5)


@pytest.mark.parametrize("window", [1, 127, 128, 129, 300, 2000])
def test_blocks_of_the_band_are_those_that_all_scores_give(window: int) -> None:
    length = 1024

    def inside(_: Tensor, __: Tensor, at: Tensor, seen: Tensor) -> Tensor:
        return (at >= seen) & (at - seen < window)

    wanted = create_block_mask(inside, None, None, length, length, device="cpu")
    actual = _band(length, window, torch.device("cpu"))
    assert actual.seq_lengths == wanted.seq_lengths
    for name in ("kv", "full_kv", "q", "full_q"):
        counts, expected = (getattr(mask, f"{name}_num_blocks") for mask in (actual, wanted))
        assert torch.equal(counts, expected), name
        places, others = (getattr(mask, f"{name}_indices")[0, 0] for mask in (actual, wanted))
        for row, count in enumerate(counts[0, 0].tolist()):
            assert sorted(places[row, :count].tolist()) == sorted(others[row, :count].tolist())


@pytest.mark.thorough
@pytest.mark.parametrize("padded", sampled([False, True], {1}))
def test_the_operator_says_of_itself_what_is_true(padded: bool) -> None:
    pieces = [t.requires_grad_() for t in operands(2, 140, dtype=torch.float32)]
    valid = torch.rand(2, 140) < 0.7 if padded else None
    arguments = (*pieces, valid, slopes(), 70)
    torch.library.opcheck(banded._window_op, arguments)


def test_the_operator_has_the_same_gradients() -> None:
    pieces = [t.requires_grad_() for t in operands(2, 140)]
    weight = torch.randn(pieces[0].shape, dtype=torch.float64)
    out = banded._window_op(*pieces, None, slopes(), 70)
    grads = torch.autograd.grad((out * weight).sum(), pieces)
    wanted = gradients(pieces, weight, backend="banded")
    for name, actual in zip(("out", "dq", "dk", "dv"), (out, *grads), strict=True):
        assert torch.equal(wanted[name], actual), name


@pytest.mark.thorough
def test_compiled_code_sees_one_operator() -> None:
    pieces = [t.requires_grad_() for t in operands(2, 20)]
    valid = torch.rand(2, 20) < 0.7
    seen: list[str] = []

    def backend(graph: torch.fx.GraphModule, _: object) -> object:
        seen.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph.forward

    compiled = torch.compile(attend, backend=backend, fullgraph=True)
    torch.testing.assert_close(compiled(pieces, valid), attend(pieces, valid))
    assert [name for name in seen if "banded" in name] == ["drt_kernels.window_banded.default"]
    assert "softmax" not in " ".join(seen)


def test_autocast_around_it_changes_nothing() -> None:
    pieces = operands(1, 140, dtype=torch.float32)
    weight = torch.randn(pieces[0].shape)
    plain = gradients(pieces, weight, backend="banded")
    with torch.autocast("cpu", torch.bfloat16):
        inside = gradients(pieces, weight, backend="banded")
    assert all(torch.equal(plain[name], inside[name]) for name in plain)


def test_the_choice_is_explained() -> None:
    query = torch.empty(1, 1, H, D)
    assert explain_window(query).startswith("banded: blocks of matrix products")
    assert explain_window(query, "flex") == "flex: asked for by name"
    with pytest.raises(ValueError, match="'cudnn' is unknown.*banded.*flex.*reference"):
        explain_window(query, "cudnn")


def on_gpu(tokens: int) -> Tensor:
    """A tensor without numbers that says it is on a GPU."""
    with FakeTensorMode():
        return torch.empty(2, tokens // 2, H, 64, device="cuda")


def test_flex_attention_is_for_training_and_long_streams() -> None:
    few, many = on_gpu(1 << 14), on_gpu(1 << 15)
    with torch.inference_mode():
        assert explain_window(few) == (
            "banded: blocks of matrix products, as compiling is not worth it for 16,384 tokens in "
            "inference mode"
        )
        assert explain_window(few, "flex") == "flex: asked for by name"
        assert explain_window(many) == "flex: the tensors are on cuda:0"
    with torch.no_grad():  # such as the frozen part of a model that is trained
        assert explain_window(few) == "flex: the tensors are on cuda:0"


@pytest.mark.parametrize(
    ("place", "shape", "seen"),
    [
        (0, (2, 5, 4), "3 dimensions"),
        (1, (2, 5, 2, 4), r"\(2, 5, 2, 4\).*\(2, 5, 2, 8\)"),
        (2, (2, 5, 1, 8), r"\(2, 5, 1, 8\)"),
        (0, (2, 5, 3, 8), "3 query heads cannot share 2"),
        (0, (2, 4, 4, 8), r"expected \[2, 4, Hk, D\]"),
    ],
)
def test_misfits_are_named(place: int, shape: tuple[int, ...], seen: str) -> None:
    pieces = operands(2, 5)
    pieces[place] = torch.ones(shape)
    with pytest.raises(ValueError, match=seen):
        attend(pieces)


def test_wrong_sizes_are_named() -> None:
    pieces = operands(2, 5)
    with pytest.raises(ValueError, match="window is 0, expected 1 or more"):
        attend(pieces, window=0)
    with pytest.raises(ValueError, match=r"valid is \(2, 4\), expected \[2, 5\]"):
        attend(pieces, torch.ones(2, 4, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"slopes are \(3,\), expected \[4\]"):
        window_attention(*pieces, valid=None, window=3, slopes=torch.ones(3))


@pytest.mark.gpu
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_flex_attention_on_a_gpu(dtype: torch.dtype, padded: bool) -> None:
    """Forward and every gradient of the 128M model's shape against double precision."""
    length, heads = 2048 + 33, 12
    pieces = [
        torch.randn(2, length, heads, 64, device="cuda").to(dtype).requires_grad_() for _ in NAMES
    ]
    valid = torch.rand(2, length, device="cuda") < 0.8 if padded else None
    more = {"valid": valid, "window": 512, "slopes": slopes(heads).cuda()}
    weight = torch.randn(2, length, heads, 64, device="cuda", dtype=torch.float64)
    double = [t.detach().double().requires_grad_() for t in pieces]
    assert explain_window(pieces[0]).startswith("flex")
    out = window_attention(*pieces, **more)  # type: ignore[arg-type]
    wanted = window_attention(*double, **more, backend="reference")  # type: ignore[arg-type]
    grads = torch.autograd.grad((out.double() * weight).sum(), pieces)
    truth = torch.autograd.grad((wanted * weight).sum(), double)
    ratio = 1e-2 if dtype == torch.bfloat16 else 1e-3  # tf32 unless PyTorch is told otherwise
    for name, reference, actual in zip(
        ("out", "dq", "dk", "dv"), (wanted, *truth), (out, *grads), strict=True
    ):
        assert_close(name, reference, actual, ratio)


@pytest.mark.gpu
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_reading_on_a_gpu_needs_no_compiler(dtype: torch.dtype, padded: bool) -> None:
    pieces = [torch.randn(2, 700, 6, 64, device="cuda").to(dtype) for _ in NAMES]
    valid = torch.rand(2, 700, device="cuda") < 0.8 if padded else None
    more = {"valid": valid, "window": 512, "slopes": slopes(6).cuda()}
    with torch.inference_mode():
        assert explain_window(pieces[0]).startswith("banded")
        out = window_attention(*pieces, **more)  # type: ignore[arg-type]
        double = [t.double() for t in pieces]
        wanted = window_attention(*double, **more, backend="reference")  # type: ignore[arg-type]
    assert_close("out", wanted, out, 1e-2 if dtype == torch.bfloat16 else 1e-3)
