"""ROUGE equals the `rouge-score` package."""

from __future__ import annotations

import random

import pytest

from drt_lab.evaluate.metrics.rouge import RougeScore, mean_rouge, rouge

_TEXTS = [
    "The expedition reached the northern camp on 3 May; two sledges were lost on the way.",
    "On May 3rd the expedition came to the camp in the north, having lost two of its sledges.",
    "Café prices rose 3.5% — the council's report, however, says: “no change”.",
    "A proposal to add a field to the header, so that nodes can tell versions apart.",
    "This document specifies a proposed change to the semantics of the 'version' field, "
    "allowing multiple backward-compatible changes to be deployed in parallel.",
    "İstanbul naïve x_y Ünïcode ß ٣",
    "!!!",
    "",
]


def _random_text(rng: random.Random) -> str:
    return " ".join(rng.choices(["a", "b", "c", "dog", "The", "x1", "-", "é"], k=rng.randrange(90)))


@pytest.mark.thorough
def test_equal_to_the_package_on_real_and_random_texts() -> None:
    scorer_module = pytest.importorskip("rouge_score.rouge_scorer")
    scorer = scorer_module.RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=False)
    rng = random.Random(0)
    pairs = [(left, right) for left in _TEXTS for right in _TEXTS]
    pairs += [(_random_text(rng), _random_text(rng)) for _ in range(40)]
    for reference, prediction in pairs:
        expected = {k: v.fmeasure for k, v in scorer.score(reference, prediction).items()}
        assert rouge(prediction, reference).to_dict() == pytest.approx(expected, abs=1e-12)


def test_known_values() -> None:
    # Shared: the, cat, mat (3 of 4 and of 5); "the cat" (1 of 3 and of 4); the cat mat in order.
    score = rouge("the cat the mat", "the cat on a mat")
    assert score.rouge1 == pytest.approx(2 * (3 / 4) * (3 / 5) / (3 / 4 + 3 / 5))
    assert score.rouge2 == pytest.approx(2 * (1 / 3) * (1 / 4) / (1 / 3 + 1 / 4))
    assert score.rouge_l == pytest.approx(score.rouge1)
    assert rouge("", "text") == RougeScore(0.0, 0.0, 0.0)


def test_order_matters_to_rouge_l_alone() -> None:
    score = rouge("one two three", "three two one")
    assert score.rouge1 == 1.0
    assert score.rouge2 == 0.0
    assert score.rouge_l == pytest.approx(1 / 3)


def test_mean() -> None:
    assert mean_rouge([RougeScore(1.0, 1.0, 1.0), RougeScore(0.0, 0.5, 0.5)]) == RougeScore(
        0.5, 0.75, 0.75
    )
    assert mean_rouge([]) is None
