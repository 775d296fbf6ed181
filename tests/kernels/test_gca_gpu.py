"""Triton kernels of grouped cross-attention on a GPU: the shapes of the presets, large pools, no
waiting of the host. Run with ``-m gpu``.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from drt_kernels import explain_backend, gca
from drt_kernels.testing import assert_close, poisoned_memory
from tests.kernels.gca_cases import LEAVES, Case, check_triton, make_case

pytestmark = pytest.mark.gpu
TYPES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)


def preset_case(chunks: int = 256, **changes: int) -> Case:
    """drt-128m by default: 65 rows of a chunk and its landmark, 12 heads of 64, 8 retrieved."""
    shape = {"t": 65, "s": 64, "r": 8, "h": 12, "hk": 12, "d": 64, "pool": 256, "batch": 1}
    return make_case(**{**shape, "chunks": chunks, **changes}).cuda()


@TYPES
@pytest.mark.parametrize("off_by_one", [True, False], ids=["off-by-one", "plain"])
def test_drt_128m(dtype: torch.dtype, off_by_one: bool) -> None:
    check_triton(preset_case(), dtype, off_by_one=off_by_one)


@TYPES
@pytest.mark.parametrize(
    ("t", "s", "r", "h", "hk", "d"),
    [
        (1, 64, 8, 12, 12, 64),
        (2, 7, 1, 2, 2, 32),
        (63, 65, 3, 4, 2, 64),
        (65, 64, 8, 6, 2, 64),
        (65, 33, 3, 16, 16, 96),
        (65, 64, 8, 8, 8, 128),
        (65, 64, 8, 32, 8, 80),
        (130, 128, 8, 4, 4, 64),
        (65, 200, 3, 4, 1, 128),
        (1000, 64, 2, 2, 2, 32),
    ],
)
def test_shapes(t: int, s: int, r: int, h: int, hk: int, d: int, dtype: torch.dtype) -> None:
    case = preset_case(16, t=t, s=s, r=r, h=h, hk=hk, d=d, pool=33)
    check_triton(case, dtype)
    check_triton(case, dtype, off_by_one=False)


@TYPES
def test_gradients_by_atomics(dtype: torch.dtype) -> None:
    check_triton(preset_case(), dtype, backend="triton-atomics")
    check_triton(preset_case(8, s=200, pool=9), dtype, backend="triton-atomics")


def test_one_chunk_that_all_retrieve_gives_the_same_bits() -> None:
    case = preset_case(2048, r=2, h=2, hk=2).to(torch.bfloat16)
    case.index[..., 0] = 7
    weight = torch.randn_like(case.query)
    first, *others = (case.gradients("triton", weight) for _ in range(3))
    for other in others:
        assert all(torch.equal(first[name], other[name]) for name in first)
    check_triton(case, torch.bfloat16)


def test_memory_that_must_not_be_read() -> None:
    case = preset_case(32).to(torch.bfloat16)
    case.index[case.index == 4] = 3
    clean = replace(case, keys=case.keys.clone(), values=case.values.clone())
    for pool in (case.keys, case.values):
        pool[~case.mask] = float("nan")
        pool[4] = float("nan")
    for pool in (clean.keys, clean.values):
        pool[~case.mask] = 0.0
        pool[4] = 0.0
    weight = torch.randn_like(case.query)
    with poisoned_memory():
        wanted, actual = (c.gradients("triton", weight) for c in (clean, case))
    for name in wanted:
        assert torch.equal(wanted[name], actual[name]), name
    assert actual["dkeys"][4].abs().max() == 0


def test_pool_beyond_two_to_the_31_elements() -> None:
    chunks = 2**31 // (64 * 12 * 64) + 512
    keys = torch.randn(chunks, 64, 12, 64, device="cuda", dtype=torch.bfloat16)
    values = torch.randn_like(keys)
    assert keys.numel() > 2**31
    case = preset_case(8, pool=256).to(torch.bfloat16)
    far = replace(case, index=case.index + chunks - 256, keys=keys, values=values)
    far = replace(far, mask=torch.ones(keys.shape[:2], dtype=torch.bool, device="cuda"))
    near = replace(case, keys=keys[-256:], values=values[-256:], mask=far.mask[-256:])
    weight = torch.randn_like(case.query)
    wanted = near.gradients("triton", weight)
    actual = far.gradients("triton", weight)
    for name in ("dkeys", "dvalues"):
        assert torch.equal(actual[name][-256:], wanted[name])
        assert actual[name][:-256].abs().max() == 0
    for name in ("out", "dquery", "dprobabilities"):
        assert torch.equal(actual[name], wanted[name])


def test_the_host_never_waits() -> None:
    case = preset_case().to(torch.bfloat16)
    weight = torch.randn_like(case.query)
    case.gradients("triton", weight)  # compiles
    torch.cuda.set_sync_debug_mode("error")
    try:
        case.gradients("triton", weight)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_graph_replays_the_forward_pass() -> None:
    case = preset_case(32).to(torch.bfloat16)
    wanted = case.run("triton")
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        out = case.run(None)
    out.fill_(float("nan"))
    graph.replay()
    assert torch.equal(out, wanted)


def test_compiled_whole() -> None:
    case = preset_case(16).to(torch.bfloat16)
    assert explain_backend(None, case.query).startswith("triton: ")

    def loss(query, keys, values, probabilities):  # type: ignore[no-untyped-def]
        sparse = {"mask": case.mask, "index": case.index, "probabilities": probabilities}
        return gca(query * 2, keys, values, **sparse).float().pow(2).sum()

    leaves = {n: getattr(case, n).clone().requires_grad_() for n in LEAVES}
    torch.compile(loss, fullgraph=True)(**leaves).backward()
    plain = {n: getattr(case, n).clone().requires_grad_() for n in LEAVES}
    loss(**plain).backward()
    for name in LEAVES:
        assert_close(name, plain[name].grad, leaves[name].grad, 1e-2)


def test_tiles_are_timed_and_kept() -> None:
    from drt_kernels.gca.tiles import _MEASURED
    from drt_kernels.gca.tuning import tune_gca

    case = preset_case(64).to(torch.bfloat16)
    arguments = (case.query, case.keys, case.values, case.retrieval)
    try:
        first = tune_gca(*arguments)
        assert set(first) == {"forward", "query", "memory"}
        assert tune_gca(*arguments) == first
        check_triton(case, torch.bfloat16)
    finally:
        _MEASURED.clear()
