"""The landmark scan: the one interface to its implementations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from drt_kernels.backend import Backends, Choice, choose
from drt_kernels.scan.blocked import scan_blocked
from drt_kernels.scan.landmarks import Landmarks
from drt_kernels.scan.order import Bounds, TopK, exact_scores, ranked
from drt_kernels.scan.reference import scan_reference

_MAX_K = 128  # candidates of one query that a program keeps in registers
_TYPES = (torch.float16, torch.bfloat16, torch.float32)


def _load_kernels() -> None:
    import drt_kernels.scan.kernel  # noqa: F401  (registers the operator)


BACKENDS = Backends(
    operation="the landmark scan",
    names=("blocked", "reference", "triton"),
    kernels=("triton",),
    cpu="blocked",
    fallback="reference",
    notes={"blocked": "blocks that fit a cache", "reference": "all scores at once"},
    load=_load_kernels,
)


def explain_scan(queries: Tensor, k: int, backend: str | None = None) -> str:
    """Return the implementation that ``landmark_topk`` uses for ``k`` of these queries, and why."""
    return str(_choose(queries, k, backend))


def landmark_topk(
    queries: Tensor,
    landmarks: Tensor | Iterable[Tensor | Landmarks],
    k: int,
    *,
    bounds: Bounds | None = None,
    seed: int | None = None,
    backend: str | None = None,
) -> TopK:
    """Return the ``k`` landmarks with the highest dot products; of equals the lower number.

    ``queries`` [Q, E]; ``landmarks`` [N, E] of fp16, bf16 or fp32, or parts of them in order, each
    of which is looked at once, coded or not; ``bounds`` say which of them a query may see (the
    causal rule, and several streams in one call). With a ``seed``, Gumbel noise that depends on the
    seed and the numbers of query and landmark decides the choice; the scores never have noise. They
    carry gradients for landmarks in one piece. Raises ``ValueError`` for shapes that do not fit or
    an unknown backend.
    """
    bounds = bounds or Bounds()
    _check(queries, k, bounds)
    name = _choose(queries, k, backend).runnable().name
    whole = landmarks if isinstance(landmarks, Tensor) else None
    parts = _checked(landmarks if whole is None else [whole], queries.shape[1])
    with torch.no_grad(), torch.autocast(queries.device.type, enabled=False):
        if name == "blocked":
            index, scores = scan_blocked(queries, parts, k, bounds=bounds, seed=seed)
        else:
            pieces = [part.rows for part in parts]
            joined = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
            index = _implementation(name)(queries, joined, k, bounds=bounds, seed=seed)
            scores = _scores(queries, joined, index)
    # The choice has no gradient; scores computed again, for the chosen only, have one.
    if whole is not None and _differentiable(queries, whole):
        scores = _scores(queries, whole, index)
    return ranked(index, scores)


def _scores(queries: Tensor, landmarks: Tensor, index: Tensor) -> Tensor:
    if not len(landmarks):
        return torch.zeros(index.shape, device=index.device)
    return exact_scores(queries, landmarks[index.clamp(min=0)])


def _differentiable(queries: Tensor, landmarks: Tensor) -> bool:
    return torch.is_grad_enabled() and (queries.requires_grad or landmarks.requires_grad)


def _choose(queries: Tensor, k: int, backend: str | None) -> Choice:
    def limits(_: Tensor) -> str | None:
        return None if k <= _MAX_K else f"k is {k}, expected at most {_MAX_K}"

    return choose(BACKENDS, queries, limits, backend=backend)


def _implementation(name: str) -> Callable[..., Tensor]:
    """Return an implementation that takes all landmarks in one tensor."""
    if name == "reference":
        return scan_reference
    from drt_kernels.scan.kernel import scan_triton

    return scan_triton


def _check(queries: Tensor, k: int, bounds: Bounds) -> None:
    if queries.dim() != 2:
        raise ValueError(f"queries have {queries.dim()} dimensions, expected 2: [Q, E]")
    if k < 1:
        raise ValueError(f"k is {k}, expected 1 or more")
    for name, ends in (("first", bounds.first), ("until", bounds.until)):
        if ends is not None and ends.shape != queries.shape[:1]:
            raise ValueError(f"{name} is {tuple(ends.shape)}, expected [{len(queries)}]")


def _checked(parts: Iterable[Tensor | Landmarks], size: int) -> Iterator[Landmarks]:
    for part in parts:
        rows = part.rows if isinstance(part, Landmarks) else part
        if rows.dim() != 2 or rows.shape[1] != size:
            raise ValueError(f"landmarks are {tuple(rows.shape)}, expected [N, {size}]")
        if rows.dtype not in _TYPES:
            raise ValueError(f"landmarks are {rows.dtype}, expected one of {_TYPES}")
        yield part if isinstance(part, Landmarks) else Landmarks(part)
