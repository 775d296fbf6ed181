"""Tells lines of a table of contents from text: leaders, page numbers.

They repeat the names of sections and say nothing else, so that they are no answer to a question.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

CONTENTS_LINE = ("line of a table of contents", "the sections are read where they are")

_LONGEST_ENTRY = 300  # characters that are looked at
_PAGE = r"(?:\d{1,4}|[ivxlc]{1,7}|[A-Z]-?\d{1,3})"
_LEADER = re.compile(
    rf"\S.{{0,300}}?(?:(?:\s?[.\u2026\u00b7_]){{4,300}}|\u2026{{2,300}})\s*{_PAGE}\s*\Z"
)
_NUMBERED = re.compile(rf"\S.*\S\s+({_PAGE})\s*\Z")
_SECTION = re.compile(r"\s*(\d{1,3}(?:\.\d{1,3})+)\.?\s+\S[^\n]{2,90}\Z")
_FEWEST_SECTIONS = 8  # below a heading "Contents"
_MANY_SECTIONS = 20  # where the heading is not seen; a list of steps is shorter
_MOST_WRAPS = 2  # further lines of an entry
_ENDED = 0.25  # of the entries that may end as sentences do
_HEADING = re.compile(
    r"(?:table of )?contents|(?:list of|table of) (?:figures|tables|illustrations)|"
    r"inhalt(?:sverzeichnis)?|table des mati\u00e8res|sommaire|\u00edndice|indice",
    re.IGNORECASE,
)


def has_leader(line: str) -> bool:
    """Return whether a line leads with dots from a name to a page number."""
    return _LEADER.match(line.strip()[-_LONGEST_ENTRY:]) is not None


def page_of(line: str) -> str | None:
    """Return the page number at the end of an entry without leaders; None where there is none."""
    match = _NUMBERED.match(line.strip()[-_LONGEST_ENTRY:])
    return match[1] if match else None


def heads_contents(line: str) -> bool:
    """Return whether a line is the heading of a table of contents."""
    return (
        len(line) < _LONGEST_ENTRY
        and _HEADING.fullmatch(" ".join(line.split()).rstrip(":.")) is not None
    )


def numbered_entries(lines: Sequence[str]) -> list[int]:
    """Return the numbers of lines that list sections by number, without pages.

    Such a list counts up ("1.1", "1.2", "2.1") in short lines that are no sentences. An indented
    line right below an entry goes on with it; below a blank line it is the text of a section.
    """
    entries: list[int] = []
    run: list[list[int]] = []  # the lines of each entry
    headed = is_headed = goes_on = False
    for number, line in enumerate([*lines, "."]):
        if _SECTION.match(line):
            is_headed = headed if not run else is_headed
            run.append([number])
            goes_on = True
        elif not line.strip():
            goes_on = False
        elif goes_on and line[:1].isspace() and len(run[-1]) <= _MOST_WRAPS:
            run[-1].append(number)
        else:
            least = _FEWEST_SECTIONS if is_headed else _MANY_SECTIONS
            if len(run) >= least and _counts_up([[lines[n] for n in entry] for entry in run]):
                entries += [n for entry in run for n in entry]
            run, headed, goes_on = [], heads_contents(line), False
    return entries


def _counts_up(entries: Sequence[Sequence[str]]) -> bool:
    """Return whether entries, each of one line or more, have rising numbers and are no text."""
    matches = [match for entry in entries if (match := _SECTION.match(entry[0]))]
    places = [tuple(map(int, match[1].split("."))) for match in matches]
    ended = sum(entry[-1].rstrip().endswith((".", ";", ",", ":")) for entry in entries)
    return ended <= _ENDED * len(entries) and all(a < b for a, b in pairwise(places))
