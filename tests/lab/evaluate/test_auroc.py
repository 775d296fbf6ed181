"""AUROC counts pairs."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drt_lab.evaluate.metrics.auroc import auroc, auroc_within

_PAIRS = st.lists(st.tuples(st.integers(-4, 4), st.booleans()), min_size=1, max_size=30)


@settings(max_examples=50, deadline=None)
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


def test_within_groups_the_level_of_a_group_does_not_count() -> None:
    scores = [0.9, 0.8, 0.2, 0.1]
    labels = [True, False, True, False]
    groups = ["easy", "easy", "hard", "hard"]
    assert auroc(scores, labels) == 0.75
    assert auroc_within(scores, labels, groups) == 1.0
    # The group of six pairs counts six times that of one.
    scores, labels = (
        [1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0],
        [True, True, True, False, False, True, False],
    )
    assert auroc_within(scores, labels, ["a"] * 5 + ["b"] * 2) == 6 / 7
    assert auroc_within([0.1, 0.2], [True, True], ["a", "b"]) is None
