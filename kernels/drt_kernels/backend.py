"""Which implementation of grouped cross-attention runs, and why; the one override.

Triton is imported when it is first wanted, never before; what its import said is part of the
reason.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from drt_kernels.gca.dense import gca_dense
from drt_kernels.gca.reference import gca_reference
from drt_kernels.interpreter import interpreting, mend_interpreter
from drt_kernels.shapes import check_gca, triton_limit

_BACKENDS = ("dense", "reference", "triton", "triton-atomics")
_NOT_YET = "not imported yet"
_import_problem: str | None = _NOT_YET


@dataclass(frozen=True)
class Choice:
    """The ``name`` of an implementation and the ``reason`` it was chosen."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


def explain_backend(backend: str | None = None, query: Tensor | None = None) -> str:
    """Return the name of the implementation that ``gca`` will use and the reason, as one line.

    Without ``query`` the answer is for bf16 and head size 64 on the best device of this machine.
    Raises ``ValueError`` for an unknown backend.
    """
    if query is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        query = torch.empty(1, 1, 1, 1, 64, dtype=torch.bfloat16, device=device)
    choice = choose(backend, query)
    problem = triton_problem(query) if choice.name.startswith("triton") else None
    return f"{choice}, but it cannot run: {problem}" if problem else str(choice)


def gca(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    mask: Tensor,
    index: Tensor,
    probabilities: Tensor,
    off_by_one: bool = True,
    backend: str | None = None,
) -> Tensor:
    """Grouped cross-attention: each query token attends to each retrieved chunk, summed by
    retrieval probability.

    ``query`` [B, C, T, H, D]; ``keys``, ``values`` [P, S, Hk, D]; ``mask`` [P, S], true for tokens
    that exist; ``index`` [B, C, R] int64 into the pool; ``probabilities`` [B, C, R]. Returns [B, C,
    T, H, D]. Raises ``ValueError`` for shapes that do not fit, an unknown backend, or a named one
    that cannot run here. Source: arXiv 2410.01651, section 3.2.
    """
    check_gca(query, keys, values, mask=mask, index=index, probabilities=probabilities)
    return _implementation(backend, query)(
        query,
        keys,
        values,
        mask=mask,
        index=index,
        probabilities=probabilities,
        off_by_one=off_by_one,
    )


def choose(backend: str | None, query: Tensor) -> Choice:
    """Return the implementation for ``query`` [.., D] and the reason; a named one stays."""
    if backend is not None:
        if backend not in _BACKENDS:
            raise ValueError(f"backend {backend!r} is unknown, expected one of {_BACKENDS}")
        return Choice(backend, "asked for by name")
    if not query.is_cuda:
        return Choice("dense", f"matrix products of PyTorch, as the tensors are on {query.device}")
    problem = triton_problem(query)
    if problem is None:
        return Choice("triton", f"the tensors are on {query.device}")
    if problem == _import_problem:
        warnings.warn(f"{problem}: GCA runs without its GPU kernels", RuntimeWarning, stacklevel=3)
    return Choice("dense", f"matrix products of PyTorch, as {problem}")


def triton_problem(query: Tensor) -> str | None:
    """Return why the Triton kernels cannot run on ``query`` [.., D], ``None`` if they can."""
    if not query.is_cuda and not interpreting():
        return f"the tensors are on {query.device}, and TRITON_INTERPRET=1 is not set"
    return triton_limit(query) or load_triton()


def load_triton() -> str | None:
    """Import the Triton kernels, once; return what that said if it failed."""
    global _import_problem
    if _import_problem == _NOT_YET:
        _import_problem = _try_import()
    return _import_problem


def _try_import() -> str | None:
    try:
        import drt_kernels.gca.autograd  # noqa: F401  (registers the operators)
    except Exception as error:  # whatever a broken installation raises is the reason to report
        return f"importing Triton failed with {type(error).__name__}: {error}"
    if interpreting():
        mend_interpreter()
    return None


def _implementation(backend: str | None, query: Tensor) -> Callable[..., Tensor]:
    name = choose(backend, query).name
    if name == "dense":
        return gca_dense
    if name == "reference":
        return gca_reference
    problem = triton_problem(query)
    if problem is not None:
        raise ValueError(f"backend {name!r} cannot run: {problem}")
    from drt_kernels.gca.autograd import gca_triton, gca_triton_atomics

    return gca_triton if name == "triton" else gca_triton_atomics
