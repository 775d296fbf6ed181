"""The probability that a quote is right: fitted on invented quotes, its threshold, its file."""

from __future__ import annotations

import random
from dataclasses import asdict

import pytest

from drt_engine.evaluate import quote_fit
from drt_engine.evaluate.quote_fit import JudgedQuote, fit_quotes, lowest_threshold, quote_metrics
from drt_engine.model.calibration import Calibration, QuoteCalibration, QuoteFeatures


def invented(count: int) -> list[JudgedQuote]:
    """Quotes that are right where the lead is large; the length is noise."""
    rng = random.Random(3)
    quotes = []
    for number in range(count):
        lead = rng.gauss(0, 2)
        right = rng.random() < 1 / (1 + 2.718 ** (-2 * lead))
        features = QuoteFeatures(float("-inf"), lead=lead, length=rng.gauss(0, 1))
        quotes.append(JudgedQuote(f"document {number % 40}", features, right))
    return quotes


def test_what_tells_right_quotes_is_weighed_and_the_promised_precision_is_kept() -> None:
    quotes = invented(800)
    fit = fit_quotes(quotes)
    assert fit is not None
    weights = fit.calibration.weights
    assert weights["lead"] == pytest.approx(2.0, abs=0.5) and abs(weights["length"]) < 0.3
    assert weights["span"] == 0.0  # the same everywhere, and infinite
    metrics = quote_metrics(fit, quotes)
    assert metrics["precision"] == pytest.approx(quote_fit.PRECISION, abs=0.02)
    assert metrics["right_auroc"] > 0.85 and metrics["quote_error"] < 0.1  # type: ignore[operator]
    assert 0 < metrics["right_shown"] < metrics["right"] < 1  # type: ignore[operator]
    assert fit_quotes([quote for quote in quotes if quote.right]) is None


def test_the_threshold_is_the_lowest_that_keeps_the_precision() -> None:
    probabilities = [1 - number / 100 for number in range(40)]
    labels = [number % 4 > 0 or number < 20 for number in range(40)]
    threshold = lowest_threshold(probabilities, labels)
    shown = [y for p, y in zip(probabilities, labels, strict=True) if p >= threshold]
    assert sum(shown) / len(shown) >= quote_fit.PRECISION
    assert lowest_threshold(probabilities, [False] * 40) == 1.0


def test_a_calibration_is_read_back_and_an_older_one_still_is() -> None:
    quote = QuoteCalibration({"lead": 1.5}, shift=-0.5, threshold=0.7)
    assert Calibration.from_dict(asdict(Calibration(2.0, quote=quote))) == Calibration(
        2.0, quote=quote
    )
    assert Calibration.from_dict({"scale": 2.0, "shift": 1.0}) == Calibration(2.0, 1.0)
    assert quote.probability(QuoteFeatures(0.0, lead=1.0)) == pytest.approx(0.731, abs=0.001)
    with pytest.raises(ValueError, match="it weighs luck, which nothing measures"):
        QuoteCalibration({"luck": 1.0})
