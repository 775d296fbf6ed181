"""Grouped cross-attention: dense against the reference, forward and every gradient by name."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from drt_kernels import explain_backend, gca
from drt_kernels.gca.reference import plain_softmax, softmax_off_by_one
from drt_kernels.testing import assert_close, poisoned
from tests.kernels.gca_cases import Case, make_case

D = 8


def check_against_reference(case: Case, *, off_by_one: bool) -> None:
    weight = torch.randn_like(case.query)
    wanted = case.gradients("reference", weight, off_by_one=off_by_one)
    actual = case.gradients("dense", weight, off_by_one=off_by_one)
    assert wanted.keys() == actual.keys()
    assert len(wanted) == 5
    for name in wanted:
        assert_close(name, wanted[name], actual[name], 1e-5)


@pytest.mark.few(8)
@pytest.mark.parametrize("off_by_one", [True, False], ids=["off-by-one", "plain"])
@pytest.mark.parametrize("t", [1, 2, 63, 65])
@pytest.mark.parametrize("s", [7, 64, 65])
def test_lengths(t: int, s: int, off_by_one: bool) -> None:
    check_against_reference(make_case(t=t, s=s), off_by_one=off_by_one)


@pytest.mark.parametrize("off_by_one", [True, False], ids=["off-by-one", "plain"])
@pytest.mark.parametrize("r", [1, 8])
@pytest.mark.parametrize(("h", "hk"), [(2, 2), (4, 2), (1, 1)])
def test_heads_and_retrieved(r: int, h: int, hk: int, off_by_one: bool) -> None:
    check_against_reference(make_case(r=r, h=h, hk=hk), off_by_one=off_by_one)


@pytest.mark.parametrize("off_by_one", [True, False], ids=["off-by-one", "plain"])
def test_probabilities_of_zero(off_by_one: bool) -> None:
    case = make_case(r=4)
    case.probabilities[..., 1] = 0.0
    case.probabilities[0, 0] = 0.0
    check_against_reference(case, off_by_one=off_by_one)
    assert case.run("dense", off_by_one=off_by_one)[0, 0].abs().max() == 0


@pytest.mark.parametrize("backend", ["dense", "reference"])
def test_a_chunk_of_probability_zero_is_the_same_as_none(backend: str) -> None:
    case = make_case(r=3)
    case.probabilities[..., 2] = 0.0
    less = replace(case, index=case.index[..., :2], probabilities=case.probabilities[..., :2])
    assert_close("out", less.run(backend), case.run(backend), 1e-6)


@pytest.mark.parametrize("backend", ["dense", "reference"])
@pytest.mark.parametrize("off_by_one", [True, False], ids=["off-by-one", "plain"])
def test_a_chunk_without_tokens_gives_nothing(backend: str, off_by_one: bool) -> None:
    case = make_case(r=2)
    case.index[:] = 0
    assert case.run(backend, off_by_one=off_by_one).abs().max() == 0
    grads = case.gradients(backend, torch.ones_like(case.query), off_by_one=off_by_one)
    assert all(grads[name].abs().max() == 0 for name in ("dquery", "dkeys", "dvalues"))


@pytest.mark.parametrize("backend", ["dense", "reference"])
def test_a_retrieved_chunk_twice_counts_with_both_probabilities(backend: str) -> None:
    case = make_case(r=1)
    twice = replace(
        case,
        index=case.index.repeat(1, 1, 2),
        probabilities=torch.cat([case.probabilities * 0.25, case.probabilities * 0.75], -1),
    )
    assert_close("out", case.run(backend), twice.run(backend), 1e-6)


@pytest.mark.parametrize("off_by_one", [True, False], ids=["off-by-one", "plain"])
def test_huge_scores_do_not_overflow(off_by_one: bool) -> None:
    case = make_case(scale=1e4)
    check_against_reference(case, off_by_one=off_by_one)


@pytest.mark.parametrize("backend", ["dense", "reference"])
def test_the_one_is_not_lost_when_all_scores_are_very_negative(backend: str) -> None:
    case = make_case(r=1, s=4)
    case.index[:] = 1
    case.mask[:] = True
    case.query[:], case.keys[:] = 20.0, -20.0
    assert case.run(backend).abs().max() == 0
    # The plain softmax cannot say "nothing here": it averages the values.
    averaged = case.run(backend, off_by_one=False)
    wanted = case.values[1].mean(dim=0).repeat_interleave(2, dim=0)
    wanted = wanted * case.probabilities[..., None, :, None]
    assert_close("plain", wanted.expand_as(averaged), averaged, 1e-5)


def test_softmaxes_by_hand() -> None:
    scores = torch.tensor([0.0, 1.0, -2.0], dtype=torch.float64)
    powers = scores.exp()
    torch.testing.assert_close(softmax_off_by_one(scores), powers / (1 + powers.sum()))
    torch.testing.assert_close(plain_softmax(scores), powers / powers.sum())


def test_the_reference_is_the_equation_of_the_paper() -> None:
    case = make_case(t=2, s=3, r=2, h=2, hk=1)
    out = case.run("reference")
    b, c, t, h = 1, 0, 1, 1
    wanted = torch.zeros(D)
    for chunk, probability in zip(case.index[b, c], case.probabilities[b, c], strict=True):
        here = case.mask[chunk]
        scores = case.keys[chunk, here, 0] @ case.query[b, c, t, h] / D**0.5
        weights = scores.exp() / (1 + scores.exp().sum())
        wanted += probability * (weights @ case.values[chunk, here, 0])
    torch.testing.assert_close(out[b, c, t, h], wanted)


@pytest.mark.parametrize("backend", ["dense", "reference"])
def test_tokens_that_do_not_exist_never_matter(backend: str) -> None:
    case = make_case()
    other = replace(case, keys=case.keys.clone(), values=case.values.clone())
    other.keys[~case.mask] = 1e4
    other.values[~case.mask] = -1e4
    assert torch.equal(case.run(backend), other.run(backend))


@pytest.mark.parametrize("backend", ["dense", "reference"])
def test_double_precision_stays_double(backend: str) -> None:
    case = make_case()
    names = ("query", "keys", "values", "probabilities")
    double = replace(case, **{n: getattr(case, n).double() for n in names})
    out = double.run(backend)
    assert out.dtype == torch.float64
    assert_close("out", out, case.run(backend).double(), 1e-5)


@pytest.mark.parametrize(
    ("field", "shape", "seen"),
    [
        ("query", (2, 2, 3, 4), "4 dimensions"),
        ("values", (5, 7, 1, 8), r"\(5, 7, 1, 8\)"),
        ("mask", (5, 6), r"\(5, 6\).*\(5, 7\)"),
        ("probabilities", (2, 2, 2), r"\(2, 2, 2\)"),
        ("query", (2, 2, 3, 3, 8), "3 query heads cannot share 2"),
        ("query", (2, 2, 3, 4, 6), "keys is 8, of the query 6"),
        ("query", (1, 2, 3, 4, 8), "B, C = 1, 2"),
    ],
)
def test_misfits_are_named(field: str, shape: tuple[int, ...], seen: str) -> None:
    case = replace(make_case(), **{field: torch.ones(shape)})
    with pytest.raises(ValueError, match=seen):
        case.run("dense")


def test_backends_are_explained() -> None:
    assert explain_backend(None, torch.zeros(1, 1, 1, 1, D)).startswith("dense: ")
    assert explain_backend("reference") == "reference: asked for by name"
    for call in (explain_backend, make_case().run):
        with pytest.raises(ValueError, match="'cudnn' is unknown.*dense.*reference"):
            call("cudnn")


def test_without_a_name_the_dense_one_runs() -> None:
    case = make_case()
    out = gca(
        case.query,
        case.keys,
        case.values,
        mask=case.mask,
        index=case.index,
        probabilities=case.probabilities,
    )
    assert torch.equal(out, case.run("dense"))


def test_assert_close_names_what_differs() -> None:
    assert_close("dq", torch.ones(3), torch.ones(3) + 1e-7, 1e-6)
    with pytest.raises(AssertionError, match="dq: relative error 1.00e-01 .* difference 1.00e-01"):
        assert_close("dq", torch.ones(3), torch.ones(3) * 1.1, 1e-3)
    with pytest.raises(AssertionError, match=r"dk: shape \(2,\), expected \(3,\)"):
        assert_close("dk", torch.ones(3), torch.ones(2), 1e-3)
    with pytest.raises(AssertionError, match="dv: not finite"):
        assert_close("dv", torch.ones(3), poisoned(3), 1e-3)
