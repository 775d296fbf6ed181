"""Titles, section paths and dates as one line of text, whatever a document writes there."""

from __future__ import annotations

import re
import unicodedata

TITLE_CHARACTERS = 300


class SectionPath:
    """The headings that are open at a place of the text, outermost first."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []
        self.first_title: str | None = None

    def enter(self, level: int, heading: str) -> None:
        """Open a heading of `level` (1 is the highest), closing those it ends."""
        heading = one_line(heading)
        while self._open and self._open[-1][0] >= level:
            self._open.pop()
        if not heading:
            return
        self._open.append((level, heading))
        if level == 1 and self.first_title is None:
            self.first_title = heading

    @property
    def text(self) -> str | None:
        """The path as "Part > Chapter"; None before the first heading."""
        return " > ".join(heading for _, heading in self._open) or None


def one_line(text: str) -> str:
    """`text` fit for a title: one line, no control characters, cut at TITLE_CHARACTERS."""
    kept = (" " if unicodedata.category(c) in ("Cc", "Cs") else c for c in text[: 1 << 16])
    return " ".join("".join(kept).split())[:TITLE_CHARACTERS].rstrip()


_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_ISO_DATE = re.compile(r"D:(\d{4})(\d\d)(\d\d)|(\d{4})-(\d\d)-(\d\d)(?!\d)")
_DAY_FIRST = re.compile(r"(?:[a-z]{3,9}, ?)?(\d{1,2})[- ]([a-z]{3,9})[- ,]+(\d{4})\b", re.I)
_MONTH_FIRST = re.compile(r"([a-z]{3,9}) (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})\b", re.I)


def date_of(text: str) -> str:
    """A date as YYYY-MM-DD where its day, month and year are certain; else as it is written."""
    text = one_line(text)
    if found := _ISO_DATE.match(text):
        year, month, day = (int(part) for part in found.groups() if part)
    elif found := _DAY_FIRST.match(text):
        year, month, day = int(found[3]), _month(found[2]), int(found[1])
    elif found := _MONTH_FIRST.match(text):
        year, month, day = int(found[3]), _month(found[1]), int(found[2])
    else:
        return text
    return f"{year:04}-{month:02}-{day:02}" if 0 < month < 13 and 0 < day < 32 else text


def _month(name: str) -> int:
    key = name[:3].lower()
    return _MONTHS.index(key) + 1 if key in _MONTHS else 0


def words(text: str) -> frozenset[str]:
    """The words of `text` as a set, to keep long tables of names readable."""
    return frozenset(text.split())
