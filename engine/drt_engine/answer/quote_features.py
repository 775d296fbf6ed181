"""What tells whether a quote that is shown is right: the features of its calibrated probability.

Knows the judgement of the reader and plain text; knows nothing of libraries.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from drt_engine.answer.judge import Judgement
from drt_engine.model.calibration import QuoteFeatures, log_odds
from drt_engine.text.words import content_words

# Types that a clause, a sentence or several places answer; a short span of them is rarely right.
OPEN_TYPES = ("definition", "why", "how", "yesno", "list", "compare")
_NUMERIC_TYPES, _NAMED_TYPES = ("number", "when"), ("who", "where")
_NUMBER = re.compile(
    r"(?i)\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|\w+ty|hundred"
    r"|thousand|million|half|quarter|once|twice|none|no|first|second|third|monday|tuesday|wednesday"
    r"|thursday|friday|saturday|sunday|january|february|march|april|may|june|july|august|september"
    r"|october|november|december|spring|summer|autumn|winter|day|night|morning|evening)\b"
)
_NAME = re.compile(r"\b[A-Z]")
_LONGEST_LEAD = 8.0  # log of votes; beyond, the other answers have none to speak of


def quote_features(judgement: Judgement, question: str, quote: str, sentence: str) -> QuoteFeatures:
    """Return the features of a ``quote``, which stands in ``sentence``, for a question.

    The quote is the judgement's first span, or was made of it.
    """
    quotes, passages = judgement.quotes, judgement.passages
    chunk_id = quotes.spans[0].passage.row.id if quotes.spans else None
    at = next((n for n, passage in enumerate(passages) if passage.row.id == chunk_id), 0)
    others = [value for n, value in enumerate(judgement.evidence) if n != at]
    evidence = judgement.evidence[at] if judgement.evidence else 0.0
    question_words, quote_words = set(content_words(question)), set(content_words(quote))
    shares = judgement.start_shares
    return QuoteFeatures(
        span=judgement.signals.span,
        share=log_odds(quotes.vote_share),
        lead=_lead(quotes.vote_share, quotes.runner_up),
        passage=log_odds(shares[at]) if shares else 0.0,
        retrieval=math.log(max(passages[at].probability, 1e-6)) if passages else 0.0,
        evidence=evidence,
        evidence_lead=evidence - max(others, default=evidence),
        answerable=log_odds(judgement.confidence),
        coverage=_coverage(question_words, set(content_words(sentence))),
        echo=_coverage(quote_words, question_words),
        length=math.log1p(len(quote.split())),
        agreement=_agreement(quote, judgement.types),
        open_type=sum(judgement.types.get(name, 0.0) for name in OPEN_TYPES),
    )


def _lead(share: float, runner_up: float) -> float:
    if not runner_up:
        return _LONGEST_LEAD
    return min(_LONGEST_LEAD, math.log(max(share, 1e-6) / runner_up))


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
