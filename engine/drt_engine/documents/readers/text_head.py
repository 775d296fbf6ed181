"""Title, author and date of the lines that a plain text begins with.

They are in fields of their own lines, on a title page, in the two columns above a memo (RFC,
Internet-Draft), or below the title, where AsciiDoc has them. Knows lines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from drt_engine.documents.base import date_of, one_line
from drt_engine.documents.metadata import Metadata, header_fields, metadata_of
from drt_engine.documents.readers.text_headings import UNDERLINE, is_capitals

_LONGEST = 100
_FIELD_LINES = 60
# A title in the middle: most lines; least indent and how far middles may be apart, characters.
_MOST_CENTRED, _CENTRED, _OFF_CENTRE = 3, 8, 3
_BY = re.compile(r"\s*(?:by|By|BY)[ \t]+[A-Z][^.]*$")
_FIELD = re.compile(r"(?:Title|Author|Release date|Date|Creator):", re.IGNORECASE)
_MARKED_TITLE = re.compile(r"=[ \t]+(?P<title>\S.*)")  # AsciiDoc
_BELOW_TITLE = re.compile(r"(?P<name>[A-Z][^<>]{1,80}?)[ \t]*<[^<>\s]{3,80}>\s*")
_REVISION = re.compile(r"v?\d+(?:\.\d+)*,?[ \t]+(?P<date>[^:\n]*\d{4}[^:\n]*)(?::.*)?")
# The two columns that a memo begins with: what it is, and who wrote it when.
_MOST_MEMO_LINES = 25
_MEMO = re.compile(r"(?i)(?:internet[- ]draft|request for comments:)")
_RIGHT = re.compile(r" {3,}(?P<right>\S(?:\S| (?! ))*)\s*\Z")
_INITIALED = re.compile(
    r"(?:[A-Z](?:-[A-Z])?\. ?){1,3}(?:(?:de|der|la|van|von) ){0,2}[A-Z][^\W\d_]*"
    r"(?:[ '\u2019-][^\W\d_]+)*(?:, Ed\.)?"
)
_MONTH_YEAR = re.compile(r"(?:\d{1,2} )?[A-Z][a-z]{2,8}\.? (?:\d{1,2}, )?(?:19|20)\d\d")
_FILE_NAME = re.compile(r"<?[a-z][\w.-]*>?")


def metadata_of_head(lines: Sequence[str]) -> Metadata:
    """Title, author and date of the lines that a text begins with.

    They are in fields of their own lines, ``Title: ...``; else the first line is the title where it
    is underlined as no later line is, or with an empty line below is in capitals, in the middle, or
    above a line "by ...". A title in the middle goes on in the middle of the next two lines.
    """
    fields: dict[str, str] = {}
    for number, line in enumerate(lines[:_FIELD_LINES]):
        if _FIELD.match(line):
            for name, value in header_fields(lines[number : number + 4]).items():
                fields.setdefault(name, value.partition("  [")[0])
    about = metadata_of(fields)
    if about.title:
        return about
    first = next((n for n, line in enumerate(lines) if line.strip()), None)
    if first is None or len(lines[first]) > _LONGEST:
        return about
    memo = _memo(lines[first : first + _MOST_MEMO_LINES])
    if memo is not None:
        return memo
    count = _count_centred(lines[first : first + _MOST_CENTRED + 1])
    if count:
        words = [line for line in lines[first : first + count] if "://" not in line]
        return Metadata(one_line(" ".join(words)), about.author, about.date)
    line, below = lines[first], lines[first + 1] if first + 1 < len(lines) else "x"
    is_alone = not below.strip() and (
        is_capitals(line.strip()) or _is_above_author(lines[first + 1 :])
    )
    if marked := _MARKED_TITLE.fullmatch(line):
        return _with_lines_below(one_line(marked["title"]), lines[first + 1 :], about)
    if _is_underlined_once(lines[first + 1 :]):
        return _with_lines_below(one_line(line), lines[first + 2 :], about)
    return Metadata(one_line(line) if is_alone else "", about.author, about.date)


def _with_lines_below(title: str, below: Sequence[str], about: Metadata) -> Metadata:
    """Return a title with the author and the date in the next two lines, as AsciiDoc has them."""
    name = _BELOW_TITLE.fullmatch(below[0]) if below else None
    if name is None:
        return Metadata(title, about.author, about.date)
    revision = _REVISION.fullmatch(below[1].strip()) if len(below) > 1 else None
    date = date_of(revision["date"].strip()) if revision else ""
    return Metadata(title, about.author or one_line(name["name"]), about.date or date)


def _memo(lines: Sequence[str]) -> Metadata | None:
    """Return title, authors and date of a memo, whose first lines are its head; None for others."""
    head = list(takewhile(str.strip, lines))
    if not any(_MEMO.match(line) for line in head):
        return None
    right = [match["right"] for line in head if (match := _RIGHT.search(line[:_LONGEST]))]
    authors = [cell for cell in right if _INITIALED.fullmatch(cell)]
    dates = [cell for cell in right if _MONTH_YEAR.fullmatch(cell)]
    below = lines[len(head) :]
    blank = next((n for n, line in enumerate(below) if line.strip()), len(below))
    count = _count_centred(below[blank : blank + _MOST_CENTRED + 1])
    names = (line.strip() for line in below[blank : blank + count])
    title = one_line(" ".join(name for name in names if not _FILE_NAME.fullmatch(name)))
    return Metadata(title, ", ".join(map(one_line, authors)), date_of(dates[-1] if dates else ""))


def _count_centred(lines: Sequence[str]) -> int:
    """Return how many lines, up to an empty one, are in the middle of the page; 0 without one."""
    count = next((n for n, line in enumerate(lines) if not line.strip()), 0)
    indents = [len(line) - len(line.lstrip()) for line in lines[:count]]
    middles = [indent + len(line.strip()) / 2 for indent, line in zip(indents, lines, strict=False)]
    centred = min(indents, default=0) >= _CENTRED and lines[0].strip()[0].isupper()
    return count if centred and max(middles) - min(middles) <= _OFF_CENTRE else 0


def _is_above_author(lines: Sequence[str]) -> bool:
    """Return whether the first line that is not empty names an author."""
    following = next((line for line in lines if line.strip()), "")
    return _BY.match(following) is not None


def _is_underlined_once(lines: Sequence[str]) -> bool:
    """Return whether the first line is an underline, and no later one of its character is."""
    underline = UNDERLINE.match(lines[0]) if lines else None
    return underline is not None and not any(
        line.startswith(underline[1]) and UNDERLINE.match(line) for line in lines[1:]
    )
