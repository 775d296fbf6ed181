"""The landmark scan on a CPU: block by block, keeping only the best.

One or two queries over fp16 landmarks, which is asking a library, first multiply in fp16 as PyTorch
does it for a matrix and a vector, at the rate of memory, or in eight bits where landmarks have
codes. Only the few landmarks whose rough score comes near the best are read again and scored
exactly. Everything else is scored exactly at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from drt_kernels.scan.landmarks import Landmarks
from drt_kernels.scan.noise import gumbel
from drt_kernels.scan.order import NOTHING, Bounds, exact_scores, pack, unpack

_ROWS = 1024  # in double precision they still fit the processor's second or third cache
_ROUGH_ROWS = 32768  # multiplied at once in fp16: their scores still fit a cache
_FEW = 2  # queries; from three on, one conversion of the landmarks serves them all


def scan_blocked(
    queries: Tensor, parts: Iterable[Landmarks], k: int, *, bounds: Bounds, seed: int | None
) -> tuple[Tensor, Tensor]:
    """``queries`` [Q, E], ``parts`` of the landmarks [n, E] in order -> numbers [Q, k] (-1 for
    none) and clean scores of the chosen.
    """
    if seed is None and len(queries) <= _FEW:
        return _one_by_one(queries, parts, k, bounds)
    return _together(queries, parts, k, bounds=bounds, seed=seed)


def _together(
    queries: Tensor, parts: Iterable[Landmarks], k: int, *, bounds: Bounds, seed: int | None
) -> tuple[Tensor, Tensor]:
    wide = queries.double()
    kept = torch.full((len(queries), k), NOTHING, dtype=torch.int64)
    scores = torch.zeros(len(queries), k)
    order = torch.arange(len(queries))
    for start, block in _blocks(parts, _ROWS):
        clean = (wide @ block.rows.double().T).float()
        numbers = torch.arange(start, start + len(block))
        noisy = clean if seed is None else clean + gumbel(seed, order, numbers)
        candidates = pack(noisy, numbers)
        allowed = bounds.allow(numbers)
        if allowed is not None:
            candidates = candidates.masked_fill(~allowed, NOTHING)
        both = torch.cat([kept, candidates], dim=1)
        kept, places = both.topk(k, dim=1)
        scores = torch.cat([scores, clean], dim=1).gather(1, places)
    return unpack(kept), scores


def _blocks(parts: Iterable[Landmarks], rows: int) -> Iterator[tuple[int, Landmarks]]:
    """Blocks of at most ``rows`` landmarks with the number of their first.

    Each at most doubles what was seen: so the best of all soon say what need not be looked at.
    """
    start = 0
    for part in parts:
        while len(part):
            block = part[: min(rows, max(_ROWS, start))]
            yield start, block
            start, part = start + len(block), part[len(block) :]


def _one_by_one(
    queries: Tensor, parts: Iterable[Landmarks], k: int, bounds: Bounds
) -> tuple[Tensor, Tensor]:
    none = [None] * len(queries)
    first, until = (none if t is None else t.tolist() for t in (bounds.first, bounds.until))
    scans = [_Scan(query, k, a, b) for query, a, b in zip(queries, first, until, strict=True)]
    for start, block in _blocks(parts, _ROUGH_ROWS):
        for scan in scans:
            scan.add(block, start)
    return (
        unpack(torch.stack([scan.kept for scan in scans])),
        torch.stack([scan.scores for scan in scans]),
    )


class _Scan:
    """The best ``k`` landmarks of one query so far.

    A rough score in fp16 is off by at most ``|q - q16| |l|`` and the rounding of the result.
    Landmarks up to four times as long as those seen before are certain not to be missed; longer
    ones would in addition have to lie along a rounding error. One from codes is off by what they
    say, and no landmark is missed.
    """

    def __init__(self, query: Tensor, k: int, first: int | None, until: int | None) -> None:
        self.query, self.k = query, k
        self.first, self.until = first, until
        self.kept = torch.full((k,), NOTHING, dtype=torch.int64)
        self.scores = torch.zeros(k)
        self._floor = float("-inf")  # the k-th best score
        self._longest = 0.0
        largest = query.abs().max().item()
        self._scale = largest if largest > 0 else 1.0
        self._even = query.float() / self._scale
        self._rough = self._even.half()
        self._lost = (self._even - self._rough.float()).norm().item()

    def add(self, part: Landmarks, start: int) -> None:
        """Look at landmarks [n, E], numbered from ``start``."""
        begin = max(self.first - start, 0) if self.first is not None else 0
        end = min(self.until - start, len(part)) if self.until is not None else len(part)
        if begin >= end:
            return
        seen = part[begin:end]
        rows, numbers = seen.rows, None
        if rows.dtype == torch.float16 and len(rows) > self.k:
            numbers = self._near(seen)
            if not len(numbers):
                return
            rows = rows[numbers]
        if numbers is None:
            numbers = torch.arange(len(rows))
        self._take(rows, numbers + (start + begin))

    def _near(self, part: Landmarks) -> Tensor:
        """Places of the landmarks [n, E] that may be among the best."""
        if part.codes is not None:
            rough, off = part.codes.rough(self._even)
        else:
            rough, off = part.rows @ self._rough, 0.0
        if self._floor == float("-inf"):
            kth = rough.float().topk(self.k).values[-1].item()
            self._longest = part.rows.float().norm(dim=1).max().item()
            floor = kth - self._margin(kth) - off
        else:
            floor = self._floor / self._scale
        return (rough >= floor - self._margin(floor) - off).nonzero()[:, 0]

    def _margin(self, score: float) -> float:
        return 4 * self._lost * self._longest + 2.0**-9 * abs(score) + 1e-6

    def _take(self, rows: Tensor, numbers: Tensor) -> None:
        scores = exact_scores(self.query, rows)
        both = torch.cat([self.kept, pack(scores, numbers)])
        self.kept, places = both.topk(self.k)
        self.scores = torch.cat([self.scores, scores])[places]
        if self.kept[-1].item() != NOTHING:
            self._floor = self.scores[-1].item()
            self._longest = max(self._longest, rows.float().norm(dim=1).max().item())
