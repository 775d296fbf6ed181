"""Finds what a document says of itself: in header fields, on its title page, in its first lines.

Knows plain text; the values that a file's own metadata has are looked up in the text, too. Every
value has its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from drt_engine.answer.metadata.question import Field
from drt_engine.text.words import word_set, words

HEAD = 6_000  # characters from the start in which a document says what it is
_LEAST_WORDS = 3  # of a line that may be of a sentence that goes on in the next one
_TITLE_PAGE = 2_500  # in which values without a name before them are the document's

_KEYS: dict[Field, tuple[str, ...]] = {
    "title": ("title", "document title"),
    "author": (
        *("author", "authors", "author(s)", "by", "written by", "from", "creator", "editor"),
        *("sender", "prepared by", "compiled by", "edited by", "author-email", "maintainer"),
        *("maintainers", "maintainer-email", "contact"),
    ),
    "editor": ("editor", "editors", "editor(s)", "edited by"),
    "date": (
        *("date", "publication date", "published", "release date", "released", "date published"),
        *("date sent", "sent", "created", "written", "issued", "date of issue", "effective date"),
        *("meeting date", "date and time", "posted", "last updated", "updated", "revised"),
    ),
    "version": ("version", "revision", "edition", "document version", "rev", "release"),
    "publisher": ("publisher", "published by", "issued by", "publication", "organization"),
    "subject": ("subject", "re"),
    "recipient": ("to", "recipient", "recipients", "addressee"),
}
_UPDATED = ("last updated", "updated", "last modified", "modified", "revised", "last revised")
_LINE = re.compile(
    r"^[ \t]*(?:[-*#/;%|>]+[ \t]*|//[ \t]*|\.\.[ \t]+|@|:)?[*_]{0,2}"
    r"(?P<key>[A-Za-z][A-Za-z() -]{0,24}?)[*_]{0,2}[ \t]*(?::[*_]{0,2}|\|)[ \t]*[*_]{0,2}"
    r"(?P<value>\S[^\n]*)$",
    re.MULTILINE,
)
_FIELD_OR_ITEM = re.compile(rf"\s*[-*+] |{_LINE.pattern}")
_RECORD = re.compile(r" \| [^:|\n]{1,80}: ")  # between two fields of a row
_DUNDER = re.compile(
    r"__(?P<key>version|author|date)__\s*=\s*[\"'](?P<value>[^\"'\n]+)"
    r"|#\s*define\s+\w*?(?P<define>VERSION)\w*\s+\"(?P<text>[^\"\n]+)"
    r"|^[ \t]*+[*#/]*+[ \t]*+@(?P<tag>author|version|date)\s+(?P<tagged>\S[^\n]*)",
    re.MULTILINE,
)
_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?"
    r"|Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)"
)
_YEAR = r"(?:1[5-9]|20)\d\d"
DATE = re.compile(
    rf"\b(?:{_YEAR}-\d\d-\d\d|(?:\d{{1,2}}(?:st|nd|rd|th)?[ -])?{_MONTH}\.?[ ,-]+{_YEAR}"
    rf"|\d{{1,2}}(?:st|nd|rd|th)? day of {_MONTH},? {_YEAR}"
    rf"|{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?,? {_YEAR}|\d{{1,2}}[./]\d{{1,2}}[./]{_YEAR})\b"
)
_PUBLISHED = re.compile(
    rf"\b(?:[Pp]ublished|[Pp]rinted|[Rr]eprinted|[Ii]ssued|[Rr]eleased|[Pp]ublication date)\b"
    rf"[^.\n]{{0,60}}?\b(?P<date>{DATE.pattern}|{_YEAR})\b"
)
_YEAR_LINE = re.compile(rf"^[ \t]{{0,40}}(?P<year>{_YEAR})[ \t]*$", re.MULTILINE)
_UPDATED_ON = re.compile(
    rf"\b[Ll]ast (?:updated|modified|revised|changed)(?: on|:)? (?P<date>{DATE.pattern})"
)
_VERSION = re.compile(
    r"\b(?:[Vv]ersion|[Rr]evision|[Rr]elease|[Ee]dition|VERSION)\s+v?(\d+(?:\.\d+)*\w{0,4})\b"
    r"|(?<!since )(?<!from )(?<!than )(?<!before )(?<!after )\bv\d+(?:\.\d+)+\b"
    r"|\b(?:First|Second|Third|Fourth|Fifth|\d+(?:st|nd|rd|th)) [Ee]dition\b"
)
# What is around the version of a licence that a document is under, and not its own: "under the
# terms of the GNU GPL version 2 or later".
_LICENCE_BEFORE = re.compile(
    r"(?:\bL?GPL\S*|\b[Ll]icen[cs]e),?\s+\Z|;\s+(?:either\s+)?\Z|\bterms\s+of\s+\Z"
)
_LICENCE_AFTER = re.compile(
    r",?\s+(?:or\s+(?:\(at|any|later|newer)|of\s+the\s[^.]{0,40}\b[Ll]icen[cs]e)"
)
_LONGEST_NOTICE = 40  # characters before a version that are looked at
_DOTTED = re.compile(r"(?<![\w.])\d+(?:\.\d+)+(?![\w.])")
_NAME = r"[A-Z][\w.'\u2019-]*(?: (?:[A-Z][\w.'\u2019-]*|de|van|von|der|la|of|the|and|&)){0,7}"
_BY = re.compile(
    rf"^[ \t#*/]*(?:[Ww]ritten |[Ee]dited |[Cc]ompiled |[Oo]riginal code )?(?:[Bb]y|BY)[ \t:]+"
    rf"(?P<value>{_NAME}(?:, [A-Z][^\n,]{{2,40}})*)",
    re.MULTILINE,
)
_BY_BELOW = re.compile(rf"^[ \t]*(?:by|BY|By)[ \t]*\n\s*(?P<value>{_NAME})[ \t]*$", re.MULTILINE)
# "Edited by Ann Lee", or "Editor" on a line of its own above each name
_LABEL_ABOVE = r"[ \t]*Editors?:?[ \t]*\n(?:[ \t]*\n){0,2}[ \t]*"
_EDITOR = re.compile(
    rf"^(?:[ \t]*[Ee]dited by[ \t]+|{_LABEL_ABOVE})"
    rf"(?P<value>{_NAME}(?:[ \t]*\n(?:[ \t]*\n){{0,2}}{_LABEL_ABOVE}{_NAME}){{0,9}})[ \t]*$",
    re.MULTILINE,
)
# "Authors:" or the heading "Original authors", and the list below.
_LISTED = re.compile(
    r"^[ \t]*+#{0,6}[ \t]*+[*_]{0,2}(?:\w+ )?(?:authors?|AUTHORS?|Authors?)[*_]{0,2}:?[*_]{0,2}"
    r"[ \t]*(?:\n[-=~]{3,}[ \t]*)?"
    r"\n\s*(?P<value>[-*+\u2022] [^\n]+(?:\n+[ \t]*[-*+\u2022] [^\n]+)*)",
    re.MULTILINE,
)
_COPYRIGHT = re.compile(
    rf"(?:Copyright|\u00a9)(?:[ ,]|\([cC]\)|\u00a9|by|{_YEAR}|[-\u2013])*(?P<value>{_NAME})"
)
_ISSUED_BY = re.compile(
    rf"(?<![Aa]s )\b(?:[Pp]ublished|[Ii]ssued|[Rr]eleased|[Pp]rinted)"
    rf"(?: in {_YEAR}|,? {_YEAR},?)? by\s+"
    rf"(?:the |The |THE )?(?P<value>{_NAME})"
)
_ADDRESS = re.compile(r"@\w|\w at \w+\.\w")
_PROPER = r"[A-Z][a-z\u00e0-\u00ff'\u2019-]+"
_PERSON = re.compile(
    rf"[ \t]*{_PROPER}(?: [A-Z]\.)*(?: {_PROPER}){{1,2}}"
    r"(?:,? <?[\w.+-]+@[\w.-]+>?)?[ \t]*\Z"
)
# "Ann Lee, May 2022", a line of its own.
_BYLINE = re.compile(
    rf"^[ \t*_]*(?P<name>{_PROPER}(?: [A-Z]\.)*(?: {_PROPER}){{1,2}}),"
    rf" (?P<date>(?:\d{{1,2}} )?(?:{_MONTH}\.? )?(?:\d{{1,2}},? )?{_YEAR})[ \t*_]*$",
    re.MULTILINE,
)
# "1.3, 2013-08-07", as below the title of AsciiDoc.
_REVISION_LINE = re.compile(
    rf"^v?(?P<version>\d+(?:\.\d+)+),? +{DATE.pattern}[^\n]*$", re.MULTILINE
)
# What is below a title, and the abstract below that.
_PARAGRAPH = re.compile(r"[ \t]*\n\s*(?P<text>\S[^\n]*(?:\n[^\n]+){0,2})(?=\n\s*\n)")
_ABSTRACT = re.compile(r"\s*(?:#{1,3}\s*)?abstract\b", re.IGNORECASE)
_NAME_MARKS = "0123456789,*\u2020\u2021\u00a7\u00b9\u00b2\u00b3"
_BYLINE_END = 600  # characters from the start in which those lines are


_NO_PERSON = word_set(
    """
    abstract agency annual appendix board bureau chapter committee contents department draft edition
    field final foreword foundation guide handbook institute introduction manual notes office part
    policy preface press project report school section service society state street table team
    technology union united university version working
    """
)


@dataclass(frozen=True)
class Value:
    """A value and its characters [start, end) of the text."""

    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Stored:
    """What the library holds of the document: its title, author and date; "" without."""

    title: str
    author: str
    date: str


def find_value(
    field: Field, head: str, stored: Stored, *, updated: bool = False, keyed: bool = False
) -> Value | None:
    """Return where the beginning of a text gives a field of its document; None where it does not.

    ``updated`` looks for the date of the last change alone, ``keyed`` for a date in a line
    ``key: value`` alone.
    """
    if field == "date" and updated:
        return next(_updates(head), None)
    if field == "date" and keyed:
        return next(_keyed_dates(head), None)
    finders: dict[Field, Callable[[str, Stored], Iterator[Value]]] = {
        "title": _titles,
        "author": _authors,
        "editor": lambda text, _: _editors(text),
        "date": _dates,
        "version": _versions,
        "publisher": _publishers,
        "subject": lambda text, _: _keyed(text, _KEYS["subject"]),
        "recipient": lambda text, _: _keyed(text, _KEYS["recipient"]),
    }
    return next(finders[field](head, stored), None)


def _keyed(head: str, keys: Sequence[str]) -> Iterator[Value]:
    """Yield the values of lines ``key: value``, by the order of the keys."""
    fields: dict[str, Value] = {}
    for match in _LINE.finditer(head):
        if not (_is_of_sentence(head, match) or _RECORD.search(match[0])):
            fields.setdefault(match["key"].strip().lower(), _trimmed(head, *match.span("value")))
    for match in _DUNDER.finditer(head):
        for key, value in (("key", "value"), ("define", "text"), ("tag", "tagged")):
            if match[key]:
                fields.setdefault(match[key].lower(), _trimmed(head, *match.span(value)))
    yield from (fields[key] for key in keys if key in fields and fields[key].text)


def _is_of_sentence(head: str, match: re.Match[str]) -> bool:
    """Return whether a line is no field but goes on with a sentence: "by: the use of ..."."""
    line_before = head[: max(0, match.start() - 1)].rpartition("\n")[2]
    same_indent = _indent(line_before) == _indent(match[0])
    is_prose = len(line_before.split()) >= _LEAST_WORDS and not _FIELD_OR_ITEM.match(line_before)
    return match["key"][0].islower() and same_indent and is_prose


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _titles(head: str, stored: Stored) -> Iterator[Value]:
    place = locate(head, stored.title)
    if place is not None:
        yield place
    yield from _keyed(head, _KEYS["title"])


def _authors(head: str, stored: Stored) -> Iterator[Value]:
    yield from _keyed(head, _KEYS["author"])
    place = locate(head, stored.author)
    if place is not None:
        yield place
    page = head[:_TITLE_PAGE]
    for match in _LISTED.finditer(head):
        yield Value(match["value"], *match.span("value"))
    for pattern in (_BY, _BY_BELOW):
        for match in pattern.finditer(page):
            yield _trimmed(head, *match.span("value"))
    for match in _bylines(head):
        yield Value(match["name"], *match.span("name"))
    if stored.author:
        return  # the file knows better than a guess
    yield from _named_below(page, stored.title)
    yield from _people(page, stored.title)
    for match in _COPYRIGHT.finditer(page):
        yield _trimmed(head, *match.span("value"))


def _editors(head: str) -> Iterator[Value]:
    yield from _keyed(head, _KEYS["editor"])
    for match in _EDITOR.finditer(head):
        yield _trimmed(head, *match.span("value"))


def _named_below(page: str, title: str) -> Iterator[Value]:
    """Yield the names between the title and the abstract of a paper, where nothing else is."""
    heading = locate(page, title)
    paragraph = _PARAGRAPH.match(page, heading.end) if heading else None
    if paragraph is None or not _ABSTRACT.match(page, paragraph.end()):
        return
    names = [word.strip(_NAME_MARKS) for word in paragraph["text"].split()]
    proper = [name for name in names if re.fullmatch(_PROPER, name)]
    others = {name for name in names if name and name not in proper}
    is_named = all(
        re.fullmatch(r"(?:[A-Z]\.-?)+|and|&|de|van|von|der|la|del|di", n) for n in others
    )
    if len(proper) > 1 and is_named and not _NO_PERSON & frozenset(words(paragraph["text"])):
        yield _trimmed(page, *paragraph.span("text"))


def _people(page: str, title: str) -> Iterator[Value]:
    """Yield lines that are a person's name beside a date or another such line, as one span."""
    lines: list[tuple[int, str]] = []
    start = 0
    for line in page.split("\n"):
        if line.strip():
            lines.append((start, line))
        start += len(line) + 1
    number = 0
    while number < len(lines):
        last = number
        while last < len(lines) and _is_person(lines[last][1], title):
            last += 1
        if last > number:
            around = lines[max(0, number - 1) : number] + lines[last : last + 1]
            dated = any(DATE.search(line) and len(line) < 60 for _, line in around)
            mail = any(_ADDRESS.search(line) for _, line in lines[number : last + 1])
            if dated or mail or last - number > 1:
                end = lines[last - 1][0] + len(lines[last - 1][1].rstrip())
                yield _trimmed(page, lines[number][0], end)
        number = max(last, number + 1)


