"""Which implementation of grouped cross-attention runs, and why; the one override."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from drt_kernels.gca.dense import gca_dense
from drt_kernels.gca.reference import gca_reference
from drt_kernels.shapes import check_gca

_IMPLEMENTATIONS: dict[str, Callable[..., Tensor]] = {
    "dense": gca_dense,
    "reference": gca_reference,
}


def explain_backend(backend: str | None = None) -> str:
    """Return the name of the implementation that ``gca`` will use and the reason, as one line."""
    if backend is not None:
        return f"{_known(backend)}: asked for by name"
    return "dense: matrix products of PyTorch; this version has no Triton kernels"


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
    T, H, D]. Raises ``ValueError`` for shapes that do not fit or an unknown backend. Source: arXiv
    2410.01651, section 3.2.
    """
    check_gca(query, keys, values, mask=mask, index=index, probabilities=probabilities)
    return _IMPLEMENTATIONS[_known(backend or "dense")](
        query,
        keys,
        values,
        mask=mask,
        index=index,
        probabilities=probabilities,
        off_by_one=off_by_one,
    )


def _known(backend: str) -> str:
    if backend not in _IMPLEMENTATIONS:
        raise ValueError(
            f"backend {backend!r} is unknown, expected one of {sorted(_IMPLEMENTATIONS)}"
        )
    return backend
