"""The map from signals to a probability that made the labels is found, whatever their scale."""

from __future__ import annotations

import math
import random

import pytest

from drt_lab.evaluate.metrics.logistic import fit_logistic
from tests.tables import each_row


def sample(weights: list[float], offset: float, n: int) -> tuple[list[list[float]], list[bool]]:
    rng = random.Random(4)
    rows = [[rng.gauss(2.0, 1.5) for _ in weights] for _ in range(n)]
    odds = [sum(w * x for w, x in zip(weights, row, strict=True)) + offset for row in rows]
    return rows, [rng.random() < 1 / (1 + math.exp(-z)) for z in odds]


def probability(fit: tuple[list[float], float], row: list[float]) -> float:
    z = sum(w * x for w, x in zip(fit[0], row, strict=True)) + fit[1]
    return 1 / (1 + math.exp(-z))


def test_the_map_that_made_the_labels_is_found() -> None:
    rows, labels = sample([1.5, -0.7, 0.0], -1.0, 4000)
    weights, offset = fit_logistic(rows, labels)
    assert weights == pytest.approx([1.5, -0.7, 0.0], abs=0.12)
    assert offset == pytest.approx(-1.0, abs=0.25)
    mean = sum(probability((weights, offset), row) for row in rows) / len(rows)
    assert mean == pytest.approx(sum(labels) / len(labels), abs=1e-3)


@each_row("scale", [1e-6, 1.0, 1e6])
def test_separated_classes_give_a_finite_map_at_any_scale(scale: float) -> None:
    rows, labels = [[-2.0], [-1.0], [1.0], [2.0]], [False, False, True, True]
    fit = fit_logistic([[scale * x for x in row] for row in rows], labels)
    assert probability(fit, [2 * scale]) == pytest.approx(
        probability(fit_logistic(rows, labels), [2.0]), abs=1e-6
    )
    assert 0.5 < probability(fit, [scale]) < 1
    assert probability(fit, [0.0]) == pytest.approx(0.5)


def test_a_signal_that_never_changes_has_no_weight() -> None:
    rows = [[float(i), 3.0] for i in range(8)]
    weights, _ = fit_logistic(rows, [i > 3 for i in range(8)])
    assert weights[0] > 0 and weights[1] == 0.0
    assert 0.5 < probability(fit_logistic([[1.0], [2.0]], [True, True]), [1.5]) < 1


def test_what_cannot_be_fitted_is_refused() -> None:
    with pytest.raises(ValueError, match="got 0 rows"):
        fit_logistic([], [])
    with pytest.raises(ValueError, match="1 rows and 2 labels"):
        fit_logistic([[1.0]], [True, False])
    with pytest.raises(ValueError, match="not finite"):
        fit_logistic([[math.inf]], [True])
