"""What all forms of the landmark scan share: clean scores, and one total order of candidates.

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
        """Landmark ``numbers`` [n] -> which may be seen, [Q, n], or ``None`` for all."""
        allowed = None
        if self.first is not None:
            allowed = numbers >= self.first.to(numbers.device)[:, None]
        if self.until is not None:
            before = numbers < self.until.to(numbers.device)[:, None]
            allowed = before if allowed is None else allowed & before
        return allowed


def exact_scores(queries: Tensor, rows: Tensor) -> Tensor:
    """Queries [.., E] and landmarks [.., n, E] -> dot products [.., n], correctly rounded fp32.

    Double inside, so that equal landmarks have equal scores wherever they stand.
    """
    with torch.autocast(queries.device.type, enabled=False):
        return (rows.double() @ queries.double()[..., None])[..., 0].float()


def pack(scores: Tensor, numbers: Tensor) -> Tensor:
    """fp32 ``scores`` of landmarks ``numbers`` (below 2^32) -> candidates as int64."""
    bits = (scores + 0.0).view(torch.int32)  # -0.0 becomes 0.0
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return (ordered.long() << 32) | (_LOW - numbers.long())


def unpack(candidates: Tensor) -> Tensor:
    """Candidates -> numbers of landmarks, -1 for ``NOTHING``."""
    return torch.where(candidates == NOTHING, -1, _LOW - (candidates & _LOW))


def best(candidates: Tensor, k: int) -> Tensor:
    """The ``k`` best candidates of each row [Q, n] -> [Q, k], best first, filled with NOTHING."""
    found = candidates.topk(min(k, candidates.shape[-1]), dim=-1).values
    missing = k - found.shape[-1]
    return torch.nn.functional.pad(found, (0, missing), value=NOTHING) if missing else found


def ranked(index: Tensor, scores: Tensor) -> TopK:
    """Chosen landmarks [Q, k], -1 for none, with their clean scores -> best first."""
    kept = index >= 0
    order = torch.where(kept, pack(scores.detach(), index.clamp(min=0)), NOTHING)
    places = order.argsort(dim=-1, descending=True, stable=True)
    kept, index = kept.gather(-1, places), index.gather(-1, places)
    scores = scores.gather(-1, places)
    return TopK(index.masked_fill(~kept, 0), scores.masked_fill(~kept, float("-inf")))
