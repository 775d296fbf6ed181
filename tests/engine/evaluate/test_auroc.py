"""AUROC counts pairs, the calibration is the likelihood's maximum, and its error is bounded."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drt_engine.evaluate.auroc import Calibration, auroc, calibration_error, fit_calibration

_PAIRS = st.lists(st.tuples(st.integers(-4, 4), st.booleans()), min_size=1, max_size=30)


def _sample(slope: float, offset: float, *, n: int) -> tuple[list[float], list[bool]]:
    rng = random.Random(1)
    scores = [rng.gauss(3.0, 2.0) for _ in range(n)]
    truth = Calibration(slope, offset)
    return scores, [rng.random() < truth.probability(score) for score in scores]


@settings(max_examples=150, deadline=None)
@given(_PAIRS)
def test_auroc_is_the_share_of_pairs_in_order(pairs: list[tuple[int, bool]]) -> None:
    scores, labels = [float(score) for score, _ in pairs], [label for _, label in pairs]
    high = [score for score, label in pairs if label]
    low = [score for score, label in pairs if not label]
    wins = sum((p > n) + (p == n) / 2 for p in high for n in low)
    expected = wins / (len(high) * len(low)) if high and low else None
    assert auroc(scores, labels) == (None if expected is None else pytest.approx(expected))


def test_auroc_refuses_what_it_cannot_rank() -> None:
    with pytest.raises(ValueError, match="2 scores and 1 labels"):
        auroc([1.0, 2.0], [True])
    with pytest.raises(ValueError, match="not a number"):
        auroc([math.nan, 1.0], [True, False])


def test_calibration_finds_the_map_that_made_the_labels() -> None:
    scores, labels = _sample(1.5, -4.0, n=4000)
    found = fit_calibration(scores, labels)
    assert found.slope == pytest.approx(1.5, rel=0.1)
    assert found.offset == pytest.approx(-4.0, rel=0.1)
    probabilities = [found.probability(score) for score in scores]
    # The maximum has no gradient in the offset: mean probability and rate agree.
    assert sum(probabilities) / 4000 == pytest.approx(sum(labels) / 4000, abs=1e-3)
    assert calibration_error(probabilities, labels) < 0.03
    assert calibration_error([0.5 * p for p in probabilities], labels) > 0.1


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_calibration_is_finite_and_the_same_at_any_scale(scale: float) -> None:
    scores, labels = [-2.0, -1.0, 1.0, 2.0], [False, False, True, True]
    found = fit_calibration([score * scale for score in scores], labels)
    assert found.probability(2 * scale) == pytest.approx(
        fit_calibration(scores, labels).probability(2.0), abs=1e-4
    )
    assert 0.5 < found.probability(scale) < 1
    assert found.probability(0.0) == pytest.approx(0.5)


def test_calibration_of_one_score_or_one_class() -> None:
    assert fit_calibration([1.0, 1.0], [True, False]).probability(1.0) == pytest.approx(0.5)
    assert 0.5 < fit_calibration([1.0, 2.0], [True, True]).probability(1.5) < 1
    with pytest.raises(ValueError, match="at least one"):
        fit_calibration([], [])
    with pytest.raises(ValueError, match="finite"):
        fit_calibration([math.inf], [True])


def test_score_at_is_the_inverse() -> None:
    calibration = Calibration(slope=2.0, offset=-1.0)
    assert calibration.probability(calibration.score_at(0.3)) == pytest.approx(0.3)
    assert calibration.probability(-1e6) == 0.0
    assert calibration.probability(1e6) == 1.0
    with pytest.raises(ValueError, match="inside"):
        calibration.score_at(1.0)


def test_calibration_error_by_hand() -> None:
    # Bins [0.2 0.2] with one hit and [1.0] with a hit: (|0.4 - 1| + 0) / 3.
    assert calibration_error([0.2, 0.2, 1.0], [True, False, True]) == pytest.approx(0.2)
    with pytest.raises(ValueError, match="inside"):
        calibration_error([1.5], [True])
