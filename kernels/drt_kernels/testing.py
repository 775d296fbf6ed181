"""What kernel tests share: comparison with a reference by name, and memory filled with NaN."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


def relative_error(reference: Tensor, actual: Tensor) -> float:
    """Return the norm of the difference over the norm of ``reference``, both taken in float64."""
    exact = reference.double().flatten()
    difference = (exact - actual.to(reference.device).double().flatten()).norm()
    error: float = (difference / exact.norm().clamp(min=1e-12)).item()
    return error


def assert_close(name: str, reference: Tensor, actual: Tensor, ratio: float) -> None:
    """Raise ``AssertionError`` unless ``actual`` is finite and near ``reference``.

    Near: the relative error in norm is at most ``ratio``.
    """
    if reference.shape != actual.shape:
        raise AssertionError(
            f"{name}: shape {tuple(actual.shape)}, expected {tuple(reference.shape)}"
        )
    if not torch.isfinite(actual).all():
        raise AssertionError(f"{name}: not finite")
    error = relative_error(reference, actual)
    if error > ratio:
        largest = (reference.double() - actual.to(reference.device).double()).abs().max().item()
        raise AssertionError(
            f"{name}: relative error {error:.2e} above {ratio:.0e}, "
            f"largest difference {largest:.2e}"
        )


def poisoned(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return fresh memory of this shape filled with NaN."""
    return torch.full(shape, float("nan"), dtype=dtype)


@contextmanager
def poisoned_memory() -> Iterator[None]:
    """Fill whatever is allocated inside with NaN (the largest number for integers).

    Operations that are not deterministic are refused.
    """
    before = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warn_only)
