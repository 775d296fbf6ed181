"""Questions that lean on the one before, such as "And who signs it?".

They are asked with the words of the one before after them: with the whole of it in front, the model
answers the earlier question again (examples/LOG.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from drt_engine.text.words import content_words

_MOST_WORDS = 24
_LONGEST = 400  # characters; a longer question says enough
_LEANS = re.compile(
    r"^\W*(and|but|so|or|then|what about|how about)\b"
    r"|\b(it|its|he|him|his|she|her|hers|they|them|their|theirs|that|this|these|those|there"
    r"|ones?)\b",
    re.IGNORECASE,
)


def in_context(question: str, turns: Sequence[Mapping[str, Any]]) -> str:
    """Return the question as it is asked: where it leans, with words of the last one after it.

    ``turns`` are those of a conversation, oldest first.
    """
    if not turns or len(question) > _LONGEST or not leans(question):
        return question
    before = content_words(turns[-1]["question"])[:_MOST_WORDS]
    return f"{question} ({' '.join(before)})"


def leans(question: str) -> bool:
    """Say whether a question may need the one before: it opens with "and", or has a pronoun."""
    return _LEANS.search(question) is not None
