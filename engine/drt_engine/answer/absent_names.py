"""Names that a question has and a document never does, so that no quote of it answers.

"How does it compare with a Fibonacci heap?" of a text without Fibonacci. Of 13,700 questions that
have an answer, 0.4 in 100 have such a name, most of them misspelt. Knows words alone.
"""

from __future__ import annotations

import re
import unicodedata

from drt_engine.text.words import word_set

_LONGEST_TEXT = 2_000_000  # characters of a document that is searched
_SHORTEST, _LONG, _ROOT = 4, 6, 4  # letters of a name, of one that is cut, and what is left of it
_HEADLINE, _MOST_CAPITALS = 4, 0.6  # words with a capital, and of all; with more it is a headline
_WORD = re.compile(r"(?P<end>[.?!:]\W{1,5})?(?P<word>[^\W_][^\W_'’-]*(?:['’-][^\W_]+)*)")
_PART = re.compile(r"[^\W_]+")
# Adjectives of places and peoples, for which a document has the name, or another word
_PEOPLE = re.compile(r"(?i)(?:ish|ese|ian|ean|can|rench|utch|reek|erman)s?\Z")
_DATES = word_set(
    """
    january february march april june july august september october november december
    monday tuesday wednesday thursday friday saturday sunday
    """
)


def names_in(question: str) -> list[str]:
    """Return the words with a capital within the sentences of a question, as names have them."""
    words = list(_WORD.finditer(question))
    capitals = sum(match["word"][0].isupper() for match in words)
    if capitals >= _HEADLINE and capitals > _MOST_CAPITALS * len(words):
        return []
    parts = (
        part
        for match in words[1:]
        if match["word"][0].isupper() and not match["end"]
        for part in _PART.findall(match["word"])
    )
    return [
        part
        for part in parts
        if len(part) >= _SHORTEST and part[0].isupper() and not _PEOPLE.search(part)
        if part.lower() not in _DATES
    ]


def lacks_name(question: str, text: str) -> bool:
    """Return whether a question has a name of which a text has not even the first letters."""
    names = names_in(question) if len(text) <= _LONGEST_TEXT else []
    lowered = text.lower() if names else ""
    absent = [root for root in map(_root, names) if root not in lowered]
    folded = _folded(lowered) if absent else ""
    return any(root not in folded for root in absent)


def _root(name: str) -> str:
    folded = _folded(name.lower()).removesuffix("s")
    return folded[:_ROOT] if len(folded) >= _LONG else folded


def _folded(text: str) -> str:
    """Return lower-case text without accents."""
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
