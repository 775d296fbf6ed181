"""The second half of ``drt eval calibrate``: how likely the quote that is shown is right.

A logistic map over ``QuoteFeatures`` is fitted to the judged quotes of all questions, answerable or
not, at the odds of the data. Above its threshold ``PRECISION`` of the quotes are right, measured on
documents that the fit had not seen.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from drt_engine.evaluate.library import mean
from drt_engine.evaluate.metrics.auroc import auroc
from drt_engine.evaluate.metrics.logistic import fit_logistic
from drt_engine.evaluate.metrics.reliability import expected_error, reliability
from drt_engine.evaluate.report import Metrics
from drt_engine.model.calibration import QuoteCalibration, QuoteFeatures

PRECISION = 0.8  # of the quotes that are shown as answers, how many are to be right
_LEAST_SHOWN = 10  # quotes that tell a precision
_PARTS = 5  # of the documents; each is judged by a fit to the others


@dataclass(frozen=True)
class JudgedQuote:
    """A quote with its features and whether it is right; ``document`` is where it is from."""

    document: str
    features: QuoteFeatures
    right: bool


@dataclass(frozen=True)
class QuoteFit:
    """A calibration, and the probabilities of its quotes by fits that had not seen them."""

    calibration: QuoteCalibration
    probabilities: tuple[float, ...]


def fit_quotes(quotes: Sequence[JudgedQuote]) -> QuoteFit | None:
    """Fit the probability that a quote is right; ``None`` where all are alike."""
    if len({quote.right for quote in quotes}) < 2:
        return None
    parts = [zlib.crc32(quote.document.encode()) % _PARTS for quote in quotes]
    fits = [
        _fit([quote for quote, part in zip(quotes, parts, strict=True) if part != left_out])
        for left_out in range(_PARTS)
    ]
    whole = _fit(quotes)
    assert whole is not None
    probabilities = tuple(
        (fits[part] or whole).probability(quote.features)
        for quote, part in zip(quotes, parts, strict=True)
    )
    threshold = lowest_threshold(probabilities, [quote.right for quote in quotes])
    calibration = QuoteCalibration(whole.weights, whole.shift, threshold)
    return QuoteFit(calibration, probabilities)


def _fit(quotes: Sequence[JudgedQuote]) -> QuoteCalibration | None:
    labels = [quote.right for quote in quotes]
    if len(set(labels)) < 2:
        return None
    weights, offset = fit_logistic([quote.features.bounded() for quote in quotes], labels)
    return QuoteCalibration(dict(zip(QuoteFeatures._fields, weights, strict=True)), offset)


def lowest_threshold(probabilities: Sequence[float], labels: Sequence[bool]) -> float:
    """Return the lowest threshold above which ``PRECISION`` of the quotes are right.

    1.0, which shows hardly any, where none is.
    """
    threshold, right = 1.0, 0
    ranking = sorted(zip(probabilities, labels, strict=True), reverse=True)
    for number, (probability, label) in enumerate(ranking, start=1):
        right += label
        if number >= _LEAST_SHOWN and right / number >= PRECISION:
            threshold = probability
    return threshold


def quote_metrics(fit: QuoteFit, quotes: Sequence[JudgedQuote]) -> Metrics:
    """Return what the probabilities are worth on documents that they were not fitted to."""
    labels = [quote.right for quote in quotes]
    threshold = fit.calibration.threshold
    shown = [
        label
        for label, probability in zip(labels, fit.probabilities, strict=True)
        if probability >= threshold
    ]
    return {
        "quote_threshold": threshold,
        "right_auroc": auroc(fit.probabilities, labels),
        "precision": mean(map(float, shown)),
        "shown": len(shown) / len(labels),
        "right": sum(labels) / len(labels),
        "right_shown": sum(shown) / len(labels),
        "quote_error": expected_error(reliability(fit.probabilities, labels)),
        "n_quotes": len(labels),
    }
