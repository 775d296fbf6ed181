"""The answer to one question, with its evidence."""

from __future__ import annotations

from dataclasses import dataclass

from drt_engine.model.calibration import NO_EVIDENCE, QuoteFeatures, Signals
from drt_engine.results import AnswerState, Citation, Origin, ScanInfo, Trace

# Origins whose answers nothing calibrates.
LOOKED_UP: tuple[Origin, ...] = ("metadata", "table")


@dataclass(frozen=True)
class QuoteCandidate:
    """A quote of a document that might be the answer, with what its probability is made from."""

    document: str
    quote: str
    features: QuoteFeatures


@dataclass(frozen=True)
class AnswerResult:
    """An answer with its evidence.

    When ``found`` is false, ``text`` is empty and ``citations`` holds one or two places: likely to
    hold the answer where ``likely`` says so, otherwise the closest. ``quote_probability`` is how
    likely the first citation is right, ``None`` for what was looked up; ``passage`` is the text
    around it, ``second_passage`` that around the second place; ``verdict`` is "yes" or "no" where
    the question asks for it and the model is sure; ``hint`` is a sentence about why nothing was
    found or what else to ask. For calibration: ``candidates`` are the forms of each quote
    that might have been shown, ``answer_type`` is what the reader took the question for, and
    ``verdict_score`` the log-odds of yes. ``scan`` is what was scanned, where it might have been
    approximate. ``origin`` is the source that proposed the answer.
    """

    text: str
    found: bool
    confidence: float
    mode: str
    citations: tuple[Citation, ...]
    tokens_read: int
    trace: Trace
    signals: Signals = NO_EVIDENCE
    likely: bool = False
    quote_probability: float | None = None
    passage: str = ""
    second_passage: str = ""
    candidates: tuple[tuple[QuoteCandidate, ...], ...] = ()
    verdict: str | None = None
    hint: str = ""
    answer_type: str = ""
    verdict_score: float = 0.0
    scan: ScanInfo | None = None
    origin: Origin = "reader"

    @property
    def state(self) -> AnswerState:
        """What was made of the question."""
        return answer_state(found=self.found, likely=self.likely)


def answer_state(*, found: bool, likely: bool) -> AnswerState:
    """Return the state of an answer; one that was found is "answer", likely or not."""
    if found:
        return "answer"
    return "likely" if likely else "none"
