"""Finds the term of a glossary whose definition a question gives: "What is the word for a quay?".

Knows lines "Term: definition", "Term - definition", rows of two cells, and terms on a line of their
own with the definition below. Knows nothing of models and libraries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from drt_engine.answer.tables.conditions import negations, tokens_of
from drt_engine.answer.tables.table_question import NUMBERS
from drt_engine.answer.tables.wording import stem, table_words
from drt_engine.text.sentences import Span
from drt_engine.text.words import STOP_WORDS, word_set

_FEWEST = 3  # entries of one form
_LEAST_WORDS, _SHORT = 2, 6  # of a definition that a question has; of a whole short one, one does
_LONGEST_TERM, _LONGEST_DEFINITION = 60, 500  # characters
_ASKS = re.compile(
    r"(?i)\W*(?:(?:what|which)(?: is| was|'s|\u2019s)? (?:the |a )?(?:\w+ )?"
    r"(?:name|term|word|expression|abbreviation|placeholder|symbol|acronym) (?:for|given to|means?)"
    r"|what (?:do you|do we|does one|do they) call|(?P<plain>(?:how|what) is|what are))"
    r"\s+(?P<words>.+)"
)
_CALLED = re.compile(r"(?i)\s+(?:called|named)\W*\Z")
_GENERAL = word_set("thing things something someone somebody person people kind type sort name")
_TERM = rf"(?P<term>[^\W_%][^:|*`\n\u2013\u2014]{{0,{_LONGEST_TERM - 2}}}|%\S)"
_DEFINITION = rf"(?P<definition>\S[^\n]{{0,{_LONGEST_DEFINITION}}})"
_MARK = r"^[ \t]*(?:[-*+\u2022][ \t]+)?[*_`]{0,3}"
_FORMS = (
    re.compile(rf"(?m){_MARK}{_TERM}(?<=\S)[*_`]{{0,3}}:[*_`]{{0,3}}[ \t]+{_DEFINITION}$"),
    re.compile(
        rf"(?m){_MARK}{_TERM}(?<=\S)[*_`]{{0,3}}[ \t]+[-\u2013\u2014]{{1,2}}[ \t]+{_DEFINITION}$"
    ),
    re.compile(rf"(?m)^\|?[ \t]*{_TERM}(?<=\S)[ \t]*\|[ \t]*{_DEFINITION}$"),
    # Alone on its line, with the definition below, indented or behind a colon, or after a gap.
    re.compile(rf"(?m)^{_TERM}(?<=[^\s.,;!?])\n(?::[ \t]+|[ \t]{{2,}}){_DEFINITION}$"),
    re.compile(rf"(?m)^{_TERM}(?<=[^\s.,;!?])\n\n(?={_DEFINITION}(?:\n\n|\Z))"),
)
_MOST_TERM_WORDS, _FEWEST_WORDS = 5, 3


def asks_term(question: str) -> bool:
    """Return whether a question asks what something is called, and says what that is."""
    return bool(_definition(question))


def term_of(question: str, text: str) -> Span | None:
    """Return the characters of the one term whose definition has all words of a question's.

    None where the question asks for no term, and where several entries or none fit.
    """
    asked = _definition(question)
    if not asked or negations(tokens_of(question)):
        return None
    spans = set()
    for form in _FORMS:
        entries = list(_entries(form, text))
        if len(entries) < _FEWEST:
            continue
        for match in entries:
            words = _stems(match["definition"])
            enough = len(asked) >= _LEAST_WORDS or len(words) <= _SHORT
            if enough and asked <= words and not asked & _stems(match["term"]):
                spans.add(match.span("term"))
    return spans.pop() if len(spans) == 1 else None


def _definition(question: str) -> frozenset[str]:
    """Return the stems of the words that describe what a question asks the name of."""
    match = _ASKS.match(" ".join(question.split()))
    if match is None:
        return frozenset()
    words, is_called = _CALLED.subn("", match["words"])
    if match["plain"] and not is_called:
        return frozenset()  # "What is a quay?"
    return _stems(words) - {stem(word) for word in _GENERAL}


def _stems(text: str) -> frozenset[str]:
    """Return the stems of the content words of a text; how many of something is content."""
    return frozenset(
        stem(word) for word in table_words(text) if word not in STOP_WORDS or word in NUMBERS
    )


def _entries(form: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    for match in form.finditer(text):
        longer = len(match["definition"].split()) >= _FEWEST_WORDS
        if longer and len(match["term"].split()) <= _MOST_TERM_WORDS:
            yield match
