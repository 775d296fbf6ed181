"""Arguments of kernel launches; knows nothing of Triton."""

from __future__ import annotations

import math

from torch import Tensor

LOG2_E = 1 / math.log(2)  # kernels take exponentials to the base 2


def strides(dimensions: str, **tensors: Tensor) -> dict[str, int]:
    """Return the strides of leading dimensions under the names that a kernel gives them.

    One letter per dimension: ``strides("nth", q=query)`` gives ``s_qn``, ``s_qt`` and ``s_qh`` of a
    query [N, T, H, D].
    """
    return {
        f"s_{name}{dimension}": tensor.stride(axis)
        for name, tensor in tensors.items()
        for axis, dimension in enumerate(dimensions)
    }


def dense_rows(tensor: Tensor) -> Tensor:
    """Return the tensor with a last dimension of stride 1, copied only where it has another.

    The kernels take any other stride.
    """
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def power_of_two(count: int, *, least: int = 1, most: int | None = None) -> int:
    """Return the next power of two from ``count`` on, between ``least`` and ``most``."""
    power = max(least, 1 << max(0, count - 1).bit_length())
    return power if most is None else min(most, power)
