"""Answers a question for a field of a document's header by the field's name.

Headers are the lines ``Name: value`` that front matter, package metadata, mails and standards begin
with: "Which Python version is required?" names ``Requires-Python``. Knows plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from drt_engine.answer.metadata.values import HEAD, Value
from drt_engine.answer.tables.wording import same_word
from drt_engine.text.words import content_words, word_set, words

_FIELD = re.compile(r":?(?P<key>[A-Za-z][\w-]*(?: [\w-]+){0,2}):[ \t]+(?P<value>\S.*)")
_RECORD = re.compile(r" \| [^:|]{1,80}: ")  # rows of a table have fields, too
_FENCE = re.compile(r"\s*(?:---|\+\+\+)?\s*")
_LEAST_FIELDS = 3  # names that a header has
_MOST_VALUES = 8  # of one name
_EMPTY = word_set("unknown none null n/a")
# Words of asking, and for a document: "the value of the field", "of this package".
_FILLERS = word_set(
    """
    value field number version file document package project page library paper text header entry
    listed given stated named called used use uses set
    """
)
_NO_FIELD = re.compile(
    r"(?i)\W*(?:is|are|was|were|do|does|did|has|have|can|may|must|should|why|how)\b"
    r"|.*\b(?:mean|means|about|say|says)\b"
)
_WHO = re.compile(r"(?i)\W*(?:who|whom|whose)\b")
_ROLE = re.compile(r"[a-z]{3,}(?:er|or)s?\b")  # "maintainer", which names what a person does
# Words that a name may have and a question leave out: "Maintainer-email", "License-Expression".
_KINDS_OF_VALUE = word_set("email mail url expression name")
_SPELLINGS = {"licence": "license", "licences": "licenses", "homepage": "home page"}


def header_values(question: str, text: str, title: str) -> list[Value]:
    """Return the values of the field that a question names, in the header a ``text`` begins with.

    Every word of the name is in the question, and every word of the question in the name, in the
    ``title``, or one of asking. Empty where there is no such field, or no header.
    """
    asked = _words(question)
    if not asked or _NO_FIELD.match(question):
        return []
    known = _words(title) | _FILLERS
    fields = list(_fields(text[:HEAD]))
    if len({key.lower() for key, _ in fields}) < _LEAST_FIELDS:
        return []
    named: dict[str, list[Value]] = {}
    for key, value in fields:
        if value.text.lower() not in _EMPTY and _is_named(_words(key), asked, known):
            named.setdefault(key.lower(), []).append(value)
    if len(named) != 1:
        return []
    ((key, values),) = named.items()
    is_person = not _WHO.match(question) or _ROLE.match(key) is not None
    return values[:_MOST_VALUES] if is_person else []


def _words(text: str) -> frozenset[str]:
    spelled = (_SPELLINGS.get(word, word) for word in words(text))
    return frozenset(content_words(" ".join(spelled)))


def _is_named(name: frozenset[str], asked: frozenset[str], known: frozenset[str]) -> bool:
    """Return whether a question's words are those of a name, and others that are ``known``."""
    needed = name - _KINDS_OF_VALUE or name
    rest = [word for word in asked if not _has(name, word)]
    return (
        bool(needed)
        and all(_has(asked, part) for part in needed)
        and all(_has(known, word) for word in rest)
    )


def _has(some_words: frozenset[str], word: str) -> bool:
    """Return whether a word is among others, whatever their endings."""
    return any(
        same_word(word, other) or word in (f"{other}s", f"{other}d") or other == f"{word}s"
        for other in some_words
    )


def _fields(text: str) -> Iterator[tuple[str, Value]]:
    """Yield the names and values of the lines that a text begins with, up to another line.

    Indented lines go on with a value, which is cited by its first line.
    """
    start = 0
    for number, line in enumerate(text.split("\n")):
        match = _FIELD.match(line)
        if match and not _RECORD.search(line):
            value = match["value"].rstrip()
            at = start + match.start("value")
            yield match["key"], Value(value, at, at + len(value))
        elif not (line[:1] in (" ", "\t") and line.strip()) and (number or not _FENCE.match(line)):
            return
        start += len(line) + 1