def _is_person(line: str, title: str) -> bool:
    return bool(
        _PERSON.match(line)
        and locate(title, line) is None
        and not _NO_PERSON & frozenset(words(line))
    )


def _bylines(head: str) -> Iterator[re.Match[str]]:
    """Yield the lines near the start that are a person's name and a date."""
    for match in _BYLINE.finditer(head[:_BYLINE_END]):
        if not _NO_PERSON & frozenset(words(match["name"])):
            yield match


def _keyed_dates(head: str) -> Iterator[Value]:
    return (value for value in _keyed(head, _KEYS["date"]) if re.search(r"\d", value.text))


def _is_in_row(page: str, place: int) -> bool:
    """Return whether a place is in a row of a table, whose dates are of what it lists."""
    line_end = page.find("\n", place)
    line = page[page.rfind("\n", 0, place) + 1 : line_end if line_end >= 0 else len(page)]
    return " | " in line or "\t" in line.strip()


def _updates(head: str) -> Iterator[Value]:
    yield from _keyed(head, _UPDATED)
    for match in _UPDATED_ON.finditer(head):
        yield _trimmed(head, *match.span("date"))


def _dates(head: str, stored: Stored) -> Iterator[Value]:
    page = head[:_TITLE_PAGE]
    published = [
        _trimmed(head, *match.span("date"))
        for match in _PUBLISHED.finditer(head)
        if not _is_in_row(head, match.start())
    ]
    # The release of an electronic edition is not when its book was published.
    if "Project Gutenberg" in head:
        yield from published
        for match in _YEAR_LINE.finditer(head):
            yield Value(match["year"], *match.span("year"))
    yield from _keyed_dates(head)
    yield from published
    for match in _bylines(head):
        yield Value(match["date"], *match.span("date"))
    for match in DATE.finditer(page):
        if not _is_in_row(page, match.start()):
            yield Value(match[0], *match.span())
    place = locate(head, stored.date)
    if place is not None:
        yield place


