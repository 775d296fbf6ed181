"""The probability that a quote is right: fitted on invented quotes, its threshold, its file."""

from __future__ import annotations

import random
from dataclasses import asdict, replace

import pytest

from drt_engine.model.calibration import Calibration, QuoteCalibration, QuoteFeatures, logistic
from drt_lab.evaluate import quote_fit
from drt_lab.evaluate.quote_fit import (
    JudgedQuestion,
    fit_quotes,
    lowest_threshold,
    quote_metrics,
)


def invented(count: int) -> list[JudgedQuestion]:
    """Words that are right where the lead is large, and sentences that are right more often.

    The length is noise. A verdict is right from 2 on.
    """
    rng = random.Random(3)
    questions = []
    for number in range(count):
        lead = rng.gauss(0, 2)
        words = QuoteFeatures(float("-inf"), lead=lead, length=rng.gauss(0, 1))
        luck = rng.random()
        forms = tuple(
            (features, luck < logistic(2 * lead + features.whole))
            for features in (words, words._replace(whole=1.0))
        )
        verdict = rng.uniform(-4, 4)
        yes_no = "yes" if (verdict > 0) == (abs(verdict) > 2) else "no"
        questions.append(JudgedQuestion(f"document {number % 40}", (forms,), yes_no, verdict))
    return questions


def test_documents_among_others_change_nothing_for_one_alone() -> None:
    questions = invented(400)
    rng = random.Random(4)
    shares = [rng.choice((0.0, -3.0)) for _ in questions]
    among = []
    for question, share in zip(questions, shares, strict=True):  # half of those of others are wrong
        words, right = question.candidates[0][0]
        right &= share == 0.0 or rng.random() < 0.5
        forms = ((words._replace(document=share), right),)
        among.append(replace(question, candidates=(forms,), among=True))
    alone, both = fit_quotes(questions), fit_quotes([*questions, *among])
    assert alone is not None and both is not None
    weights = dict(both.calibration.weights)
    assert weights.pop("document") > 0.1
    alone_weights = {n: w for n, w in alone.calibration.weights.items() if n != "document"}
    assert weights == alone_weights
    assert both.calibration.threshold == alone.calibration.threshold
    assert both.probabilities == alone.probabilities


def test_what_tells_right_quotes_is_weighed_and_the_promised_precision_is_kept() -> None:
    questions = invented(800)
    fit = fit_quotes(questions)
    assert fit is not None
    weights = fit.calibration.weights
    assert weights["lead"] == pytest.approx(2.0, abs=0.5) and abs(weights["length"]) < 0.3
    assert weights["span"] == 0.0  # the same everywhere, and infinite
    assert weights["whole"] == pytest.approx(1.0, abs=0.4)
    metrics = quote_metrics(fit)
    assert metrics["precision"] == pytest.approx(quote_fit.PRECISION, abs=0.02)
    assert metrics["right_auroc"] > 0.85 and metrics["quote_error"] < 0.1  # type: ignore[operator]
    assert 0 < metrics["right_shown"] < metrics["right"] < 1  # type: ignore[operator]
    assert fit.verdict == pytest.approx(2.0, abs=0.4)
    assert fit.calibration.span_threshold == quote_fit.SPAN_THRESHOLD
    all_right = [replace(q, candidates=(((q.candidates[0][0][0], True),),)) for q in questions]
    assert fit_quotes(all_right) is None and fit_quotes([]) is None


def test_the_most_probable_of_several_quotes_is_shown() -> None:
    rng = random.Random(4)
    questions = []
    for number in range(600):
        # The reader's first quote is often worse than its second one, which the lead tells.
        quotes = []
        for _ in range(2):
            lead = rng.gauss(0, 2)
            right = rng.random() < logistic(2 * lead)
            quotes.append(((QuoteFeatures(0.0, lead=lead), right),))
        questions.append(JudgedQuestion(f"document {number % 40}", tuple(quotes)))
    fit = fit_quotes(questions)
    assert fit is not None
    first = sum(question.candidates[0][0][1] for question in questions) / len(questions)
    assert sum(fit.right) / len(fit.right) > first + 0.15


@pytest.mark.thorough
def test_questions_that_state_their_type_alone_count_where_there_are_enough() -> None:
    typed = [replace(question, typed=True) for question in invented(400)]
    wrong = [
        replace(
            question,
            candidates=(tuple((features, False) for features, _ in question.candidates[0]),),
        )
        for question in invented(300)
    ]
    assert fit_quotes([*typed, *wrong]) == fit_quotes(typed)
    assert fit_quotes([*typed[:100], *wrong]) != fit_quotes(typed[:100])


def test_the_threshold_is_the_lowest_that_keeps_the_precision() -> None:
    probabilities = [1 - number / 100 for number in range(40)]
    labels = [number % 4 > 0 or number < 20 for number in range(40)]
    threshold = lowest_threshold(probabilities, labels, precision=0.8)
    assert threshold is not None
    shown = [y for p, y in zip(probabilities, labels, strict=True) if p >= threshold]
    assert sum(shown) / len(shown) >= 0.8
    assert lowest_threshold(probabilities, [False] * 40, precision=0.8) is None


def test_a_calibration_is_read_back_and_an_older_one_still_is() -> None:
    quote = QuoteCalibration({"lead": 1.5}, shift=-0.5, threshold=0.7)
    assert Calibration.from_dict(asdict(Calibration(2.0, quote=quote))) == Calibration(
        2.0, quote=quote
    )
    assert Calibration.from_dict({"scale": 2.0, "shift": 1.0}) == Calibration(2.0, 1.0)
    assert quote.probability(QuoteFeatures(0.0, lead=1.0)) == pytest.approx(0.731, abs=0.001)
    older = QuoteCalibration({"lead": 1.0}, span_threshold=0.85)
    near = replace(older, span_threshold=0.9, ranks=True)
    words, whole = QuoteFeatures(0.0, lead=1.8), QuoteFeatures(0.0, lead=2.0)
    assert near.choose([words, whole]) == (0, near.probability(words))
    assert (
        older.choose([words, whole])[0] == 0
        and older.choose([whole._replace(lead=1.0), words])[0] == 1
    )
    surer = QuoteFeatures(0.0, lead=4.0)
    assert near.choose([words, surer]) == (1, near.probability(surer))
    sentence = QuoteFeatures(0.0, lead=3.5)
    assert near.choose([words, sentence, surer]) == (1, near.probability(sentence))
    with pytest.raises(ValueError, match="it weighs luck, which nothing measures"):
        QuoteCalibration({"luck": 1.0})
