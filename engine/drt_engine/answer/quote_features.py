"""What tells whether a quote that is shown is right: the features of its calibrated probability.

Knows the judgement of the reader and plain text; knows nothing of libraries.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from drt_engine.answer.grain import OPEN_TYPES
from drt_engine.answer.judge import Judgement
from drt_engine.answer.quote import QuoteSpan
from drt_engine.model.calibration import QuoteFeatures, log_odds
from drt_engine.results import Citation
from drt_engine.text.words import content_words

_NUMERIC_TYPES, _NAMED_TYPES = ("number", "when"), ("who", "where")
_NUMBER = re.compile(
    r"(?i)\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|\w+ty|hundred"
    r"|thousand|million|half|quarter|once|twice|none|no|first|second|third|monday|tuesday|wednesday"
    r"|thursday|friday|saturday|sunday|january|february|march|april|may|june|july|august|september"
    r"|october|november|december|spring|summer|autumn|winter|day|night|morning|evening)\b"
)
_NAME = re.compile(r"\b[A-Z]")
_LEAST_SHARE = 1e-6
_LONGEST_LEAD = 8.0  # log of votes; beyond, the other answers have none to speak of


def quote_features(
    judgement: Judgement,
    question: str,
    citation: Citation,
    span: QuoteSpan,
    *,
    whole: bool,
    document: float,
) -> QuoteFeatures:
    """Return the features of the quote of a ``citation``, which a ``span`` was made into.

    ``whole`` says that it is a sentence or a list and not only the words of the span. ``document``
    is the retrieval probability of all passages of its document.
    """
    quotes, passages = judgement.quotes, judgement.passages
    at = next((n for n, p in enumerate(passages) if p.row.id == span.passage.row.id), 0)
    evidence = judgement.evidence[at] if judgement.evidence else 0.0
    other_evidence = [value for n, value in enumerate(judgement.evidence) if n != at]
    share, runner_up = quotes.votes_of(span)
    start_within, end_within = quotes.within(citation.document, citation.start, citation.end)
    question_words, quote_words = set(content_words(question)), set(content_words(citation.quote))
    return QuoteFeatures(
        span=judgement.signals.span,
        share=log_odds(share),
        lead=_lead(share, runner_up),
        passage=log_odds(judgement.start_shares[at]) if judgement.start_shares else 0.0,
        retrieval=math.log(max(span.passage.probability, _LEAST_SHARE)),
        evidence=evidence,
        evidence_lead=evidence - max(other_evidence, default=evidence),
        answerable=log_odds(judgement.confidence),
        coverage=_coverage(question_words, set(content_words(citation.sentence))),
        echo=_coverage(quote_words, question_words),
        length=math.log1p(len(citation.quote.split())),
        agreement=_agreement(citation.quote, judgement.types),
        open_type=sum(judgement.types.get(name, 0.0) for name in OPEN_TYPES),
        whole=float(whole),
        within=(log_odds(start_within) + log_odds(end_within)) / 2,
        memory=judgement.memory[at] if judgement.memory else 0.0,
        document=math.log(min(1.0, max(document, _LEAST_SHARE))),
    )


def is_repeated(quote: str, question: str) -> bool:
    """Return whether a question has every content word of a quote."""
    return _coverage(set(content_words(quote)), set(content_words(question))) == 1.0


def _lead(share: float, runner_up: float) -> float:
    if not runner_up:
        return _LONGEST_LEAD
    return min(_LONGEST_LEAD, math.log(max(share, _LEAST_SHARE) / runner_up))


def _coverage(part: set[str], whole: set[str]) -> float:
    """Return the share of the words in ``part`` that are in ``whole``, too."""
    return len(part & whole) / len(part) if part else 0.0


def _agreement(quote: str, types: Mapping[str, float]) -> float:
    """Return how likely a type is that expects a number or a name, negative where it lacks one."""
    numeric = sum(types.get(name, 0.0) for name in _NUMERIC_TYPES)
    named = sum(types.get(name, 0.0) for name in _NAMED_TYPES)
    return (numeric if _NUMBER.search(quote) else -numeric) + (
        named if _NAME.search(quote) else -named
    )
