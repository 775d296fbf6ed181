"""What a list of releases says: when a version came out, what changed, which one has a change.

A release is a line with its version, often with a date, above its changes; there are several. Knows
nothing of models and libraries.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from drt_engine.answer.tables.wording import stem
from drt_engine.text.sentences import Span
from drt_engine.text.words import STOP_WORDS, content_words, word_set, words

_FEWEST = 3  # releases
_LONGEST_LINE = 200
_LONGEST_BODY = 4_000  # characters of the changes that are shown
_VERSION = r"\d{1,4}(?:\.\d{1,4}){1,3}(?:[-.]?(?:rc|alpha|beta|a|b|post|dev)\.?\d{1,3})?"
_DATE = (
    r"(?:19|20)\d\d[-./]\d{1,2}[-./]\d{1,2}"
    r"|\d{1,2}(?:st|nd|rd|th)? [A-Z][a-z]{2,8}\.?,? (?:19|20)\d\d"
    r"|[A-Z][a-z]{2,8}\.? \d{1,2}(?:st|nd|rd|th)?,? (?:19|20)\d\d|[A-Z][a-z]{2,8} (?:19|20)\d\d"
)
# "## [1.2.0] - 2024-03-05", "Notmuch 0.35 (2022-02-06)", "Version 3.1:", "1.3  6 Apr 2005  Remove"
_RELEASE = re.compile(
    rf"[ \t]*(?:#{{1,4}}[ \t]+)?\**\[?(?:[A-Za-z][\w.+-]{{0,30}}[ \t]+){{0,2}}v?"
    rf"(?P<version>{_VERSION})\]?\**(?P<between>[\s:,/()\[\]\u2013\u2014-]*)(?:released?:? |on )?"
    rf"(?P<date>{_DATE})?[)\]\s:*]*(?P<rest>.*)"
)
_DATE_ASKED = re.compile(
    r"(?i)\W*(?:when\b|(?:on )?(?:what|which) (?:day|date)\b|.*\brelease date\b)"
)
_RELEASED = re.compile(r"(?i)\b(?:releas|publish|came out|come out|appear|date|ship)")
_CHANGED = re.compile(
    r"(?i)\b(?:chang|new\b|news\b|add|fix|remov|introduc|includ|improve|updat|bug|feature|happen)"
)
_CHANGES_ASKED = re.compile(
    r"(?i)\W*(?:what|which|list|name|tell|summari[sz]e|changes|news)\b.*\b(?:chang|new\b|news\b|add|fix"
    r"|remov|introduc|includ|improve|updat|bug|feature|releas|different|happen)"
)
# "What was released on 5 March 2024?", which wants the version
_RELEASED_ON = re.compile(
    r"(?i)\W*(?:what|which)(?: version| release)?(?: of [\w.+-]+)? (?:was|were|is|came)\b"
)
_VERSION_ASKED = re.compile(
    r"(?i)\W*(?:(?:since|in|with|from|as of|starting with) )?(?:which|what) (?:version|release)\b"
)
_IN_QUESTION = re.compile(rf"(?<![\w.])v?(?P<version>{_VERSION})(?!\.?\w)|(?P<date>{_DATE})")
# Words of a question for all changes of a release.
_ASKING = word_set(
    "version release released releases changed change changes new news added add adds fixed fix"
    " fixes removed introduced included include includes improved improvements improvement updated"
    " updates bug bugs feature features different happened list name tell which what things came"
    " come out made day date published main"
)
_SHARED = 0.7  # part of the question's words that a change must have
_FEWEST_SHARED = 2


@dataclass(frozen=True)
class Release:
    """A version, its date, and all from its line to the next release, as characters of a text."""

    version: Span
    date: Span | None
    start: int
    body: int  # where the changes begin
    end: int


def releases(text: str) -> list[Release]:
    """Return the releases of a text that has a list of them, in its order; else nothing."""
    found: list[tuple[int, re.Match[str]]] = []
    start = 0
    for line in text.split("\n"):
        match = _RELEASE.fullmatch(line) if 0 < len(line) <= _LONGEST_LINE else None
        # Prose behind a version is no heading; behind a date it is what changed.
        if match and (match["date"] or not match["rest"].strip()):
            found.append((start, match))
        start += len(line) + 1
    if len({match["version"] for _, match in found}) < _FEWEST:
        return []
    ends = [begin for begin, _ in found[1:]] + [len(text)]
    return [
        Release(
            _moved(match.span("version"), begin),
            _moved(match.span("date"), begin) if match["date"] else None,
            begin + len(match[0]) - len(match[0].lstrip()),
            begin + match.start("rest"),
            end,
        )
        for (begin, match), end in zip(found, ends, strict=True)
    ]


def _moved(span: Span, by: int) -> Span:
    return span[0] + by, span[1] + by


def release_field(question: str, text: str) -> Span | None:
    """Return the date of a release, or its changes, where a question asks for these of one."""
    named = list(_IN_QUESTION.finditer(question))
    if len(named) != 1:
        return None
    key = named[0]["version"] or named[0]["date"]
    asks_date = _DATE_ASKED.match(question) and _RELEASED.search(question)
    before, behind = question[: named[0].start()], question[named[0].end() :]
    field = "version" if named[0]["version"] else "date"
    is_dated = field == "date" and _RELEASED_ON.match(question) and _RELEASED.search(question)
    asks_version = is_dated and not _CHANGED.search(question)
    asks_all = _CHANGES_ASKED.match(question) and _asks_all(before, behind)
    if not (asks_date or asks_version or asks_all):
        return None
    hits = [
        release
        for release in releases(text)
        if (span := getattr(release, field)) is not None and text[slice(*span)] == key
    ]
    if len(hits) != 1:
        return None
    release = hits[0]
    if asks_date:
        return release.date if field == "version" else None
    return release.version if asks_version else _body(release, text)


def asks_release(question: str) -> bool:
    """Return whether a question names a release, so that a list of them may answer it."""
    return _IN_QUESTION.search(question) is not None


def _asks_all(before: str, behind: str) -> bool:
    """Return whether a question says nothing of which changes it wants; a program may be named."""
    before = re.sub(r"[\w.+-]+[ \t]*\Z", "", before) if not _names_version(before) else before
    behind = re.sub(r"\A[ \t]*of[ \t]+[\w.+-]+", "", behind)
    return all(word in _ASKING or word in STOP_WORDS for word in words(f"{before} {behind}"))


def _names_version(before: str) -> bool:
    return words(before)[-1:] in (["version"], ["release"], ["in"], ["of"])


def _body(release: Release, text: str) -> Span | None:
    """Return the changes of a release, without the line below its heading; cut at a line's end."""
    end = min(release.end, release.body + _LONGEST_BODY)
    if end < release.end:
        end = max(release.body, text.rfind("\n", release.body, end))
    ruled = re.compile(r"\s*(?:[=~+^\"'`*-]{3,}[ \t]*\n)?\s*").match(text, release.body, end)
    start = ruled.end() if ruled else release.body
    return (start, start + len(text[start:end].rstrip())) if text[start:end].strip() else None


