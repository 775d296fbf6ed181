"""Arguments of grouped cross-attention for tests, and the comparison of implementations on them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from drt_kernels import gca
from drt_kernels.shapes import Retrieval
from drt_kernels.testing import assert_close, poisoned_memory, relative_error

LEAVES = ("query", "keys", "values", "probabilities")
LIMITS = {torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 1e-2}


@dataclass(frozen=True)
class Case:
    """One call's arguments."""

    query: Tensor
    keys: Tensor
    values: Tensor
    mask: Tensor
    index: Tensor
    probabilities: Tensor

    @property
    def retrieval(self) -> Retrieval:
        """What the query chunks retrieved."""
        return Retrieval(self.mask, self.index, self.probabilities)

    def run(self, backend: str | None, *, off_by_one: bool = True) -> Tensor:
        return gca(
            self.query,
            self.keys,
            self.values,
            mask=self.mask,
            index=self.index,
            probabilities=self.probabilities,
            off_by_one=off_by_one,
            backend=backend,
        )

    def gradients(
        self, backend: str, weight: Tensor, *, off_by_one: bool = True
    ) -> dict[str, Tensor]:
        leaves = {n: getattr(self, n).detach().clone().requires_grad_() for n in LEAVES}
        out = replace(self, **leaves).run(backend, off_by_one=off_by_one)
        (out * weight).sum().backward()
        grads = {f"d{n}": t.grad for n, t in leaves.items() if t.grad is not None}
        return {"out": out.detach(), **grads}

    def to(self, dtype: torch.dtype) -> Case:
        """The same with vectors in ``dtype``; probabilities are at least fp32."""
        wide = dtype if dtype == torch.float64 else torch.float32
        vectors = {n: getattr(self, n).to(dtype) for n in LEAVES[:3]}
        return replace(self, **vectors, probabilities=self.probabilities.to(wide))

    def cuda(self) -> Case:
        """The same on the GPU."""
        return Case(**{name: tensor.cuda() for name, tensor in vars(self).items()})


def make_case(
    t: int = 3,
    s: int = 7,
    r: int = 3,
    *,
    h: int = 4,
    hk: int = 2,
    d: int = 8,
    pool: int = 5,
    batch: int = 2,
    chunks: int = 2,
    scale: float = 1,
) -> Case:
    """Random arguments; chunk 0 of the pool has no token, others lack some."""
    mask = torch.rand(pool, s) < 0.8
    mask[:, 0] = True
    mask[0] = False
    return Case(
        query=torch.randn(batch, chunks, t, h, d) * scale,
        keys=torch.randn(pool, s, hk, d),
        values=torch.randn(pool, s, hk, d),
        mask=mask,
        index=torch.randint(0, pool, (batch, chunks, r)),  # with duplicates, and the empty chunk
        probabilities=torch.softmax(torch.randn(batch, chunks, r), -1),
    )


def check_triton(
    case: Case, dtype: torch.dtype, *, off_by_one: bool = True, backend: str = "triton"
) -> None:
    """Compare output and every gradient with the reference in float64, and with what PyTorch's
    products of the same type make of it.
    """
    case = case.to(dtype)
    weight = torch.randn_like(case.query)
    wanted = case.to(torch.float64).gradients("reference", weight.double(), off_by_one=off_by_one)
    dense = case.gradients("dense", weight, off_by_one=off_by_one)
    with poisoned_memory():
        actual = case.gradients(backend, weight, off_by_one=off_by_one)
    assert list(actual) == ["out", *(f"d{name}" for name in LEAVES)]
    assert actual["out"].dtype == dtype
    for name, value in wanted.items():
        assert_close(name, value, actual[name], LIMITS[dtype])
        if dtype != torch.float32:
            allowed = 1.5 * relative_error(value, dense[name])
            assert_close(f"{name} against dense", value, actual[name], max(allowed, 1e-6))
