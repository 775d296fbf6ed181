"""Triton kernels of grouped cross-attention in the interpreter: forward and every gradient against
float64, shapes that fit no tile, memory that must not be read or is not written.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from drt_kernels import gca
from drt_kernels.gca.reference import gca_reference
from drt_kernels.gca.tiles import _MEASURED, TAIL, Problem, candidates, rule, tiles_for
from drt_kernels.interpreter import interpreting
from drt_kernels.shapes import Retrieval
from drt_kernels.testing import assert_close, poisoned_memory, relative_error
from tests.kernels.gca_cases import LEAVES, Case, check_triton, make_case
from tests.sampling import crossed, sampled

# The kernels count on exp2 of a masked score being infinite, of which numpy would warn.
pytestmark = [
    pytest.mark.skipif(not interpreting(), reason="needs TRITON_INTERPRET=1"),
    pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning"),
]
# What is the same in both; what is not has tests of its own.
BOTH = pytest.mark.parametrize(
    "off_by_one", sampled([True, False], {0}), ids=["off-by-one", "plain"]
)
TYPES = pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"]
)

SPECIAL = torch.tensor([0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1 + 2**-8, 1e-45])


def small_case(**changes: int) -> Case:
    return make_case(**{"h": 1, "hk": 1, "d": 32, "batch": 1, **changes})


@pytest.mark.thorough
@BOTH
@pytest.mark.parametrize("dtype", sampled([torch.float32, torch.bfloat16], {0}), ids=str)
@pytest.mark.parametrize(("t", "s"), sampled([(1, 64), (2, 7), (65, 64)], {2}, unpack=True))
def test_lengths(t: int, s: int, dtype: torch.dtype, off_by_one: bool) -> None:
    check_triton(small_case(t=t, s=s, r=2), dtype, off_by_one=off_by_one)


@pytest.mark.parametrize("dtype", sampled([torch.float32, torch.bfloat16], {0}), ids=str)
@pytest.mark.parametrize(
    ("t", "s", "r", "h", "hk"),
    [
        pytest.param(63, 65, 1, 2, 2, id="rows-63-keys-65", marks=pytest.mark.slow),
        pytest.param(65, 9, 3, 2, 1, id="rows-130-in-two-tiles", marks=pytest.mark.slow),
        pytest.param(11, 17, 8, 6, 2, id="three-heads-share", marks=pytest.mark.thorough),
        pytest.param(3, 150, 2, 1, 1, id="chunk-longer-than-a-tile"),
    ],
)
def test_tiles(t: int, s: int, r: int, h: int, hk: int, dtype: torch.dtype) -> None:
    check_triton(small_case(t=t, s=s, r=r, h=h, hk=hk, chunks=1), dtype)


@pytest.mark.thorough
def test_a_long_chunk_with_plain_softmax() -> None:
    check_triton(small_case(t=2, s=150, r=3, chunks=1), torch.bfloat16, off_by_one=False)


@pytest.mark.few(1)
@pytest.mark.parametrize("d", sampled([64, 80, 128], {1, 2}))
def test_head_sizes(d: int) -> None:
    check_triton(small_case(t=5, s=12, r=2, d=d, h=2), torch.bfloat16)


def test_half_precision() -> None:
    check_triton(small_case(t=5, s=12, r=2), torch.float16)


@pytest.mark.thorough
def test_gradients_by_atomics_of_a_long_chunk() -> None:
    check_triton(small_case(t=3, s=150, r=3), torch.float32, backend="triton-atomics")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("backend", "dtype"),
    crossed(["triton", "triton-atomics"], [torch.float32, torch.bfloat16]),
    ids=str,
)
def test_gradients_of_a_tail(
    backend: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """65 rows in one tile of 64 and a tail, in fp32 too, where the rule gives none: only there is
    the comparison exact.
    """
    problem = Problem(rows=65, keys=20, size=32, bytes=dtype.itemsize)
    for kernel in ("forward", "query", "memory"):
        with_tail = replace(rule(kernel, problem), rows=64, tail=TAIL)
        monkeypatch.setitem(_MEASURED, (kernel, problem), with_tail)
    case = small_case(t=65, s=20, r=3)
    assert Problem.of(case.query.flatten(0, 1).to(dtype), case.keys.to(dtype)) == problem
    check_triton(case, dtype, backend=backend)


@pytest.mark.thorough
@BOTH
def test_probabilities_of_zero(off_by_one: bool) -> None:
    case = small_case(t=2, s=8, r=4)
    case.probabilities[..., 1] = 0.0
    case.probabilities[0, 0] = 0.0
    check_triton(case, torch.float32, off_by_one=off_by_one)
    assert case.run("triton", off_by_one=off_by_one)[0, 0].abs().max() == 0


@pytest.mark.few(1)
@BOTH
@pytest.mark.parametrize("backend", ["triton", "triton-atomics"])
def test_a_chunk_without_tokens_gives_nothing(off_by_one: bool, backend: str) -> None:
    case = small_case(r=2)
    case.index[:] = 0
    with poisoned_memory():
        out = case.gradients(backend, torch.ones_like(case.query), off_by_one=off_by_one)
    assert all(value.abs().max() == 0 for value in out.values())


@pytest.mark.thorough
@BOTH
def test_huge_scores_do_not_overflow(off_by_one: bool) -> None:
    case = small_case(scale=10_000)
    weight = torch.randn_like(case.query)
    wanted = case.to(torch.float64).gradients("reference", weight.double(), off_by_one=off_by_one)
    actual = case.gradients("triton", weight, off_by_one=off_by_one)
    for name in ("out", "dvalues", "dprobabilities"):
        assert_close(name, wanted[name], actual[name], 1e-3)  # 1e4 in fp32 is exact to 1e-3
    assert wanted["dkeys"].abs().max() < 1e-6  # one key takes all
    assert actual["dkeys"].abs().max() < 1e-2


@BOTH
def test_very_negative_scores(off_by_one: bool) -> None:
    case = small_case(r=1, s=4)
    case.index[:] = 1
    case.mask[1] = torch.tensor([True, True, False, True])
    case.query[:], case.keys[:] = 20.0, -20.0
    # The key that does not exist has score 0 in the kernels, far above those that do.
    weight = torch.randn_like(case.query)
    wanted = case.to(torch.float64).gradients("reference", weight.double(), off_by_one=off_by_one)
    with poisoned_memory():
        actual = case.gradients("triton", weight, off_by_one=off_by_one)
    for name in ("out", "dvalues", "dprobabilities"):
        assert_close(name, wanted[name], actual[name], 1e-3)
    assert (actual["out"].abs().max() == 0) == off_by_one
    assert actual["dvalues"][~case.mask].abs().max() == 0


@pytest.mark.few(1)
@pytest.mark.parametrize("backend", ["triton", "triton-atomics"])
def test_memory_that_must_not_be_read(backend: str) -> None:
    case = small_case(t=2, r=2, pool=6)
    case.index[case.index == 4] = 3
    clean = replace(case, keys=case.keys.clone(), values=case.values.clone())
    clean.keys[~case.mask] = 0.0
    clean.values[~case.mask] = 0.0
    for pool in (case.keys, case.values):
        pool[~case.mask] = float("nan")
        pool[4] = float("nan")
    weight = torch.randn_like(case.query)
    wanted = clean.gradients("reference", weight)
    with poisoned_memory():
        actual = case.gradients(backend, weight)
    for name, value in wanted.items():
        assert_close(name, value, actual[name], 1e-5)
    for name in ("dkeys", "dvalues"):
        assert actual[name][4].abs().max() == 0
        assert actual[name][~case.mask].abs().max() == 0


@pytest.mark.thorough
def test_two_runs_are_equal_bit_by_bit() -> None:
    case = small_case(t=3, r=4, pool=2, chunks=3).to(torch.bfloat16)  # everyone wants the same
    weight = torch.randn_like(case.query)
    first, second = (case.gradients("triton", weight) for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.thorough
def test_pool_beyond_two_to_the_31_elements() -> None:
    case = small_case(t=2, s=16, r=2, pool=3).to(torch.bfloat16)
    case = replace(case, index=torch.tensor([[[1, 2], [2, 1]]], dtype=torch.int32))
    case.mask[1:] = True
    stride = 2**30 + 2**20
    # Reserved, not used: the few pages that are written are all that the machine gives.
    room = torch.empty(2 * stride + 16 * 32, dtype=torch.bfloat16)
    far = room.as_strided(case.keys.shape, (stride, 32, 32, 1))
    far[1:] = case.keys[1:]
    assert far[2].storage_offset() > 2**31
    for name in ("keys", "values"):
        other = replace(case, **{name: far})
        near = replace(case, **{name: case.keys})
        assert torch.equal(other.run("triton"), near.run("triton"))
    leaves = {n: getattr(case, n).clone().requires_grad_() for n in ("query", "probabilities")}
    far_case = replace(case, **leaves, keys=far, values=far)
    far_case.run("triton").float().pow(2).sum().backward()
    near_case = replace(case, **{n: getattr(case, n).requires_grad_() for n in leaves})
    near_case = replace(near_case, values=case.keys)
    near_case.run("triton").float().pow(2).sum().backward()
    for name in leaves:
        assert torch.equal(getattr(far_case, name).grad, getattr(near_case, name).grad)


def test_strided_tensors_are_read_in_place() -> None:
    case = small_case(t=3, s=8, r=2, h=2, hk=2)
    both = torch.stack([case.keys, case.values], dim=2)
    keys, values = both.unbind(dim=2)
    query = case.query.transpose(2, 3).contiguous().transpose(2, 3)
    strided = replace(case, query=query, keys=keys, values=values)
    assert torch.equal(strided.run("triton"), case.run("triton"))


def test_only_the_gradients_asked_for_are_made() -> None:
    case = small_case()
    query = case.query.requires_grad_()
    replace(case, query=query).run("triton").sum().backward()
    assert query.grad is not None and case.keys.grad is None
    with torch.no_grad():
        assert not case.run("triton").requires_grad


@pytest.mark.thorough
def test_autocast_gives_its_type_and_leaves_probabilities_alone() -> None:
    case = small_case(t=4, s=8)
    leaves = {n: getattr(case, n).clone().requires_grad_() for n in LEAVES}
    with torch.autocast("cpu", torch.bfloat16):
        out = replace(case, **leaves).run("triton")
    assert out.dtype == torch.bfloat16
    out.float().sum().backward()
    assert all(leaf.grad is not None and leaf.grad.dtype == leaf.dtype for leaf in leaves.values())
    wanted = case.to(torch.float64).run("reference")
    assert 1e-5 < relative_error(wanted, out) < 1e-2


def flat_arguments(case: Case) -> tuple[Tensor, ...]:
    vectors = (case.query.flatten(0, 1), case.keys, case.values)
    sparse = (case.mask, case.index.flatten(0, 1), case.probabilities.flatten(0, 1))
    return (*vectors, *sparse)


def test_no_retrieved_chunk_gives_zeros() -> None:
    case = small_case(r=0)
    with poisoned_memory():
        out = case.gradients("triton", torch.ones_like(case.query))
    assert all(value.abs().sum() == 0 for value in out.values())


@pytest.mark.thorough
def test_popular_chunks_are_cut_into_segments() -> None:
    from drt_kernels.gca.backward_memory import gca_backward_memory
    from drt_kernels.gca.backward_query import gca_backward_query
    from drt_kernels.gca.forward import gca_forward
    from drt_kernels.gca.inverse_index import invert

    case = small_case(t=2, s=40, r=3, chunks=3, pool=4)
    case.index[:] = torch.tensor([[1, 1, 2], [1, 3, 1], [1, 1, 1]])
    case.probabilities[0, 0, 0] = 0.0
    *vectors, mask, index, probabilities = flat_arguments(case)
    retrieval = Retrieval(mask, index, probabilities)
    _, lse = gca_forward(*vectors, retrieval, off_by_one=True)
    grad = torch.randn_like(vectors[0])
    _, _, stats = gca_backward_query(grad, *vectors, retrieval, lse=lse)
    whole = invert(index, probabilities, 4)
    cut = invert(index, probabilities, 4, segment=2)
    assert whole.item_start.tolist() == [0, 1, 2, 3, 4]
    assert cut.item_start.tolist() == [0, 1, 4, 5, 6]  # chunk 1 has six pairs left
    with poisoned_memory():
        wanted = gca_backward_memory(grad, *vectors, retrieval, stats=stats, inverse=whole)
        actual = gca_backward_memory(grad, *vectors, retrieval, stats=stats, inverse=cut)
    for name, one, other in zip(("dkeys", "dvalues"), wanted, actual, strict=True):
        assert_close(name, one, other, 1e-6)


@pytest.mark.thorough
def test_b_can_be_recomputed_for_short_chunks() -> None:
    from drt_kernels.gca.backward_memory import gca_backward_memory
    from drt_kernels.gca.backward_query import gca_backward_query
    from drt_kernels.gca.forward import gca_forward

    case = small_case(t=65, s=30, r=2).to(torch.bfloat16)
    *vectors, mask, index, probabilities = flat_arguments(case)
    retrieval = Retrieval(mask, index, probabilities)
    _, lse = gca_forward(*vectors, retrieval, off_by_one=True)
    grad = torch.randn_like(vectors[0])
    _, _, stats = gca_backward_query(grad, *vectors, retrieval, lse=lse)
    wanted = gca_backward_memory(grad, *vectors, retrieval, stats=stats)
    actual = gca_backward_memory(grad, *vectors, retrieval, stats=lse)
    for name, one, other in zip(("dkeys", "dvalues"), wanted, actual, strict=True):
        assert_close(name, one, other, 1e-3)
    long = torch.zeros(5, 70, 1, 32, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="at most 64 tokens, these have 70"):
        gca_backward_memory(grad, vectors[0], long, long, retrieval, stats=lse)


def test_inverse_index_names_every_pair_once() -> None:
    from drt_kernels.gca.inverse_index import invert

    index = torch.randint(0, 7, (50, 8))
    probabilities = torch.rand(50, 8)
    probabilities[::3, 2] = 0.0
    for segment in (1, 3, 32):
        found = invert(index, probabilities, 9, segment=segment)
        assert found.slot_start[-1] <= found.slots
        pairs: list[int] = []
        for chunk in range(9):
            mine = found.pairs[found.start[chunk] : found.start[chunk + 1]]
            assert (index.flatten()[mine] == chunk).all()
            assert (mine.diff() > 0).all()
            items = found.item_start[chunk + 1] - found.item_start[chunk]
            assert items == max(1, -(-len(mine) // segment))
            assert (found.chunk == chunk).sum() == items
            pairs += mine.tolist()
        assert sorted(pairs) == probabilities.flatten().nonzero().flatten().tolist()


QUICK = ("test_schema", "test_autograd_registration", "test_faketensor")


@pytest.mark.thorough
# The other check compiles it, as the test below does.
@pytest.mark.parametrize("checks", sampled([None, QUICK], {1}), ids=["all", "quick"])
def test_operators_pass_the_checks_of_torch(checks: tuple[str, ...] | None) -> None:
    arguments = [t.detach() for t in flat_arguments(small_case(t=1, s=4, r=1, chunks=1))]
    for i in (0, 1, 2, 5):
        arguments[i].requires_grad_()
    from drt_kernels.backend import import_problem
    from drt_kernels.gca.attention import BACKENDS

    assert import_problem(BACKENDS) is None
    operator, chosen = torch.ops.drt.gca_forward.default, {"test_utils": checks} if checks else {}
    torch.library.opcheck(operator, (*arguments, True, True), **chosen)
    torch.library.opcheck(operator, (*arguments, False, False), test_utils=QUICK)


@pytest.mark.thorough
def test_compiled_whole() -> None:
    case = small_case(t=2, s=8, r=2)
    leaves = {n: getattr(case, n).clone().requires_grad_() for n in LEAVES}

    def loss(query: Tensor, keys: Tensor, values: Tensor, probabilities: Tensor) -> Tensor:
        sparse = {"mask": case.mask, "index": case.index, "probabilities": probabilities}
        return gca(query * 2, keys, values, **sparse, backend="triton").pow(2).sum()

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    compiled(**leaves).backward()
    plain = {n: getattr(case, n).clone().requires_grad_() for n in LEAVES}
    loss(**plain).backward()
    for name, leaf in leaves.items():
        assert leaf.grad is not None and torch.equal(leaf.grad, plain[name].grad)


def test_the_repaired_interpreter_rounds_as_torch_does() -> None:
    from drt_kernels.interpreter import _from_bfloat16, _to_bfloat16

    numbers = torch.cat([torch.randn(2000) * 10.0 ** torch.randint(-40, 38, (2000,)), SPECIAL])
    wanted = numbers.to(torch.bfloat16).float()
    actual = torch.from_numpy(_from_bfloat16(_to_bfloat16(numbers.numpy())))
    torch.testing.assert_close(actual, wanted, rtol=0, atol=0, equal_nan=True)


def test_an_index_outside_the_pool_is_named() -> None:
    case = small_case()
    case.index[0, 0, 0] = 5
    with pytest.raises(ValueError, match="runs from 0 to 5, expected 0 to 4"):
        case.run("triton")


@pytest.mark.thorough
def test_tiles_are_timed_where_asked() -> None:
    from drt_kernels.gca.tuning import tune_gca

    case = small_case(t=65, s=16, r=1, chunks=1).to(torch.bfloat16)
    arguments = (*(getattr(case, name) for name in LEAVES[:3]), case.retrieval)
    with pytest.raises(ValueError, match="on a GPU only"):
        tune_gca(*arguments)
    times = iter([3.0, 2.0, 1.0, *[4.0] * 30])
    try:
        chosen = tune_gca(*arguments, timer=lambda call: (call(), next(times))[1])
        (kernel, problem), tiles = next(iter(_MEASURED.items()))
        assert kernel == "forward" and tiles == candidates(kernel, problem)[2]
        assert tiles_for(kernel, problem) == chosen[kernel] == tiles != rule(kernel, problem)
        assert_close("out", gca_reference(*arguments), case.run("triton"), 1e-2)
    finally:
        _MEASURED.clear()
