"""Which form of the landmark scan runs, and why; the one override.

Triton is imported when it is first wanted, never before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from drt_kernels.backend import Choice
from drt_kernels.interpreter import interpreting, mend_interpreter
from drt_kernels.scan.blocked import scan_blocked
from drt_kernels.scan.landmarks import Landmarks
from drt_kernels.scan.order import Bounds, TopK, exact_scores, ranked
from drt_kernels.scan.reference import scan_reference

_BACKENDS = ("blocked", "reference", "triton")
_MOST = 128  # candidates of one query that a program keeps in registers
_TYPES = (torch.float16, torch.bfloat16, torch.float32)


def explain_scan(queries: Tensor, k: int, backend: str | None = None) -> str:
    """Return the form that ``landmark_topk`` uses for ``k`` of these queries, and the reason."""
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
    """The ``k`` landmarks with the highest dot products for each query; of equals the lower number.

    ``queries`` [Q, E]; ``landmarks`` [N, E] of fp16, bf16 or fp32, or parts of them in order, each
    of which is looked at once, coded or not; ``bounds`` say which of them a query may see (the
    causal rule, and several streams in one call). With a ``seed``, Gumbel noise that depends on the
    seed and the numbers of query and landmark decides the choice; the scores never have noise. They
    carry gradients for landmarks in one piece. Raises ``ValueError`` for shapes that do not fit or
    an unknown backend.
    """
    bounds = bounds or Bounds()
    _check(queries, k, bounds)
    name = _choose(queries, k, backend).name
    whole = landmarks if isinstance(landmarks, Tensor) else None
    parts = _checked(landmarks if whole is None else [whole], queries.shape[1])
    with torch.no_grad(), torch.autocast(queries.device.type, enabled=False):
        if name == "blocked":
            index, scores = scan_blocked(queries, parts, k, bounds=bounds, seed=seed)
        else:
            pieces = [part.rows for part in parts]
            joined = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
            index = _form(queries, k, name)(queries, joined, k, bounds=bounds, seed=seed)
            scores = _scores(queries, joined, index)
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
    if backend is not None:
        if backend not in _BACKENDS:
            raise ValueError(f"backend {backend!r} is unknown, expected one of {_BACKENDS}")
        return Choice(backend, "asked for by name")
    if not queries.is_cuda:
        return Choice("blocked", f"blocks that fit a cache, as the tensors are on {queries.device}")
    problem = _triton_problem(queries, k)
    if problem is None:
        return Choice("triton", f"the tensors are on {queries.device}")
    return Choice("reference", f"all scores at once, as {problem}")


def _triton_problem(queries: Tensor, k: int) -> str | None:
    if not queries.is_cuda and not interpreting():
        return f"the tensors are on {queries.device}, and TRITON_INTERPRET=1 is not set"
    if k > _MOST:
        return f"k is {k}, expected at most {_MOST}"
    try:
        import drt_kernels.scan.kernel  # noqa: F401  (registers the operator)
    except Exception as error:  # whatever a broken installation raises is the reason to report
        return f"importing Triton failed with {type(error).__name__}: {error}"
    if interpreting():
        mend_interpreter()
    return None


def _form(queries: Tensor, k: int, name: str) -> Callable[..., Tensor]:
    """The form of this name that wants all landmarks in one tensor."""
    if name == "reference":
        return scan_reference
    problem = _triton_problem(queries, k)
    if problem is not None:
        raise ValueError(f"backend {name!r} cannot run: {problem}")
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
