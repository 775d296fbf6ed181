"""Questions for a release of a change log: by its version or its date, the last or the first one.

"When was 0.34 released?", "Which version came out in May 2020?", "What is the latest release?"; and
what is left of "In which version was .. added?" for the notes of the releases. Knows nothing of
models and libraries.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from drt_engine.answer.lists.release_lists import release_at, releases
from drt_engine.answer.metadata.values import DATE
from drt_engine.answer.tables.values import comparable
from drt_engine.answer.tables.wording import table_words
from drt_engine.text.sentences import Span
from drt_engine.text.words import STOP_WORDS, word_set

_VERSION = re.compile(
    r"(?<![\w.])[vV]?(?P<number>\d{1,4}(?:\.\d{1,6}){1,3}"
    r"(?:[-.]?(?i:rc|alpha|beta|a|b|dev|post)[-.]?\d{0,4})?)(?![\w-]|\.\d)"
)
_ASKS_DATE = re.compile(r"(?i)\W*(?:when|how old)\b|\b(?:date|day)\b")
_ASKS_VERSION = re.compile(r"(?i)\b(?:versions?|releases?)\b")
_AUXILIARY = r"(?:was|were|is|are|has|have|had|did|does|do|can|could)\b"
_ASKS_IN = re.compile(
    r"(?i)\W*(?:in|since|with|from|by|as of|until) (?:which|what) (?:version|release)s? "
    rf"(?={_AUXILIARY})"
)
_ASKS_WHICH = re.compile(
    r"(?i)\W*(?:which|what) (?:version|release)s? "
    rf"(?!{_AUXILIARY}|(?:of|number|came|comes)\b)(?=\w)"
)
_ASKS_WHEN = re.compile(
    r"(?i)\W*when (?=(?:was|were|did|has|have)\b.*\b(?:add(?:ed)?|removed?|fix(?:ed)?"
    r"|introduced?|deprecated?|drop(?:ped)?|changed?|renamed?|replaced?|start(?:ed)?"
    r"|stop(?:ped)?|became|become|gain(?:ed)?|support(?:ed)?|rewritten)\b)"
)
_NEWEST = word_set("latest newest last recent current")
_OLDEST = word_set("first oldest earliest initial")
_ASKING = (
    _NEWEST
    | _OLDEST
    | word_set(
        """
        when which what version versions release releases released publish published publication
        issue issued tag tagged come came comes out date day number name new made appear appeared
        one old there program software package library change changes log changelog history news
        note notes
        """
    )
)


def release_span(
    question: str, text: str, context: Collection[str] = (), *, whole: bool = True
) -> Span | None:
    """Return where the date of a version stands, or the version of a date, the last or the first.

    ``context`` are words of what the document is called. None where the question says more, or
    where several releases fit; the last and the first are those of a ``whole`` text.
    """
    date = DATE.search(question)
    version = _VERSION.search(_masked(question))
    asked = set(table_words(_VERSION.sub(" ", DATE.sub(" ", question)))) - STOP_WORDS
    if asked - _ASKING - set(context):
        return None
    listed = releases(text)
    dated = [(comparable(text[slice(*r.date)]), r) for r in listed if r.date]
    if version and not date and _ASKS_DATE.search(question):
        number = version["number"].lower()
        return _only([r.date for _, r in dated if text[slice(*r.version)].lower() == number])
    if version or not _ASKS_VERSION.search(question):
        return None
    if date:
        return _only([r.version for on, r in dated if _is_of(on, comparable(date[0]))])
    ends = [pick for pick, words in ((max, _NEWEST), (min, _OLDEST)) if asked & words]
    if not (whole and dated and len(ends) == 1):
        return None
    end = ends[0](on for on, _ in dated)
    # Change logs are in order; within the list, releases without a date are newer or older.
    return _only([r.version for on, r in dated if on == end and r in (listed[0], listed[-1])])


def asks_for_release(question: str) -> bool:
    """Return whether a question may be one that ``release_span`` answers."""
    has_version = _VERSION.search(_masked(question)) is not None
    return bool((_ASKS_DATE if has_version else _ASKS_VERSION).search(question))


def has_versions(question: str, text: str) -> bool:
    """Return whether a text has all versions that a question names."""
    return all(
        re.search(rf"(?<![\w.])[vV]?{re.escape(match['number'])}(?![\w]|\.\d)", text)
        for match in _VERSION.finditer(_masked(question))
    )


def asks_when(question: str) -> bool:
    """Return whether a question asks when something was changed, and not in which release."""
    return _ASKS_WHEN.match(question) is not None


def without_release(question: str) -> str | None:
    """Return what a question asks of the notes of a release, where it asks in which one, or when.

    "In which version was the pump added?" is "was the pump added?", since the version stands in a
    heading, and a passage without it answers nothing. None for other questions.
    """
    for pattern, begin in ((_ASKS_IN, ""), (_ASKS_WHICH, "What "), (_ASKS_WHEN, "")):
        if match := pattern.match(question):
            return begin + question[match.end() :].strip()
    return None


def release_above(quote: str, text: str, at: int, *, date: bool = False) -> Span | None:
    """Return the version, or the date, of the heading above character ``at`` of a change log.

    None where the ``quote`` is a version itself, and where there is no such heading.
    """
    if _VERSION.fullmatch(quote.strip("\"'.,;()` ")):
        return None
    release = release_at(text, at)
    if release is None:
        return None
    return release.date if date else release.version


def _only(spans: Sequence[Span | None]) -> Span | None:
    return spans[0] if len(spans) == 1 else None


def _is_of(date: float, asked: float) -> bool:
    """Return whether a date is the one asked for, or of the month asked for, whose day is 0."""
    return date == asked or (asked % 100 == 0 and date - date % 100 == asked)


def _masked(line: str) -> str:
    """Return a line with spaces for its dates, which have points as versions have."""
    return DATE.sub(lambda match: " " * len(match[0]), line)
