"""Gumbel noise that depends on nothing but a seed, a query's number and a landmark's number.

A counter-based generator (Philox 4x32-10) gives every pair its own number, so results depend on no
block size, device or order of work. The Triton kernel draws the same bits.
"""

from __future__ import annotations

import torch
from torch import Tensor

_ROUNDS = 10
_LOW = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)


def gumbel(seed: int, queries: Tensor, landmarks: Tensor) -> Tensor:
    """Return standard Gumbel noise [Q, N], fp32, for numbered ``queries`` [Q], ``landmarks`` [N].

    Source of the generator: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
    """
    bits = philox(seed, landmarks.long()[None, :], queries.long()[:, None])
    # 23 bits and a half: exact in fp32, and never 0 or 1.
    uniform = ((bits >> 9).float() + 0.5) * 2.0**-23
    return -torch.log(-torch.log(uniform))


def philox(seed: int, first: Tensor, second: Tensor) -> Tensor:
    """Return 32 random bits as int64 for the counter (``first``, ``second``, 0, 0)."""
    key = [seed & _LOW, (seed >> 32) & _LOW]
    shape = torch.broadcast_shapes(first.shape, second.shape)
    zero = torch.zeros((), dtype=torch.int64, device=first.device)
    counter = [(first & _LOW).expand(shape), (second & _LOW).expand(shape), zero, zero]
    for _ in range(_ROUNDS):
        high_a, low_a = _product(_MULTIPLIERS[0], counter[0])
        high_b, low_b = _product(_MULTIPLIERS[1], counter[2])
        counter = [high_b ^ counter[1] ^ key[0], low_b, high_a ^ counter[3] ^ key[1], low_a]
        key = [(k + step) & _LOW for k, step in zip(key, _KEY_STEPS, strict=True)]
    return counter[0]


def _product(multiplier: int, counter: Tensor) -> tuple[Tensor, Tensor]:
    """Return high and low 32 bits of a product of 32-bit numbers, which int64 cannot hold."""
    low, high = multiplier & 0xFFFF, multiplier >> 16
    small = counter * low
    large = counter * high + (small >> 16)
    return large >> 16, ((large & 0xFFFF) << 16) | (small & 0xFFFF)
