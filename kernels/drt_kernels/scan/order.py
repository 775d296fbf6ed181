"""What all implementations of the scan share: clean scores, and one total order of candidates.

A candidate is a pair of its score and its number, packed into one int64: the higher score first,
and the lower number among equals. Sorted or merged in any order, the result is the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

NOTHING = -(2**63)  # below every candidate
_LOW = 0xFFFFFFFF


@dataclass(frozen=True)
class TopK:
    """The best landmarks of each query, best first: ``index`` and clean ``scores``, each [Q, k].

    Where fewer than k were allowed, the rest has index 0 and score -inf.
    """

    index: Tensor
    scores: Tensor


@dataclass(frozen=True)
class Bounds:
    """Which landmarks each query may see: ``first <= n < until``, each [Q] int64 or ``None``."""

    first: Tensor | None = None
    until: Tensor | None = None

    def allow(self, numbers: Tensor) -> Tensor | None:
        """Return which landmarks ``numbers`` [n] may be seen, [Q, n], or ``None`` for all."""
        allowed = None
        if self.first is not None:
            allowed = numbers >= self.first.to(numbers.device)[:, None]
        if self.until is not None:
            before = numbers < self.until.to(numbers.device)[:, None]
            allowed = before if allowed is None else allowed & before
        return allowed


def exact_scores(queries: Tensor, rows: Tensor) -> Tensor:
    """Return dot products of queries [.., E] and landmarks [.., n, E], [.., n] in rounded fp32.

    Double inside, so that equal landmarks have equal scores wherever they are.
    """
    with torch.autocast(queries.device.type, enabled=False):
        return (rows.double() @ queries.double()[..., None])[..., 0].float()


def pack(scores: Tensor, numbers: Tensor) -> Tensor:
    """Pack fp32 ``scores`` of landmarks ``numbers`` (below 2^32) into candidates as int64."""
    bits = (scores + 0.0).view(torch.int32)  # -0.0 becomes 0.0
    # Of negative numbers, a larger magnitude is less: flip all bits but the sign.
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return (ordered.long() << 32) | (_LOW - numbers.long())


def unpack(candidates: Tensor) -> Tensor:
    """Return the numbers of the landmarks of candidates, -1 for ``NOTHING``."""
    return torch.where(candidates == NOTHING, -1, _LOW - (candidates & _LOW))


def best(candidates: Tensor, k: int) -> Tensor:
    """Return the best ``k`` candidates of each row [Q, n], best first, filled with NOTHING."""
    top = candidates.topk(min(k, candidates.shape[-1]), dim=-1).values
    missing = k - top.shape[-1]
    return torch.nn.functional.pad(top, (0, missing), value=NOTHING) if missing else top


def ranked(index: Tensor, scores: Tensor) -> TopK:
    """Sort chosen landmarks [Q, k], -1 for none, by their clean scores, best first."""
    exists = index >= 0
    order = torch.where(exists, pack(scores.detach(), index.clamp(min=0)), NOTHING)
    places = order.argsort(dim=-1, descending=True, stable=True)
    exists, index = exists.gather(-1, places), index.gather(-1, places)
    scores = scores.gather(-1, places)
    return TopK(index.masked_fill(~exists, 0), scores.masked_fill(~exists, float("-inf")))
