"""Tells lines of a table of contents from text: leaders, page numbers.

They repeat the names of sections and say nothing else, so that they are no answer to a question.
"""

from __future__ import annotations

import re

CONTENTS_LINE = ("line of a table of contents", "the sections are read where they are")

_LONGEST_ENTRY = 300  # characters that are looked at
_PAGE = r"(?:\d{1,4}|[ivxlc]{1,7}|[A-Z]-?\d{1,3})"
_LEADER = re.compile(rf"\S.*?(?:(?:\s?[.\u2026\u00b7_]){{4,}}|\u2026{{2,}})\s*{_PAGE}\s*\Z")
_NUMBERED = re.compile(rf"\S.*\S\s+({_PAGE})\s*\Z")
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
