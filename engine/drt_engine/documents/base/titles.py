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
        """Open a heading of ``level`` (1 is the highest), closing those it ends."""
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
    """Return ``text`` fit for a title: one line, no control characters, TITLE_CHARACTERS at most.

    Half surrogate pairs go as well, since neither UTF-8 nor SQLite takes them.
    """
    visible = (" " if unicodedata.category(c) in ("Cc", "Cs") else c for c in text[: 1 << 16])
    return " ".join("".join(visible).split())[:TITLE_CHARACTERS].rstrip()


_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_ISO_DATE = re.compile(r"D:(\d{4})(\d\d)(\d\d)|(\d{4})-(\d\d)-(\d\d)(?!\d)")
_DAY_FIRST = re.compile(r"(?:[a-z]{3,9}, ?)?(\d{1,2})[- ]([a-z]{3,9})[- ,]+(\d{4})\b", re.I)
_MONTH_FIRST = re.compile(r"([a-z]{3,9}) (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})\b", re.I)


def date_of(text: str) -> str:
    """Return a date as YYYY-MM-DD where its day, month and year are certain; else as written.

    Reads PDF's ``D:20240305...``, ISO 8601, "5 March 2024" (also as in e-mail) and "March 5, 2024".
    "05/03/2024" stays: which number is the month depends on the country.
    """
    text = one_line(text)
    if match := _ISO_DATE.match(text):
        year, month, day = (int(part) for part in match.groups() if part)
    elif match := _DAY_FIRST.match(text):
        year, month, day = int(match[3]), _month(match[2]), int(match[1])
    elif match := _MONTH_FIRST.match(text):
        year, month, day = int(match[3]), _month(match[1]), int(match[2])
    else:
        return text
    return f"{year:04}-{month:02}-{day:02}" if 0 < month < 13 and 0 < day < 32 else text


def _month(name: str) -> int:
    key = name[:3].lower()
    return _MONTHS.index(key) + 1 if key in _MONTHS else 0


def words(text: str) -> frozenset[str]:
    """Return the words of ``text`` as a set, to keep long tables of names readable."""
    return frozenset(text.split())


def reason_of(error: Exception) -> str:
    """Return what a library says of a fault, short enough for a sentence of ours."""
    return one_line(str(error)).rstrip(".")[:80] or type(error).__name__
