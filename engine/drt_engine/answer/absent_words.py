"""Names and numbers that a question has and a document never does, so that no quote answers.

"How does it compare with a Fibonacci heap?" of a text without Fibonacci, "in 1987" of one without
that year. Of 13,700 questions with an answer, 0.2 in 100 have such a word, many of them misspelt,
of 2,000 without one 2.3 in 100. Knows words alone.
"""

from __future__ import annotations

import re
import unicodedata

from drt_engine.text.words import word_set

LONGEST_TEXT = 2_000_000  # characters of a document that is searched
_SHORTEST, _LONG, _ROOT = 4, 6, 4  # letters of a name, of one that is cut, and what is left of it
_ALIKE = 3  # letters that two spellings of a name begin with
_HEADLINE, _MOST_CAPITALS = 4, 0.6  # words with a capital, and of all; with more it is a headline
_WORD = re.compile(r"(?P<end>[.?!:]\W{1,5})?(?P<word>[^\W_][^\W_'’-]*(?:['’-][^\W_]+)*)")
_SEVERAL = re.compile(r"\b[A-Z]\w+(?:[ -](?:of |the |for |and )?[A-Z]\w+){1,7}")
_PART = re.compile(r"[^\W_]+")
# Adjectives of places and peoples, for which a document may have the name, or another word
_PEOPLE = re.compile(r"(?i)(?:ish|ese|ian|ean|can|rench|utch|reek|erman)s?\Z")
_NUMBER = re.compile(r"(?<![\w.,$\u20ac\u00a3-])\d{3,}(?![\w%]|[.,-]\d)")
_DIGITS, _THOUSANDS = re.compile(r"\d+"), re.compile(r"(?<=\d),(?=\d{3})")
_DATES = word_set(
    """
    january february march april june july august september october november december
    monday tuesday wednesday thursday friday saturday sunday
    """
)


def numbers_in(question: str) -> list[str]:
    """Return the whole numbers of three digits and more: years, names of models, ports."""
    return _NUMBER.findall(question)


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
        if len(part) >= _SHORTEST and part[0].isupper() and not part.isupper()
        if not _PEOPLE.search(part) and part.lower() not in _DATES
    ]


def lacks_word(question: str, text: str) -> bool:
    """Return whether a text has not even the first letters of a name, or not a number."""
    if len(text) > LONGEST_TEXT:
        return False
    names = [name for name in names_in(question) if name not in _abbreviated(question, text)]
    lowered = text.lower() if names else ""
    absent = [root for root in map(_root, names) if root not in lowered]
    return (bool(absent) and _lacks_all_forms(absent, lowered)) or _lacks_number(question, text)


def _lacks_all_forms(roots: list[str], lowered: str) -> bool:
    """Return whether a root is nowhere without accents, either, nor begins a word alike.

    What is misspelt mostly begins as it should.
    """
    folded = _folded(lowered)
    starts = {word[:_ALIKE] for word in _PART.findall(folded)}
    return any(root not in folded and root[:_ALIKE] not in starts for root in roots)


def _abbreviated(question: str, text: str) -> set[str]:
    """Return the words of names whose initials a text has: "WHO" for World Health Organization."""
    words: set[str] = set()
    for match in _SEVERAL.finditer(question):
        parts = [part for part in _PART.findall(match[0]) if part[0].isupper()]
        parts = parts[match.start() == 0 :]  # what begins a question is no name for sure
        initials = "".join(part[0] for part in parts)
        if re.search(rf"\b{initials}\b|\b{r'[.]'.join(initials)}[.]", text):
            words.update(parts)
    return words


def _lacks_number(question: str, text: str) -> bool:
    """Return whether a text lacks a number, which it may write as 1,995, or a year as '95."""
    absent = [number for number in numbers_in(question) if number not in text]
    if not absent:
        return False
    written = set(_DIGITS.findall(_THOUSANDS.sub("", text)))
    return any(number not in written and number[-2:] not in written for number in absent)


def _root(name: str) -> str:
    folded = _folded(name.lower()).removesuffix("s")
    return folded[:_ROOT] if len(folded) >= _LONG else folded


def _folded(text: str) -> str:
    """Return lower-case text without accents."""
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