def release_of(question: str, quote: Span, text: str, *, is_sure: bool = True) -> Span | None:
    """Return the version above a quote, where a question asks which one has what it says.

    Where the quote is not sure to answer, it has to have all words of the question.
    """
    if not _VERSION_ASKED.match(question):
        return None
    asked = {stem(word) for word in content_words(question)} - {"version", "release", "releas"}
    said = {stem(word) for word in content_words(text[slice(*quote)])}
    if len(asked) < _FEWEST_SHARED or len(asked & said) < (_SHARED if is_sure else 1) * len(asked):
        return None
    around: Sequence[Release] = [
        release for release in releases(text) if release.body <= quote[0] < release.end
    ]
    return around[0].version if around else None


def is_of_other_release(question: str, quote: Span, text: str) -> bool:
    """Return whether a question is about one version, and a quote is of another and not about it.

    Only questions for the date or for all changes of a release are meant.
    """
    named = [match["version"] for match in _IN_QUESTION.finditer(question)]
    asks_date = _DATE_ASKED.match(question) and _RELEASED.search(question)
    if len(named) != 1 or not named[0] or not (asks_date or _CHANGES_ASKED.match(question)):
        return False
    for release in releases(text):
        if release.start <= quote[0] < release.end:
            version = text[slice(*release.version)]
            return version != named[0] and named[0] not in text[slice(*quote)]
    return False
