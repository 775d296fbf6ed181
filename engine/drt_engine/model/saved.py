"""Checks of tensors that come from a file, which nothing may be assumed of.

Every function raises ``ValueError`` with what was seen and what was expected; the caller adds which
file it was. Knows no format but that of safetensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

# What chunk records can hold: numbers beyond it end in infinities, and these in NaN.
LARGEST = torch.finfo(torch.float16).max
LATEST = 1 << 48  # tokens of one stream
_FLOATS = (torch.float32, torch.bfloat16, torch.float16)
# Types and shapes that PyTorch does not know fail in it, each in its own way.
_UNREADABLE = (
    *(SafetensorError, LookupError, TypeError),
    *(RuntimeError, AssertionError, ArithmeticError),
)


def read_tensors(data: bytes) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file, given as bytes."""
    try:
        return load(data)
    except _UNREADABLE as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(".: ")
        raise ValueError(f"it holds no tensors, {reason}") from error


def expect_names(tensors: Iterable[str], expected: Iterable[str]) -> None:
    """Refuse tensors of other names than ``expected``."""
    names, expected_names = set(tensors), set(expected)
    if names != expected_names:
        differences = ", ".join(sorted(names ^ expected_names))
        raise ValueError(f"of the tensors, these are missing or strange: {differences:.200}")


def expect_shape(name: str, tensor: Tensor, expected: Sequence[int]) -> None:
    """Refuse another shape than ``expected``."""
    if tuple(tensor.shape) != tuple(expected):
        raise ValueError(f"{name} is {list(tensor.shape)}, expected {list(expected)}")


def expect_type(name: str, tensor: Tensor, *expected: torch.dtype) -> None:
    """Refuse a type that would be converted without a word."""
    if tensor.dtype not in expected:
        raise ValueError(f"{name} is {tensor.dtype}, expected {expected[0]}")


def expect_numbers(name: str, tensor: Tensor, shape: Sequence[int]) -> None:
    """Refuse what are not floating-point numbers of this shape that can be computed with."""
    expect_shape(name, tensor, shape)
    expect_type(name, tensor, *_FLOATS)
    # a NaN compares as false, and so as too large
    if not (tensor.abs() <= LARGEST).all():
        raise ValueError(f"{name} holds numbers beyond {LARGEST:.0f}")


def expect_mask(name: str, tensor: Tensor, shape: Sequence[int]) -> None:
    """Refuse what are not truth values of this shape."""
    expect_shape(name, tensor, shape)
    expect_type(name, tensor, torch.bool)
    if tensor.contiguous().view(torch.uint8).gt(1).any():
        raise ValueError(f"{name} holds bytes that are neither true nor false")


def expect_integer(name: str, tensor: Tensor) -> int:
    """Return the one integer, from 0 to ``LATEST``, that a tensor holds."""
    expect_shape(name, tensor, ())
    expect_type(name, tensor, torch.int64)
    value = int(tensor)
    if not 0 <= value <= LATEST:
        raise ValueError(f"{name} is {value}, expected 0 to {LATEST}")
    return value
