"""Inverse index of a retrieval: which (query chunk, rank) pairs retrieved each pool chunk.

A chunk's pairs are cut into segments of bounded length. Tensors only, on the device of the index,
with sizes known beforehand: the host never waits. The order of the pairs is fixed by a stable sort,
so sums taken in it are the same in every run.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

# Pairs one program walks. A chunk that everyone retrieves is cut into many segments; at R = 8 and
# even retrieval a chunk has 8 pairs, so few are.
SEGMENT = 32


@dataclass(frozen=True)
class InverseIndex:
    """Pairs in the order of the chunk they name, and work items: segments of one chunk's pairs.

    ``pairs`` [N * R] are flat positions in the index; chunk ``p`` has ``pairs[start[p]:start[p +
    1]]``, cut into items ``item_start[p]`` to ``item_start[p + 1]``, at least one. ``chunk``
    [items] names the chunk of each item (``P``: there is no such item). Items of a chunk that has
    several write their sums to slots ``slot_start[p]`` to ``slot_start[p + 1]``, of which there are
    at most ``slots``.
    """

    pairs: Tensor
    start: Tensor
    item_start: Tensor
    chunk: Tensor
    slot_start: Tensor
    slots: int
    segment: int


def invert(
    index: Tensor, probabilities: Tensor, pool: int, *, segment: int = SEGMENT
) -> InverseIndex:
    """Invert ``index`` [N, R] into a pool of ``pool`` chunks.

    Pairs of probability exactly 0, which add nothing to keys and values, are left out.
    """
    # Pairs to leave out name the chunk behind the last, so that they are sorted to the end.
    flat = index.reshape(-1).masked_fill(probabilities.reshape(-1) == 0, pool)
    sorted_chunks, pairs = torch.sort(flat, stable=True)  # [N * R]
    chunk_ids = torch.arange(pool + 1, dtype=sorted_chunks.dtype, device=index.device)
    start = torch.searchsorted(sorted_chunks, chunk_ids)  # [P + 1]
    segments = ((start[1:] - start[:-1] + segment - 1) // segment).clamp(min=1)
    item_start = F.pad(segments.cumsum(0), (1, 0))
    # A chunk of n pairs has at most 1 + n // segment items; if several, at most 2 * (n // segment).
    extra = flat.numel() // segment
    items = torch.arange(pool + extra, device=index.device)
    chunk = torch.searchsorted(item_start[1:].contiguous(), items, right=True)
    slot_start = F.pad(torch.where(segments > 1, segments, 0).cumsum(0), (1, 0))
    return InverseIndex(pairs, start, item_start, chunk, slot_start, 2 * extra, segment)
