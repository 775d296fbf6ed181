"""Rotary positions (arXiv 2104.09864), exact at any distance from a document's start."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor


@lru_cache(maxsize=8)
def _frequencies(size: int, theta: float) -> Tensor:
    return theta ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)  # [D / 2]


def rotate(x: Tensor, positions: Tensor, theta: float) -> Tensor:
    """Rotate heads [.., T, D] by the angles of ``positions`` [T], or of any shape [.., T].

    Angles are reduced to one turn in 64 bits: a position of 16 million keeps nine digits.
    """
    angles = positions[..., None].double() * _frequencies(x.shape[-1], theta).to(positions.device)
    angles = torch.remainder(angles, 2 * math.pi).float()
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
