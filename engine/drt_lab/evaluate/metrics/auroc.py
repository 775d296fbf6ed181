"""How well a score tells answerable from unanswerable: AUROC.

Plain numbers in and out; knows nothing of what the score means.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby


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


def auroc_within(
    scores: Sequence[float], labels: Sequence[bool], groups: Sequence[str]
) -> float | None:
    """Return the mean of the AUROC of each group, weighted by its pairs of both classes.

    It leaves out how well groups are told apart, which counts in the AUROC over all. None where no
    group has both classes.
    """
    members: dict[str, list[tuple[float, bool]]] = {}
    for score, label, group in zip(scores, labels, groups, strict=True):
        members.setdefault(group, []).append((score, label))
    won = pairs = 0.0
    for scored_labels in members.values():
        area = auroc([score for score, _ in scored_labels], [label for _, label in scored_labels])
        if area is not None:
            positives = sum(label for _, label in scored_labels)
            weight = positives * (len(scored_labels) - positives)
            won, pairs = won + area * weight, pairs + weight
    return won / pairs if pairs else None


def _check(scores: Sequence[float], labels: Sequence[bool]) -> None:
    if len(scores) != len(labels):
        raise ValueError(f"got {len(scores)} scores and {len(labels)} labels, expected as many")
    if any(math.isnan(score) for score in scores):
        raise ValueError("got a score that is not a number, expected numbers only")
