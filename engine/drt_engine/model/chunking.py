"""Chunk arithmetic as pure functions: landmarks in and out, shifting, padding."""

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


def insert_landmarks(chunks: Tensor, landmark: int | bool) -> Tensor:
    """Put a landmark (or true, for a mask) after each chunk, [.., C, S] -> [.., C, S+1]."""
    return F.pad(chunks, (0, 1), value=landmark)


def shift_chunks(x: Tensor, fill: float | int | bool = 0) -> Tensor:
    """Move what chunk t retrieved to chunk t + 1, [B, C, ..]; the first chunk gets ``fill``."""
    first = torch.full_like(x[:, :1], fill)
    return torch.cat([first, x[:, :-1]], dim=1)


def next_token_targets(ids: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Return the targets of a stream's chunks [B, C, S], and their mask, both [B, C, S+1].

    The target of a chunk's last token is the first token of the next chunk; the landmark has no
    target.
    """
    flat, flat_valid = ids.flatten(1), valid.flatten(1)
    targets = F.pad(flat[:, 1:], (0, 1)).view_as(ids)
    mask = (F.pad(flat_valid[:, 1:], (0, 1)) & flat_valid).view_as(valid)
    return insert_landmarks(targets, 0), insert_landmarks(mask, False)
