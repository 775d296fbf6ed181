"""What kernel tests share: comparison with a reference by name, and memory filled with NaN."""

from __future__ import annotations

import torch
from torch import Tensor


def assert_close(name: str, reference: Tensor, actual: Tensor, ratio: float) -> None:
    """Raise ``AssertionError`` when the relative error in norm of ``actual`` is above ``ratio`` or
    it is not finite.
    """
    if reference.shape != actual.shape:
        raise AssertionError(
            f"{name}: shape {tuple(actual.shape)}, expected {tuple(reference.shape)}"
        )
    if not torch.isfinite(actual).all():
        raise AssertionError(f"{name}: not finite")
    difference = (reference.double() - actual.double()).flatten()
    error = (difference.norm() / reference.double().flatten().norm().clamp(min=1e-12)).item()
    if error > ratio:
        largest = difference.abs().max().item()
        raise AssertionError(
            f"{name}: relative error {error:.2e} above {ratio:.0e}, "
            f"largest difference {largest:.2e}"
        )


def poisoned(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return fresh memory of this shape filled with NaN."""
    return torch.full(shape, float("nan"), dtype=dtype)
