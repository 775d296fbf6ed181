"""What a list of releases says: when a version came out, what changed, which one has a change.

A release is a line with its version, often with a date, above its changes; there are several. Knows
nothing of models and libraries.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from drt_engine.answer.tables.wording import stem
from drt_engine.text.sentences import Span
from drt_engine.text.words import STOP_WORDS, content_words, word_set, words

_FEWEST = 3  # releases
_FEWEST_DATED = 2  # where all have a date
_LONGEST_UNMARKED = 80  # characters of a heading that is a line below a blank one
_BELOW = 200  # characters below a heading, in which its date may stand
_LONGEST_LINE = 200
_LONGEST_BODY = 4_000  # characters of the changes that are shown
_VERSION = r"\d{1,4}(?:\.\d{1,4}){1,3}(?:[-.]?(?i:rc|alpha|beta|a|b|post|dev)[-.]?\d{1,3})?"
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
_DATES = re.compile(rf"(?P<date>{_DATE})(?!\d)")
_DATE_BELOW = re.compile(
    rf"[^A-Za-z0-9]*(?:(?i:released(?: on)?|release date|date)[^A-Za-z0-9]+)?(?P<date>{_DATE})"
)
_IN_LINE = re.compile(rf"(?<![\w.])[vV]?(?P<version>{_VERSION})(?![\w-]|\.\d)")
_LEAD = re.compile(r"[^A-Za-z0-9]*(?:[A-Za-z][A-Za-z0-9]*[^A-Za-z0-9]+){0,5}[vV]?")  # a name
_UNDERLINE = re.compile(r"([-=~^*+#])\1{2,}\s*")
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
    found: dict[Span, tuple[int, _Heading]] = {}
    start = 0
    before = ""
    for line in text.split("\n"):
        if 0 < len(line) <= _LONGEST_LINE:
            end = start + len(line) + 1
            below = text[end : end + _BELOW]
            heading = _plain_heading(line, below) or _marked_heading(line, before, below)
            if heading is not None:  # an anchor above a heading has the same date below it
                found[_moved(heading.date or heading.version, start)] = (start, heading)
        start, before = start + len(line) + 1, line
    headings = list(found.values())
    dated = all(heading.date for _, heading in headings)
    versions = {text[at + h.version[0] : at + h.version[1]] for at, h in headings}
    if len(versions) < (_FEWEST_DATED if dated else _FEWEST):
        return []
    ends = [begin for begin, _ in headings[1:]] + [len(text)]
    return [
        Release(
            _moved(heading.version, begin),
            _moved(heading.date, begin) if heading.date else None,
            begin + heading.start,
            begin + heading.body,
            end,
        )
        for (begin, heading), end in zip(headings, ends, strict=True)
    ]


@dataclass(frozen=True)
class _Heading:
    """A version, its date, where it begins, and where its changes begin, from a line's begin."""

    version: Span
    date: Span | None
    start: int
    body: int


def _plain_heading(line: str, below: str) -> _Heading | None:
    """Return a version with a date behind it, or alone on its line."""
    match = _RELEASE.fullmatch(line)
    # Prose behind a version is no heading; behind a date it is what changed.
    if match is None or not (match["date"] or not match["rest"].strip()):
        return None
    start = len(line) - len(line.lstrip())
    if match["date"]:
        return _Heading(match.span("version"), match.span("date"), start, match.start("rest"))
    return _Heading(match.span("version"), _date_below(line, below), start, match.start("rest"))


def _marked_heading(line: str, before: str, below: str) -> _Heading | None:
    """Return a version and a date anywhere in a line that is a heading by its marks."""
    masked = _DATES.sub(lambda match: " " * len(match[0]), line)
    version = _IN_LINE.search(masked)
    if version is None or not _LEAD.fullmatch(masked, 0, version.start("version")):
        return None
    is_marked = line.startswith("#") or _UNDERLINE.fullmatch(below.partition("\n")[0])
    is_short = len(line) <= _LONGEST_UNMARKED and not line.rstrip().endswith(".")
    if not is_marked and (before.strip() or not is_short):
        return None
    date = _DATES.search(line)
    span = date.span("date") if date else _date_below(line, below)
    if span is None:
        return None
    body = max(version.end("version"), span[1]) if date else version.end("version")
    return _Heading(version.span("version"), span, len(line) - len(line.lstrip()), body)


def _date_below(line: str, below: str) -> Span | None:
    """Return where the date stands that begins what is below a line, from the line's begin."""
    date = _DATE_BELOW.match(below)
    return _moved(date.span("date"), len(line) + 1) if date else None


def release_at(text: str, at: int) -> Release | None:
    """Return the release that a character of a text belongs to."""
    return next((one for one in releases(text) if one.start <= at < one.end), None)


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


def is_about_releases(question: str) -> bool:
    """Return whether a question asks for a release, or names one."""
    return bool(_VERSION_ASKED.match(question)) or asks_release(question)


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
    if not says_all(question, text[slice(*quote)], share=_SHARED if is_sure else 1):
        return None
    release = release_at(text, quote[0])
    return release.version if release else None


def says_all(question: str, text: str, *, share: float = 1) -> bool:
    """Return whether a text has all words of a question for a release, or a ``share`` of them."""
    asked = {stem(word) for word in content_words(question)} - {"version", "release", "releas"}
    said = {stem(word) for word in content_words(text)}
    return len(asked) >= _FEWEST_SHARED and len(asked & said) >= share * len(asked)


def is_of_other_release(question: str, quote: Span, text: str) -> bool:
    """Return whether a question is about one version, and a quote is of another and not about it.

    Only questions for the date or for all changes of a release are meant.
    """
    named = [match["version"] for match in _IN_QUESTION.finditer(question)]
    asks_date = _DATE_ASKED.match(question) and _RELEASED.search(question)
    if len(named) != 1 or not named[0] or not (asks_date or _CHANGES_ASKED.match(question)):
        return False
    release = release_at(text, quote[0])
    if release is None:
        return False
    start, end = text.rfind("\n", 0, quote[0]) + 1, text.find("\n", quote[1])
    line = text[start : end if end >= 0 else len(text)]  # "2.0 came in July"
    return text[slice(*release.version)] != named[0] and named[0] not in line
