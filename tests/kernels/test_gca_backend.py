"""Which implementation of grouped cross-attention runs: the choice, its reason, the override."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from drt_kernels import backend, explain_backend
from drt_kernels.gca.attention import BACKENDS
from drt_kernels.shapes import triton_limit
from tests.forks import Forks
from tests.kernels.gca_cases import make_case


def on_gpu(dtype: torch.dtype = torch.bfloat16, size: int = 64) -> Any:
    return SimpleNamespace(
        is_cuda=True, device=torch.device("cuda:0"), dtype=dtype, shape=(1, 1, 1, 1, size)
    )


@pytest.fixture(autouse=True)
def hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(backend, "_import_problems", {"GCA": None})


def test_on_a_cpu_it_is_dense() -> None:
    query = torch.zeros(1, 1, 1, 1, 64)
    assert explain_backend(None, query) == (
        "dense: matrix products of PyTorch, as the tensors are on cpu"
    )


def test_on_a_gpu_it_is_triton() -> None:
    assert explain_backend(None, on_gpu()) == "triton: the tensors are on cuda:0"
    assert explain_backend("dense", on_gpu()) == "dense: asked for by name"


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (on_gpu(torch.float64), "torch.float64 is not one of torch.bfloat16, "),
        (on_gpu(size=24), "head size 24 is not one of [16, 32, 48, "),
        (on_gpu(size=256), "head size 256 is not one of"),
    ],
)
def test_limits_lead_to_dense_and_are_named(query: Any, reason: str) -> None:
    choice = backend.choose(BACKENDS, query, triton_limit)
    assert choice.name == "dense"
    assert reason in choice.reason
    assert f"triton: asked for by name, but it cannot run: {reason}" in explain_backend(
        "triton", query
    )


def test_an_old_gpu_leads_to_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    assert "compute capability (7, 5) of the GPU is below (8, 0)" in explain_backend(None, on_gpu())


def test_a_failed_import_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "_import_problems", {})
    monkeypatch.setitem(sys.modules, "drt_kernels.gca.autograd", None)
    with pytest.warns(RuntimeWarning, match="importing Triton failed with ModuleNotFoundError"):
        choice = backend.choose(BACKENDS, on_gpu(), triton_limit)
    assert choice.name == "dense"
    assert "import of drt_kernels.gca.autograd halted" in choice.reason
    assert "import of drt_kernels.gca.autograd halted" in explain_backend("triton", on_gpu())


def test_a_named_backend_that_cannot_run_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"'triton' cannot run: head size 8 is not one of \[16"):
        monkeypatch.setenv("TRITON_INTERPRET", "1")
        make_case().run("triton")
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    with pytest.raises(ValueError, match="are on cpu, and TRITON_INTERPRET=1 is not set"):
        make_case(d=32).run("triton-atomics")


LAZY = """
import sys, torch, drt_kernels as k
assert "triton" not in sys.modules
pool = torch.ones(1, 4, 1, 32)
at = torch.zeros(1, 1, 1, dtype=torch.int64)
sparse = {"mask": torch.ones(1, 4, dtype=torch.bool), "index": at, "probabilities": at + 1.0}
k.gca(torch.ones(1, 1, 2, 1, 32), pool, pool, **sparse)
assert "triton" not in sys.modules, "dense needs no Triton"
k.gca(torch.ones(1, 1, 2, 1, 32), pool, pool, **sparse, backend="triton")
assert "triton" in sys.modules
assert "torch._dynamo" not in sys.modules, "a question must not wait for the compiler"
"""


def test_triton_is_imported_when_wanted_and_the_compiler_never(forks: Forks) -> None:
    pytest.importorskip("triton")
    done = forks.run(LAZY, variables={"TRITON_INTERPRET": "1"})
    assert done.returncode == 0, done.stderr
