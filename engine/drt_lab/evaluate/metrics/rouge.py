"""ROUGE-1, ROUGE-2 and ROUGE-L F-measures of a summary against references.

Equal to the ``rouge-score`` package without stemming ("rougeL": one subsequence over the whole
text). Knows only strings.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_TOKEN = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True)
class RougeScore:
    """F-measures as fractions of 1."""

    rouge1: float
    rouge2: float
    rouge_l: float

    def to_dict(self) -> dict[str, float]:
        """Return the scores under their usual names."""
        return {"rouge1": self.rouge1, "rouge2": self.rouge2, "rougeL": self.rouge_l}


def rouge(prediction: str, reference: str) -> RougeScore:
    """Score a summary against one reference."""
    predicted = _TOKEN.findall(prediction.lower())
    expected = _TOKEN.findall(reference.lower())
    common = _common_subsequence(predicted, expected)
    return RougeScore(
        rouge1=_ngram_f(predicted, expected, n=1),
        rouge2=_ngram_f(predicted, expected, n=2),
        rouge_l=_f_measure(common, len(predicted), len(expected)),
    )


def mean_rouge(scores: Iterable[RougeScore]) -> RougeScore | None:
    """Return the mean of each measure, or None where there is nothing to average."""
    score_list = list(scores)
    if not score_list:
        return None
    return RougeScore(
        rouge1=sum(score.rouge1 for score in score_list) / len(score_list),
        rouge2=sum(score.rouge2 for score in score_list) / len(score_list),
        rouge_l=sum(score.rouge_l for score in score_list) / len(score_list),
    )


def _ngram_f(predicted: Sequence[str], expected: Sequence[str], *, n: int) -> float:
    left, right = _ngrams(predicted, n), _ngrams(expected, n)
    return _f_measure((left & right).total(), left.total(), right.total())


def _ngrams(tokens: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(tokens[i:] for i in range(n)), strict=False))


def _f_measure(shared: int, predicted: int, expected: int) -> float:
    if not shared:
        return 0.0
    precision, recall = shared / predicted, shared / expected
    return 2 * precision * recall / (precision + recall)


def _common_subsequence(left: Sequence[str], right: Sequence[str]) -> int:
    """Return the length of the longest common subsequence.

    One row of the usual table is one integer whose zero bits are the steps of the row (Hyyro's
    bit-parallel form), because cell-by-cell rows take seconds on long summaries.
    """
    if not left or not right:
        return 0
    places: dict[str, int] = {}
    for index, token in enumerate(left):
        places[token] = places.get(token, 0) | 1 << index
    full = (1 << len(left)) - 1
    row = full
    for token in right:
        matches = row & places.get(token, 0)
        row = ((row + matches) | (row - matches)) & full
    return len(left) - row.bit_count()
