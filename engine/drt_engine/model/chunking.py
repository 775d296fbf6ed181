"""Chunk arithmetic as pure functions: landmarks, and what a chunk reads of the one before."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def insert_landmarks(chunks: Tensor, landmark: int | bool) -> Tensor:
    """Put a landmark (or true, for a mask) after each chunk, [.., C, S] -> [.., C, S+1]."""
    return F.pad(chunks, (0, 1), value=landmark)


def shift_chunks(x: Tensor, fill: float | int | bool = 0) -> Tensor:
    """Move what chunk t retrieved to chunk t + 1, [B, C, ..]; the first chunk gets ``fill``."""
    first = torch.full_like(x[:, :1], fill)
    return torch.cat([first, x[:, :-1]], dim=1)
