"""The landmark scan by its definition: every score, every noise, one sort."""

from __future__ import annotations

import torch
from torch import Tensor

from drt_kernels.scan.noise import gumbel
from drt_kernels.scan.order import NOTHING, Bounds, best, pack, unpack


def scan_reference(
    queries: Tensor, landmarks: Tensor, k: int, *, bounds: Bounds, seed: int | None
) -> Tensor:
    """Return the numbers of the best ``k`` landmarks, [Q, k], -1 for none.

    ``queries`` [Q, E], ``landmarks`` [N, E].
    """
    scores = (queries.double() @ landmarks.double().T).float()
    numbers = torch.arange(len(landmarks), device=queries.device)
    if seed is not None:
        scores = scores + gumbel(seed, torch.arange(len(queries), device=queries.device), numbers)
    candidates = pack(scores, numbers)
    allowed = bounds.allow(numbers)
    if allowed is not None:
        candidates = candidates.masked_fill(~allowed, NOTHING)
    return unpack(best(candidates, k))
