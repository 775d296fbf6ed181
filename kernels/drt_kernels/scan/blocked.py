"""The landmark scan on a CPU: block by block, keeping only the best.

One or two queries over fp16 landmarks, the case of a question to a library, are first multiplied in
fp16 as PyTorch does it for a matrix and a vector, at the rate of memory, or in eight bits where
landmarks have codes. Only landmarks whose rough score is near the best are read again and scored
exactly. Everything else is scored exactly at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from drt_kernels.scan.landmarks import CodedQuery, Landmarks
from drt_kernels.scan.noise import gumbel
from drt_kernels.scan.order import NOTHING, Bounds, exact_scores, pack, unpack

_ROWS = 1024  # in double precision they still fit the processor's second or third cache
_WINDOW = 1 << 17  # scored roughly before any is scored exactly; of small documents a copy, 100 MB
_CODED_WINDOW = 1 << 20  # with those that have codes, which are of mapped files and no copy
_EXACT = 16384  # scored exactly at once, where nearly all are equals
_GROUP = 32  # scores of which the best stands for all
_MAX_ROUGH = 2  # queries; from three on, one conversion of the landmarks serves them all


def scan_blocked(
    queries: Tensor, parts: Iterable[Landmarks], k: int, *, bounds: Bounds, seed: int | None
) -> tuple[Tensor, Tensor]:
    """Return the numbers [Q, k] (-1 for none) and clean scores of the best landmarks.

    ``queries`` [Q, E]; ``parts`` are landmarks [n, E] in order.
    """
    if seed is None and len(queries) <= _MAX_ROUGH:
        return _scan_roughly(queries, parts, k, bounds)
    return _scan_exactly(queries, parts, k, bounds=bounds, seed=seed)


def _scan_exactly(
    queries: Tensor, parts: Iterable[Landmarks], k: int, *, bounds: Bounds, seed: int | None
) -> tuple[Tensor, Tensor]:
    """Score each block exactly for all queries; keep the best so far."""
    wide = queries.double()
    best = torch.full((len(queries), k), NOTHING, dtype=torch.int64)
    scores = torch.zeros(len(queries), k)
    order = torch.arange(len(queries))
    for start, block in _blocks(parts):
        clean = (wide @ block.double().T).float()
        numbers = torch.arange(start, start + len(block))
        noisy = clean if seed is None else clean + gumbel(seed, order, numbers)
        candidates = pack(noisy, numbers)  # [Q, n]
        allowed = bounds.allow(numbers)
        if allowed is not None:
            candidates = candidates.masked_fill(~allowed, NOTHING)
        # Merge with the best of earlier blocks, and carry their clean scores along.
        merged = torch.cat([best, candidates], dim=1)
        best, places = merged.topk(k, dim=1)
        scores = torch.cat([scores, clean], dim=1).gather(1, places)
    return unpack(best), scores


def _blocks(parts: Iterable[Landmarks]) -> Iterator[tuple[int, Tensor]]:
    """Yield blocks of landmarks with the number of their first."""
    start = 0
    for part in parts:
        for block in part.rows.split(_ROWS):
            yield start, block
            start += len(block)


def _scan_roughly(
    queries: Tensor, parts: Iterable[Landmarks], k: int, bounds: Bounds
) -> tuple[Tensor, Tensor]:
    """Score windows of landmarks roughly, one query after another; score candidates exactly."""
    none = [None] * len(queries)
    first, until = (none if t is None else t.tolist() for t in (bounds.first, bounds.until))
    scans = [_Scan(query, k, a, b) for query, a, b in zip(queries, first, until, strict=True)]
    for window in _windows(parts):
        for scan in scans:
            scan.add(window)
    return (
        unpack(torch.stack([scan.best for scan in scans])),
        torch.stack([scan.scores for scan in scans]),
    )


def _windows(parts: Iterable[Landmarks]) -> Iterator[list[tuple[int, Landmarks]]]:
    """Yield parts with the number of their first, together at least a window of landmarks."""
    window: list[tuple[int, Landmarks]] = []
    start = window_start = uncoded = 0
    for part in parts:
        window.append((start, part))
        start += len(part)
        uncoded += len(part) if part.codes is None else 0
        if uncoded >= _WINDOW or start - window_start >= _CODED_WINDOW:
            yield window
            window, window_start, uncoded = [], start, 0
    if window:
        yield window


class _Scan:
    """The best ``k`` landmarks of one query so far.

    A rough score in fp16 is off by at most ``|q - q16| |l|`` and the rounding of the result.
    Landmarks up to four times as long as those seen before are certain not to be missed; longer
    ones would in addition have to lie along a rounding error. A score from codes is off by at most
    the bound that comes with it, and no landmark is missed.
    """

    def __init__(self, query: Tensor, k: int, first: int | None, until: int | None) -> None:
        self.query, self.k = query, k
        self.first, self.until = first, until
        self.best = torch.full((k,), NOTHING, dtype=torch.int64)
        self.scores = torch.zeros(k)
        self._floor = float("-inf")  # the k-th best score
        self._longest = 0.0
        largest = query.abs().max().item()
        self._scale = largest if largest > 0 else 1.0
        self._even = query.float() / self._scale
        self._half = self._even.half()
        self._lost: float = (self._even - self._half.float()).norm().item()
        self._coded: CodedQuery | None = None

    def add(self, window: Sequence[tuple[int, Landmarks]]) -> None:
        """Scan parts of the landmarks, each with the number of its first."""
        allowed = [self._allowed(start, part) for start, part in window]
        allowed = [(start, part) for start, part in allowed if len(part)]
        if not allowed:
            return
        parts = [part for _, part in allowed]
        enough = sum(map(len, parts)) > self.k
        if enough and all(part.rows.dtype == torch.float16 for part in parts):
            places = self._candidates(parts)
        else:
            places = [torch.arange(len(part)) for part in parts]
        # Only candidates are read again, in full precision.
        rows = [part.rows[at] for part, at in zip(parts, places, strict=True) if len(at)]
        numbers = [at + start for (start, _), at in zip(allowed, places, strict=True)]
        if rows:
            self._take(torch.cat(rows), torch.cat(numbers))

    def _allowed(self, start: int, part: Landmarks) -> tuple[int, Landmarks]:
        """Return what the query may see of a part, and the number of its first."""
        begin = max(self.first - start, 0) if self.first is not None else 0
        end = max(self.until - start, 0) if self.until is not None else len(part)
        return start + begin, part[begin:end]

    def _candidates(self, parts: Sequence[Landmarks]) -> Sequence[Tensor]:
        """Return the places of landmarks that may be among the best, in each of the parts."""
        rough = [self._rough(part) for part in parts]
        scores = torch.cat([part_scores for part_scores, _ in rough])
        off = max(off for _, off in rough)
        # The threshold: the k-th best exact score so far, or of this first window a rough one.
        if self._floor == float("-inf"):
            floor = _kth(scores, self.k) - off
            self._longest = _first(parts, _ROWS).float().norm(dim=1).max().item()
            floor -= self._margin(floor)
        else:
            floor = self._floor / self._scale
        candidates = (scores >= floor - self._margin(floor) - off).nonzero()[:, 0]
        starts = torch.tensor([0, *map(len, parts)]).cumsum(0)
        counts = torch.searchsorted(candidates, starts).diff().tolist()
        by_part = candidates.split(counts)
        return [at - start for at, start in zip(by_part, starts.tolist(), strict=False)]

    def _rough(self, part: Landmarks) -> tuple[Tensor, float]:
        """Return scores [n] of landmarks, fp32, and by how much codes may be off."""
        if part.codes is None:
            return (part.rows @ self._half).float(), 0.0
        if self._coded is None:
            self._coded = CodedQuery.of(self._even)
        return part.codes.rough(self._coded)

    def _margin(self, score: float) -> float:
        """Return by how much a score in fp16 may be off: the query's rounding, the result's."""
        return 4 * self._lost * self._longest + 2.0**-9 * abs(score) + 1e-6

    def _take(self, rows: Tensor, numbers: Tensor) -> None:
        """Score candidates [n, E] exactly and keep the best."""
        scores = torch.cat([exact_scores(self.query, block) for block in rows.split(_EXACT)])
        merged = torch.cat([self.best, pack(scores, numbers)])
        self.best, places = merged.topk(self.k)
        self.scores = torch.cat([self.scores, scores])[places]
        if self.best[-1].item() != NOTHING:
            self._floor = self.scores[-1].item()
            self._longest = max(self._longest, rows.float().norm(dim=1).max().item())


def _first(parts: Sequence[Landmarks], count: int) -> Tensor:
    """Return the first landmarks of the parts, at most ``count``."""
    rows: list[Tensor] = []
    for part in parts:
        rows.append(part.rows[:count])
        count -= len(rows[-1])
        if not count:
            break
    return torch.cat(rows)


def _kth(scores: Tensor, k: int) -> float:
    """Return nearly the ``k``-th best of scores [n], n > k: at least so many are as good."""
    groups = len(scores) // _GROUP
    if groups > 4 * k:  # take each group's best only: half the time of looking at all
        scores = scores[: groups * _GROUP].view(groups, _GROUP).amax(dim=1)
    kth: float = scores.topk(k).values[-1].item()
    return kth
