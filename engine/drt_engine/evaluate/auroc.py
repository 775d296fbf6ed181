"""How well a score tells answerable from unanswerable: AUROC, calibration and its error.

Plain numbers in and out; knows nothing of what the score means.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

_MAX_STEPS = 100
_TOLERANCE = 1e-10
_RIDGE = 1e-9


def auroc(scores: Sequence[float], labels: Sequence[bool]) -> float | None:
    """Return the chance that a positive scores above a negative, ties counting one half.

    None where one of the two classes is absent. Raises ValueError on unequal lengths or NaN.
    """
    _check(scores, labels)
    positives = sum(map(bool, labels))
    negatives = len(labels) - positives
    if not positives or not negatives:
        return None
    won = 0.0
    below = 0
    pairs = sorted(zip(scores, map(bool, labels), strict=True))
    for _, tied in groupby(pairs, key=lambda pair: pair[0]):
        members = [label for _, label in tied]
        hits = sum(members)
        misses = len(members) - hits
        won += hits * (below + misses / 2)
        below += misses
    return won / (positives * negatives)


@dataclass(frozen=True)
class Calibration:
    """A logistic map from a score to the probability of the positive class."""

    slope: float
    offset: float

    def probability(self, score: float) -> float:
        """Return the calibrated probability of one score."""
        return _sigmoid(self.slope * score + self.offset)

    def score_at(self, probability: float) -> float:
        """Return the score whose probability is the given one; the inverse, for thresholds.

        Raises ValueError where the probability is not inside (0, 1) or the map is flat.
        """
        if not 0 < probability < 1 or self.slope == 0:
            raise ValueError(
                f"got probability {probability} and slope {self.slope}, "
                "expected a probability inside (0, 1) and a slope that is not 0"
            )
        return (math.log(probability / (1 - probability)) - self.offset) / self.slope


def fit_calibration(scores: Sequence[float], labels: Sequence[bool]) -> Calibration:
    """Fit slope and offset by maximum likelihood (Newton's method with step halving).

    The targets are Platt's smoothed ones, so that scores which separate the classes perfectly
    still give a finite map. Raises ValueError on no data, unequal lengths or values not finite.
    """
    _check(scores, labels)
    if not scores or not all(map(math.isfinite, scores)):
        raise ValueError(f"got {len(scores)} scores, expected at least one and all finite")
    centre = sum(scores) / len(scores)
    spread = math.sqrt(sum((s - centre) ** 2 for s in scores) / len(scores)) or 1.0
    standard = [(score - centre) / spread for score in scores]
    slope, offset = _newton(standard, _smoothed(labels))
    return Calibration(slope=slope / spread, offset=offset - slope * centre / spread)


def calibration_error(
    probabilities: Sequence[float], labels: Sequence[bool], *, bins: int = 10
) -> float:
    """Return the expected calibration error over bins of equal width.

    Raises ValueError on no data, unequal lengths, or probabilities outside [0, 1].
    """
    _check(probabilities, labels)
    if not probabilities or not all(0 <= p <= 1 for p in probabilities):
        raise ValueError("got no probabilities or some outside [0, 1], expected them inside")
    gaps = [0.0] * bins
    for probability, label in zip(probabilities, labels, strict=True):
        gaps[min(int(probability * bins), bins - 1)] += probability - bool(label)
    return sum(map(abs, gaps)) / len(probabilities)


def _check(scores: Sequence[float], labels: Sequence[bool]) -> None:
    if len(scores) != len(labels):
        raise ValueError(f"got {len(scores)} scores and {len(labels)} labels, expected as many")
    if any(math.isnan(score) for score in scores):
        raise ValueError("got a score that is not a number, expected numbers only")


def _smoothed(labels: Sequence[bool]) -> list[float]:
    positives = sum(map(bool, labels))
    high = (positives + 1) / (positives + 2)
    low = 1 / (len(labels) - positives + 2)
    return [high if label else low for label in labels]


def _sigmoid(x: float) -> float:
    if x >= 0:
        return 1 / (1 + math.exp(-x))
    return math.exp(x) / (1 + math.exp(x))


def _loss(xs: list[float], targets: list[float], weights: tuple[float, float]) -> float:
    slope, offset = weights
    total = 0.0
    for x, target in zip(xs, targets, strict=True):
        logit = slope * x + offset
        # log(1 + e^z) - target z, with the exponent kept negative.
        total += max(logit, 0.0) + math.log1p(math.exp(-abs(logit))) - target * logit
    return total


def _newton(xs: list[float], targets: list[float]) -> tuple[float, float]:
    weights = (0.0, 0.0)
    loss = _loss(xs, targets, weights)
    for _ in range(_MAX_STEPS):
        step = _newton_step(xs, targets, weights)
        size = 1.0
        while size > _TOLERANCE:
            moved = (weights[0] - size * step[0], weights[1] - size * step[1])
            moved_loss = _loss(xs, targets, moved)
            if moved_loss <= loss:
                break
            size /= 2
        else:
            break
        gained, weights, loss = loss - moved_loss, moved, moved_loss
        if gained < _TOLERANCE * (1 + loss):
            break
    return weights


def _newton_step(
    xs: list[float], targets: list[float], weights: tuple[float, float]
) -> tuple[float, float]:
    """Return the inverse Hessian times the gradient; a small ridge keeps it invertible."""
    slope, offset = weights
    g_slope = g_offset = h_cross = 0.0
    h_slope = h_offset = _RIDGE
    for x, target in zip(xs, targets, strict=True):
        p = _sigmoid(slope * x + offset)
        curve = p * (1 - p)
        g_slope += (p - target) * x
        g_offset += p - target
        h_slope += curve * x * x
        h_cross += curve * x
        h_offset += curve
    determinant = h_slope * h_offset - h_cross * h_cross
    return (
        (h_offset * g_slope - h_cross * g_offset) / determinant,
        (h_slope * g_offset - h_cross * g_slope) / determinant,
    )
