"""Words: lower-case runs of letters and digits, English stop words, and word borders of a span.

Knows nothing of sentences, tokens or files.
"""

from __future__ import annotations

import re


def word_set(text: str) -> frozenset[str]:
    """Return the words of a list that is written as text with white space."""
    return frozenset(text.split())


# Function words, and what is left of contractions once the apostrophe has split them ("didn", "t").
STOP_WORDS = word_set(
    """
    a about above after again against all also am an and any are aren as at be because been
    before being below between both but by can cannot could couldn d did didn do does doesn
    doing don down during each either else ever few for from further had hadn has hasn have
    haven having he her here hers herself him himself his how however i if in into is isn it
    its itself just ll m may me might more most must my myself neither no nor not now of off
    on once only or other our ours ourselves out over own re s same shall she should shouldn
    since so some such t than that the their theirs them themselves then there these they
    this those through to too under until up upon us ve very was wasn we were weren what
    when where whether which while who whom whose why will with within without won would
    wouldn yet you your yours yourself yourselves
    """
)

_WORD = re.compile(r"[^\W_]+")
_SHORT_PLURAL = re.compile(r"[a-z]{2}[^sxzh]es")  # "names", which is no "nam"
_DOUBLED = re.compile(r"[a-z]{2}([bdgmnprt])\1\Z")  # "dropped" is of "drop", but "added" of "add"
_LONG_ENOUGH = 4  # letters before an "e" that may be an ending: "state", but not "rate"


def words(text: str) -> list[str]:
    """Return the lower-case words: runs of letters and digits, so "Ann's" gives "ann", "s"."""
    return _WORD.findall(text.lower())


def content_words(text: str) -> list[str]:
    """Return the words that are no stop words, or all words of a text that has only stop words."""
    all_words = words(text)
    return [word for word in all_words if word not in STOP_WORDS] or all_words


def stem(word: str) -> str:
    """Return a word without its commonest English endings, for comparing two words.

    The last "e" of what is long enough is no part of it: "earthquake" and "earthquakes" are one.
    """
    if _SHORT_PLURAL.fullmatch(word):
        return word[:-1]
    for ending in ("ing", "ies", "es", "s", "ed", "y", "e"):
        least = _LONG_ENOUGH if ending == "e" else 3
        if word.endswith(ending) and len(word) - len(ending) >= least:
            bare = word[: -len(ending)]
            return bare[:-1] if ending in ("ing", "ed") and _DOUBLED.search(bare) else bare
    return word


def whole_words(text: str, start: int, end: int) -> tuple[int, int]:
    """Grow ``start:end`` so that it cuts no word and no number such as 6,120 or 07:45 or 8.5."""
    while start > 0 and _inside_word(text, start):
        start -= 1
    while end < len(text) and _inside_word(text, end):
        end += 1
    return start, end


def strip_lone_marks(text: str, start: int, end: int) -> tuple[int, int]:
    """Shrink ``start:end`` by a quotation mark at one of its ends whose other one is outside."""
    for mark in ('"', "`"):
        if end - start > 1 and text.count(mark, start, end) == 1:
            end -= text[end - 1] == mark
            start += text[start] == mark
    return start, end


def _inside_word(text: str, position: int) -> bool:
    """Return whether the characters on both sides of a position belong to one word or number."""
    before, after = text[position - 1 : position], text[position : position + 1]
    if before.isalnum() and after.isalnum():
        return True
    # A sign between two digits is part of the number, seen from its left or from its right.
    if before.isdigit() and after in ",.:/" and after:
        return text[position + 1 : position + 2].isdigit()
    if after.isdigit() and before in ",.:/" and before:
        return text[position - 2 : position - 1].isdigit()
    return False
