"""From evidence features of the model to calibrated probabilities.

Two of them: that the documents hold an answer (``Calibration``), and that the quote which is shown
is right (``QuoteCalibration``). Plain numbers; knows nothing of tensors or documents.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

_EXTREME = 60.0  # scores beyond are all alike, and infinite ones cannot be fitted
_TINY = 1e-6


class Signals(NamedTuple):
    """Evidence features for answerability: log-odds and scores from the model.

    ``span``: best span against the null; ``retrieval``: best retrieval score of a chunk;
    ``relevance``: best reranker score of the reader pass; ``null``: minus the null logit;
    ``each``: minus the mean of the per-chunk null logits.
    """

    span: float
    retrieval: float = 0.0
    relevance: float = 0.0
    null: float = 0.0
    each: float = 0.0

    def bounded(self) -> Signals:
        """Return the features clipped to the range that can be fitted."""
        return Signals(*(max(-_EXTREME, min(_EXTREME, value)) for value in self))


NO_EVIDENCE = Signals(float("-inf"))


class QuoteFeatures(NamedTuple):
    """Evidence features for whether a shown quote is right: log-odds, logarithms and shares.

    ``span``: the best span against the null; ``share``: log-odds of the quote's part of all votes;
    ``lead``: its votes over those of the best other answer; ``passage``: log-odds of the start
    probability in its passage; ``retrieval``: logarithm of the passage's retrieval probability;
    ``evidence``: the passage's own log-odds of holding an answer, ``evidence_lead`` against the
    best other passage; ``answerable``: log-odds that the documents hold an answer.

    ``coverage``: share of the question's content words in the sentence of the quote; ``echo``: of
    the quote's content words in the question; ``length``: logarithm of its words; ``agreement``:
    whether numbers and names are where the answer type expects them; ``open_type``: probability
    of a type that no short span answers (definition, reason, manner, list, comparison);
    ``whole``: 1 where the quote is a sentence or a list and not only the words of the span;
    ``within``: mean log-odds that a span's start, and its end, are anywhere in the quote;
    ``memory``: log-odds by the decoder, which reads the chunk memory of the quote's passage alone,
    that it holds an answer; ``document``: logarithm of the retrieval probability of all passages of
    the quote's document, 0 where all are of one.
    """

    span: float
    share: float = 0.0
    lead: float = 0.0
    passage: float = 0.0
    retrieval: float = 0.0
    evidence: float = 0.0
    evidence_lead: float = 0.0
    answerable: float = 0.0
    coverage: float = 0.0
    echo: float = 0.0
    length: float = 0.0
    agreement: float = 0.0
    open_type: float = 0.0
    whole: float = 0.0
    within: float = 0.0
    memory: float = 0.0
    document: float = 0.0

    def bounded(self) -> QuoteFeatures:
        """Return the features clipped to the range that can be fitted."""
        return QuoteFeatures(*(max(-_EXTREME, min(_EXTREME, value)) for value in self))


@dataclass(frozen=True)
class QuoteCalibration:
    """Logistic regression over ``QuoteFeatures``: the probability that a quote is right.

    ``weights`` are by name of the feature, ``shift`` is the bias. From the probability
    ``threshold`` on, a quote is shown as an answer. ``ranks`` says that it was fitted to all quotes
    of a question and may order them; then words alone are shown where they have ``span_threshold``
    of the probability of the sentence or list around them, or more. One that was fitted to the
    first quote alone shows words from the probability ``span_threshold`` on.
    """

    weights: Mapping[str, float]
    shift: float = 0.0
    threshold: float = 0.5
    span_threshold: float = 0.0
    ranks: bool = False

    def __post_init__(self) -> None:
        unknown = set(self.weights) - set(QuoteFeatures._fields)
        if unknown:
            raise ValueError(f"it weighs {', '.join(sorted(unknown))}, which nothing measures")

    def probability(self, features: QuoteFeatures) -> float:
        """Return the probability that the quote is right, in 0..1."""
        values = features.bounded()._asdict()
        return logistic(self.shift + sum(w * values[name] for name, w in self.weights.items()))

    def choose(
        self, candidates: Sequence[QuoteFeatures], share: float | None = None
    ) -> tuple[int, float]:
        """Return which form of a quote is shown, the shortest first, and how likely it is right.

        ``share`` takes the place of ``span_threshold`` where that is one.
        """
        probabilities = [self.probability(features) for features in candidates]
        least = self.span_threshold
        if self.ranks:
            least = (least if share is None else share) * probabilities[-1]
        shorter = (n for n, probability in enumerate(probabilities[:-1]) if probability >= least)
        number = next(shorter, len(probabilities) - 1)
        return number, probabilities[number]


def logistic(log_odds: float) -> float:
    """Return the probability with these log-odds, without overflow."""
    return 1 / (1 + math.exp(-max(-_EXTREME, min(_EXTREME, log_odds))))


def log_odds(probability: float) -> float:
    """Return the log-odds of a probability, finite also for 0 and 1."""
    bounded = min(max(probability, _TINY), 1 - _TINY)
    return math.log(bounded / (1 - bounded))


@dataclass(frozen=True)
class Calibration:
    """Logistic regression over ``Signals``: the probability that the documents hold an answer.

    ``scale`` is the weight of the span, ``shift`` the bias. They count as holding one from the
    confidence ``threshold`` on. ``quote`` judges the quote itself; ``None`` (as in files that were
    written before there was one) shows every quote of a found answer. "Yes" or "no" is said where
    the verdict's log-odds are ``verdict`` or more away from 0; ``None`` says neither. Passages are
    read best first, until the log-odds of the best span against none are ``enough``; ``None`` reads
    all that were retrieved.
    """

    scale: float = 1.0
    shift: float = 0.0
    threshold: float = 0.5
    retrieval: float = 0.0
    relevance: float = 0.0
    null: float = 0.0
    each: float = 0.0
    quote: QuoteCalibration | None = None
    verdict: float | None = None
    enough: float | None = None

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Calibration:
        """Return what ``asdict`` made; raises ``TypeError`` or ``ValueError`` for anything else."""
        quote = values.get("quote")
        return cls(**{**values, "quote": None if quote is None else QuoteCalibration(**quote)})

    def confidence(self, signals: Signals) -> float:
        """Return the confidence, in 0..1."""
        span, retrieval, relevance, null, each = signals.bounded()
        z = self.scale * span + self.retrieval * retrieval + self.relevance * relevance
        return logistic(z + self.null * null + self.each * each + self.shift)
