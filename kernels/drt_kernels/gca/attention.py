"""Grouped cross-attention: the one interface to its implementations."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from drt_kernels.backend import Backends, choose
from drt_kernels.gca.dense import gca_dense
from drt_kernels.gca.reference import gca_reference
from drt_kernels.shapes import Retrieval, check_gca, triton_limit


def _load_kernels() -> None:
    import drt_kernels.gca.autograd  # noqa: F401  (registers the operators)


BACKENDS = Backends(
    operation="GCA",
    names=("dense", "reference", "triton", "triton-atomics"),
    kernels=("triton", "triton-atomics"),
    cpu="dense",
    fallback="dense",
    notes={"dense": "matrix products of PyTorch"},
    load=_load_kernels,
)


def explain_backend(backend: str | None = None, query: Tensor | None = None) -> str:
    """Return the name of the implementation that ``gca`` will use and the reason, as one line.

    Without ``query`` the answer is for bf16 and head size 64 on the best device of this machine.
    Raises ``ValueError`` for an unknown backend.
    """
    if query is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        query = torch.empty(1, 1, 1, 1, 64, dtype=torch.bfloat16, device=device)
    return str(choose(BACKENDS, query, triton_limit, backend=backend))


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
    """Let each query token attend to each retrieved chunk; sum by retrieval probability.

    ``query`` [B, C, T, H, D]; ``keys``, ``values`` [P, S, Hk, D]; ``mask`` [P, S], true for tokens
    that exist; ``index`` [B, C, R] int64 into the pool; ``probabilities`` [B, C, R]. Returns [B, C,
    T, H, D]. Raises ``ValueError`` for shapes that do not fit, an unknown backend, or a named one
    that cannot run here. Source: arXiv 2410.01651, section 3.2.
    """
    retrieval = Retrieval(mask, index, probabilities)
    check_gca(query, keys, values, retrieval)
    choice = choose(BACKENDS, query, triton_limit, backend=backend).runnable()
    return _implementation(choice.name)(query, keys, values, retrieval, off_by_one=off_by_one)


def _implementation(name: str) -> Callable[..., Tensor]:
    if name == "dense":
        return gca_dense
    if name == "reference":
        return gca_reference
    from drt_kernels.gca.autograd import gca_triton, gca_triton_atomics

    return gca_triton if name == "triton" else gca_triton_atomics
