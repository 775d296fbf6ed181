"""The second half of ``drt eval calibrate``: how likely the quote that is shown is right.

A logistic map over ``QuoteFeatures`` is fitted to both forms (the words, and the sentence or list
around them) of every quote that might be shown, for all questions, answerable or not; the most
probable quote of a question is shown. Where enough questions state the type of answer that
they expect, as those that were asked for whole documents do, they alone count: in questions about
single paragraphs, short quotes are right more often, and sentences less, than readers will see.
From its threshold on, ``PRECISION`` of the quotes shown as answers are right, measured on documents
that the fit had not seen.

All of that is fitted to documents that are asked by themselves. Questions of documents among others
then weigh the one feature that is 0 without others, and nothing changes for a document alone.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from drt_engine.model.calibration import QuoteCalibration, QuoteFeatures, log_odds
from drt_lab.evaluate.library import mean
from drt_lab.evaluate.metrics.auroc import auroc
from drt_lab.evaluate.metrics.logistic import fit_beside, fit_logistic
from drt_lab.evaluate.metrics.reliability import expected_error, reliability
from drt_lab.evaluate.qa import JudgedForms
from drt_lab.evaluate.report import Metrics

PRECISION = 0.85  # of the quotes that are shown as answers, how many are to be right
# Words are shown without the sentence around them where they are as probable but for 1 in 20. Of
# 827 questions (cross-validated) as many are right as with words from a probability of 0.84 on,
# and 27 in place of 21 in 100 quotes are words.
SPAN_THRESHOLD = 0.95
VERDICT_PRECISION = 0.9  # of "yes" and "no", which stand for themselves
_LEAST_SHOWN = 10  # that tell a precision
LEAST_TYPED = 200  # questions that state their type, for a fit to them alone
_PARTS = 5  # of the documents; each is judged by a fit to the others


@dataclass(frozen=True)
class JudgedQuestion:
    """A question of a document, with the features of the quotes that might be shown, in each form.

    Each form has whether it is right. ``yes_no`` is the answer to a yes-or-no question, empty for
    others, ``verdict`` the log-odds of yes. ``typed`` says that the data states the type of answer,
    ``among`` that it was asked of a library of other documents, too.
    """

    document: str
    candidates: tuple[JudgedForms, ...]
    yes_no: str = ""
    verdict: float = 0.0
    typed: bool = False
    among: bool = False


@dataclass(frozen=True)
class QuoteFit:
    """A calibration; of each question, what is shown by fits that had not seen its document.

    ``probabilities`` are those of the shown quotes, ``right`` says which of them are; ``verdict``
    is the least log-odds of a sure "yes" or "no", ``None`` where there is none.
    """

    calibration: QuoteCalibration
    probabilities: tuple[float, ...]
    right: tuple[bool, ...]
    verdict: float | None


def fit_quotes(questions: Sequence[JudgedQuestion]) -> QuoteFit | None:
    """Fit the probability that a quote is right; ``None`` where all are alike."""
    typed = [question for question in questions if question.typed]
    if len(typed) >= LEAST_TYPED:
        questions = typed
    among = [question for question in questions if question.among]
    questions = [question for question in questions if not question.among]
    full_fit = _fit(questions)
    if full_fit is None:
        return None
    parts = [zlib.crc32(question.document.encode()) % _PARTS for question in questions]
    fits = [
        _fit([q for q, part in zip(questions, parts, strict=True) if part != left_out]) or full_fit
        for left_out in range(_PARTS)
    ]
    shown = [_shown(fits[part], question) for question, part in zip(questions, parts, strict=True)]
    probabilities, right = (tuple(values) for values in zip(*shown, strict=True))
    threshold = lowest_threshold(probabilities, right, precision=PRECISION)
    verdicts = [
        (abs(question.verdict), (question.verdict > 0) == (question.yes_no == "yes"))
        for question, probability in zip(questions, probabilities, strict=True)
        if question.yes_no and threshold is not None and probability >= threshold
    ]
    verdict = lowest_threshold(
        [size for size, _ in verdicts],
        [label for _, label in verdicts],
        precision=VERDICT_PRECISION,
    )
    calibration = QuoteCalibration(
        {**full_fit.weights, **_weight_of_document(full_fit, among)},
        full_fit.shift,
        1.0 if threshold is None else threshold,
        SPAN_THRESHOLD,
        ranks=True,
    )
    return QuoteFit(calibration, probabilities, right, verdict)


def _fit(questions: Sequence[JudgedQuestion]) -> QuoteCalibration | None:
    forms = [form for question in questions for quote in question.candidates for form in quote]
    labels = [label for _, label in forms]
    if len(set(labels)) < 2:
        return None
    weights, offset = fit_logistic([features.bounded() for features, _ in forms], labels)
    # Without a decoder nothing is known of its weight, which is not 0.
    named = {
        name: weight
        for name, weight in zip(QuoteFeatures._fields, weights, strict=True)
        if weight or name != "memory"
    }
    return QuoteCalibration(named, offset, span_threshold=SPAN_THRESHOLD)


def _weight_of_document(
    fit: QuoteCalibration, questions: Sequence[JudgedQuestion]
) -> dict[str, float]:
    """Return the weight of ``document`` beside a fit, from questions of documents among others."""
    forms = [form for question in questions for quote in question.candidates for form in quote]
    if not forms:
        return {}
    (weight,) = fit_beside(
        [[features.document] for features, _ in forms],
        [label for _, label in forms],
        [log_odds(fit.probability(features._replace(document=0.0))) for features, _ in forms],
    )
    return {"document": weight}


def _shown(fit: QuoteCalibration, question: JudgedQuestion) -> tuple[float, bool]:
    """Return how likely the quote that would be shown is right, and whether it is."""
    shown = []
    for forms in question.candidates:
        number, probability = fit.choose([features for features, _ in forms])
        shown.append((probability, forms[number][1]))
    return max(shown, key=lambda place: place[0])


def lowest_threshold(
    scores: Sequence[float], labels: Sequence[bool], *, precision: float
) -> float | None:
    """Return the lowest score from which on a share of ``precision`` is right, or ``None``."""
    threshold, right = None, 0
    ranking = sorted(zip(scores, labels, strict=True), reverse=True)
    for number, (score, label) in enumerate(ranking, start=1):
        right += label
        if number >= _LEAST_SHOWN and right / number >= precision:
            threshold = score
    return threshold


def quote_metrics(fit: QuoteFit) -> Metrics:
    """Return what the probabilities are worth on documents that they were not fitted to."""
    threshold = fit.calibration.threshold
    shown = [
        label
        for label, probability in zip(fit.right, fit.probabilities, strict=True)
        if probability >= threshold
    ]
    return {
        "quote_threshold": threshold,
        "verdict_threshold": fit.verdict,
        "right_auroc": auroc(fit.probabilities, fit.right),
        "precision": mean(map(float, shown)),
        "shown": len(shown) / len(fit.right),
        "right": sum(fit.right) / len(fit.right),
        "right_shown": sum(shown) / len(fit.right),
        "quote_error": expected_error(reliability(fit.probabilities, fit.right)),
        "n_quotes": len(fit.right),
    }
