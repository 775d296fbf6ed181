"""Streams of tokens as chunks."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def chunk_count(tokens: int, size: int) -> int:
    """Return how many chunks of ``size`` tokens hold ``tokens`` tokens."""
    return -(-tokens // size)


def to_chunks(ids: Tensor, size: int, pad: int) -> tuple[Tensor, Tensor]:
    """Cut token ids [.., T] into chunks [.., C, S], padded at the end.

    The second result says which tokens exist, [.., C, S].
    """
    tokens = ids.shape[-1]
    missing = -tokens % size
    shape = (*ids.shape[:-1], -1, size)
    valid = torch.ones(ids.shape, dtype=torch.bool, device=ids.device)
    return (
        F.pad(ids, (0, missing), value=pad).reshape(shape),
        F.pad(valid, (0, missing), value=False).reshape(shape),
    )
