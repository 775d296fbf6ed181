"""Follow-up questions, such as "And who signs it?".

They are asked with the content words of the previous question behind them. With the whole previous
question in front, the model answers that one again (examples/LOG.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from drt_engine.text.words import content_words

_MOST_WORDS = 24
_LONGEST = 400  # characters; a longer question says enough
_FOLLOW_UP = re.compile(
    r"^\W*(and|but|so|or|then|what about|how about)\b"
    r"|\b(it|its|he|him|his|she|her|hers|they|them|their|theirs|that|this|these|those|there"
    r"|ones?)\b",
    re.IGNORECASE,
)


def in_context(question: str, turns: Sequence[Mapping[str, Any]]) -> str:
    """Return a question; a follow-up with the content words of the previous question behind it.

    ``turns`` are those of a conversation, oldest first.
    """
    # A request for a summary has no words that say what was talked about.
    questions = [turn["question"] for turn in turns if turn.get("mode") != "summary"]
    if not questions or len(question) > _LONGEST or not is_follow_up(question):
        return question
    previous = content_words(questions[-1])[:_MOST_WORDS]
    return f"{question} ({' '.join(previous)})"


def is_follow_up(question: str) -> bool:
    """Return whether a question may need the previous one: it opens with "and" or has a pronoun."""
    return _FOLLOW_UP.search(question) is not None
