"""The one chooser of all operations: which implementation runs, why, and the caller's override.

GPU kernels are imported when they are first needed, never before, so that a CPU does not wait for
Triton; an import that fails is part of the reason, and a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from drt_kernels.interpreter import interpreting, repair_interpreter

# What the kernels of an operation cannot do with a tensor, or why they are not worth starting for
# it; ``None`` if nothing.
Limits = Callable[[Tensor], str | None]


@dataclass(frozen=True)
class Backends:
    """The implementations of one operation, and which of them is the default where.

    ``names`` are all that a caller may ask for. ``kernels`` are those that run GPU kernels; the
    first is the default on a GPU, ``fallback`` takes its place where it cannot run, and ``cpu`` is
    the default on every other device. ``notes`` describe defaults in a few words. ``load`` imports
    the Triton kernels; ``None`` for an operation without any. ``needless`` says which tensors on a
    GPU are left to the fallback, although the kernels could take them.
    """

    operation: str
    names: tuple[str, ...]
    kernels: tuple[str, ...]
    cpu: str
    fallback: str
    notes: Mapping[str, str]
    load: Callable[[], object] | None = None
    needless: Limits | None = None


@dataclass(frozen=True)
class Choice:
    """The ``name`` of an implementation and the ``reason`` it was chosen.

    ``problem`` says why one that was asked for by name cannot run.
    """

    name: str
    reason: str
    problem: str | None = None

    def __str__(self) -> str:
        line = f"{self.name}: {self.reason}"
        return line if self.problem is None else f"{line}, but it cannot run: {self.problem}"

    def runnable(self) -> Choice:
        """Return the choice; raise ``ValueError`` where it cannot run."""
        if self.problem is not None:
            raise ValueError(f"backend {self.name!r} cannot run: {self.problem}")
        return self


def choose(
    backends: Backends, query: Tensor, limits: Limits, *, backend: str | None = None
) -> Choice:
    """Return the implementation for ``query``; ``backend`` overrides the choice.

    Raises ``ValueError`` for an unknown ``backend``, and warns where the import of the GPU kernels
    fails.
    """
    if backend is not None:
        if backend not in backends.names:
            raise ValueError(f"backend {backend!r} is unknown, expected one of {backends.names}")
        problem = _problem(backends, query, limits) if backend in backends.kernels else None
        return Choice(backend, "asked for by name", problem)
    if not query.is_cuda:
        note = backends.notes[backends.cpu]
        return Choice(backends.cpu, f"{note}, as the tensors are on {query.device}")
    needless = None if backends.needless is None else backends.needless(query)
    if needless is not None:
        return Choice(backends.fallback, f"{backends.notes[backends.fallback]}, as {needless}")
    problem = _problem(backends, query, limits)
    if problem is None:
        return Choice(backends.kernels[0], f"the tensors are on {query.device}")
    if problem == _import_problems.get(backends.operation):
        message = f"{problem}: {backends.operation} runs without its GPU kernels"
        warnings.warn(message, RuntimeWarning, stacklevel=3)
    return Choice(backends.fallback, f"{backends.notes[backends.fallback]}, as {problem}")


def _problem(backends: Backends, query: Tensor, limits: Limits) -> str | None:
    """Return why the GPU kernels of an operation cannot run on ``query``."""
    if backends.load is not None and not query.is_cuda and not interpreting():
        return f"the tensors are on {query.device}, and TRITON_INTERPRET=1 is not set"
    return limits(query) or import_problem(backends)


_import_problems: dict[str, str | None] = {}  # by operation, once its kernels were needed


def import_problem(backends: Backends) -> str | None:
    """Import the Triton kernels of an operation, once; return why that failed, if it did."""
    if backends.load is None:
        return None
    if backends.operation not in _import_problems:
        _import_problems[backends.operation] = _try_import(backends.load)
    return _import_problems[backends.operation]


def _try_import(load: Callable[[], object]) -> str | None:
    try:
        load()
    except Exception as error:  # whatever a broken installation raises is the reason to report
        return f"importing Triton failed with {type(error).__name__}: {error}"
    if interpreting():
        repair_interpreter()
    return None