def _versions(head: str, stored: Stored) -> Iterator[Value]:
    title, version = locate(head, stored.title), version_in(stored.title)
    if version and title is not None and (place := locate(title.text, version)):
        yield Value(place.text, title.start + place.start, title.start + place.end)
    for value in _keyed(head, _KEYS["version"]):
        if re.search(r"\d", value.text):
            yield value
    if version:
        return  # the file's metadata know better than a guess
    page = head[:_TITLE_PAGE]
    for match in _REVISION_LINE.finditer(head[:_BYLINE_END]):
        yield Value(match["version"], *match.span("version"))
    for match in _VERSION.finditer(page):
        before = page[max(0, match.start() - _LONGEST_NOTICE) : match.start()]
        opens_line = match[0][0].isupper() and not before.rpartition("\n")[2].strip()
        of_licence = _LICENCE_AFTER.match(page, match.end()) or (
            not opens_line and _LICENCE_BEFORE.search(before)
        )
        if not of_licence:
            yield Value(match[0], *match.span())


def version_in(title: str) -> str:
    """Return the version that a title names, "" without one."""
    match = _VERSION.search(title) or _DOTTED.search(title)
    return match[0] if match else ""


def _publishers(head: str, _: Stored) -> Iterator[Value]:
    yield from _keyed(head, _KEYS["publisher"])
    for match in _ISSUED_BY.finditer(head):
        yield _trimmed(head, *match.span("value"))


def locate(head: str, value: str) -> Value | None:
    """Return where a text says ``value``, in any case and with any white space; None if nowhere."""
    parts = [re.escape(part) for part in value.split()]
    match = re.search(r"\s+".join(parts), head, re.IGNORECASE) if parts else None
    return Value(match[0], *match.span()) if match else None


def _trimmed(head: str, start: int, end: int) -> Value:
    """Return a value without the marks around it: quotes, emphasis, bars, ends of comments."""
    text = head[start:end]
    bare = re.sub(r"(?:\s*(?:\*/|-->|\\|\|))+\s*\Z", "", text).rstrip(" \t*_\"'`,;")
    lead = len(bare) - len(bare.lstrip(" \t*_\"'`"))
    if bare[:1] == '"' and bare.count('"') == 2:
        lead = 0  # "A, Inc." <a@a.example>
    return Value(bare[lead:], start + lead, start + len(bare))
