"""The sections of a PDF: where on each page they begin, from bookmarks or else from headings.

A bookmark's place is the line that says its name, else the height on the page that it points to.
Without bookmarks headings are told by large print, by their number, and by bold type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Protocol

from drt_engine.documents.base import SectionPath, one_line, words
from drt_engine.documents.pdf.lines import HYPHENS, Line
from drt_engine.documents.pdf.margins import Page
from drt_engine.documents.pdf.text import PageText

_HEADING_EXTRA = 12  # characters that a heading's number may add to its bookmark
_HEADING_LINES = 3
_LARGER = 1.12  # than the text, in height of a line: a heading
_SAME_SIZE = 0.06
_LONGEST_HEADING = 200
_NUMBERED = re.compile(r"((?:[A-Z]|\d{1,3})(?:\.\d{1,3}){0,5}[.)]?)\s+(?=\S)")
_LABEL = re.compile(
    r"(?:(?:chapter|part|appendix|section|book|kapitel|teil)\s+)?(?:\d{1,3}|[ivxlc]{1,7}|[A-Z])\.?",
    re.IGNORECASE,
)
_NEVER_LAST = words("a an the of in to and or for with by that which is are from")
_CHAPTER = re.compile(r"(?:chapter|part|appendix|book|kapitel|teil)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Bookmark:
    """An entry of the outline: its level from 1, and the height on its page where that is told."""

    level: int
    title: str
    top: float | None = None


Bookmarks = dict[int, list[Bookmark]]  # by page index


class Sections(Protocol):
    """Tells where sections begin on a page, the one that goes on first."""

    def cut(self, shown: Page, page: PageText) -> Iterator[tuple[int, str | None]]:
        """Yield offsets in the page's text, rising, and the path of the section from there on."""


class BookmarkSections:
    """Cuts pages at the headings that bookmarks name."""

    def __init__(self, bookmarks: Bookmarks) -> None:
        self._bookmarks = bookmarks
        self._path = SectionPath()
        self._late: list[Bookmark] = []  # of the last page, without a place on it

    def cut(self, shown: Page, page: PageText) -> Iterator[tuple[int, str | None]]:
        """Yield where sections begin; a bookmark without a place counts from the top of its page.

        Of several such on one page the first does, and the others from the next page on.
        """
        for mark in self._late:
            self._path.enter(mark.level, mark.title)
        self._late = []
        marks = self._bookmarks.get(shown.number - 1, [])
        letters = [_letters(line.text) for _, line in page.starts] if marks else []
        places: list[tuple[int, Bookmark, str]] = []
        line = 0
        for mark in marks:
            place = _place(page, letters, mark, line)
            if place is None and places:
                self._late.append(mark)
                continue
            line, title = place or (0, mark.title)
            places.append((line, mark, title))
        at = page.starts[places[0][0]][0] if places and page.starts else 0
        if not places or at:
            yield 0, self._path.text
        for line, mark, title in places:
            self._path.enter(mark.level, title)
            yield page.starts[line][0] if page.starts else 0, self._path.text


def _place(
    page: PageText, letters: Sequence[str], mark: Bookmark, begin: int
) -> tuple[int, str] | None:
    """Return the line from ``begin`` on where a bookmark's section begins, and its heading."""
    matches = _named(letters, mark.title, begin)
    by_height = _at_height(page, mark.top, begin)
    if not matches:
        return None if by_height is None else (by_height, mark.title)
    line = matches[0] if by_height is None else min(matches, key=lambda at: abs(at - by_height))
    first = page.starts[line][1]
    if line > begin:
        label = page.starts[line - 1][1]
        # "Chapter 3" on a line of its own above the chapter's name
        if _LABEL.fullmatch(label.text) and label.height >= first.height * 0.7:
            return line - 1, f"{label.text} {mark.title}"
    number = _NUMBERED.match(first.text)
    if number and not mark.title.startswith(number[1].rstrip(".)")):
        return line, f"{number[1]} {mark.title}"
    return line, mark.title


def _named(letters: Sequence[str], title: str, begin: int) -> list[int]:
    """Return the numbers of the lines that hold a bookmark's title, which may go on over line ends.

    ``letters`` are those of each line.
    """
    title_letters = _letters(title)
    if not title_letters:
        return []
    matches = []
    for number in range(begin, len(letters)):
        line_letters = letters[number]
        if not line_letters:
            continue
        for extra in range(1, _HEADING_LINES):
            if len(line_letters) >= len(title_letters) or number + extra >= len(letters):
                break
            if line_letters not in title_letters and title_letters[:8] not in line_letters:
                break
            line_letters += letters[number + extra]
        within = (
            title_letters in line_letters
            and len(line_letters) <= len(title_letters) + _HEADING_EXTRA
        )
        if within or (len(line_letters) > 8 and title_letters.startswith(line_letters)):
            matches.append(number)
    return matches


def _at_height(page: PageText, top: float | None, begin: int) -> int | None:
    """Return the first line below the height that a bookmark points to."""
    if top is None:
        return None
    below = (
        number
        for number in range(begin, len(page.starts))
        if page.starts[number][1].upright and page.starts[number][1].middle <= top
    )
    return next(below, None)


def _letters(text: str) -> str:
    return "".join(c for c in text.lower() if c.isalnum())


class HeadingSections:
    """Cuts pages at what looks like a heading; ``title`` is the document's, which is none."""

    def __init__(self, title: str) -> None:
        self._path = SectionPath()
        self._title = _letters(title)
        self._sizes: list[float] = []

    def cut(self, shown: Page, page: PageText) -> Iterator[tuple[int, str | None]]:
        """Yield where sections begin, the one that goes on first."""
        started = False
        at = 0
        while at < len(page.starts):
            count = _heading_lines(page, at, shown.usual)
            if not count:
                at += 1
                continue
            offset, first = page.starts[at]
            text = one_line(_joined([line for _, line in page.starts[at : at + count]]))
            at += count
            if _letters(text) in self._title:
                continue
            if not started and offset:
                yield 0, self._path.text
            started = True
            self._path.enter(self._level(text, first), text)
            yield offset, self._path.text
        if not started:
            yield 0, self._path.text

    def _level(self, text: str, line: Line) -> int:
        """Larger print is a higher level; among equals the depth of the number."""
        equal_sizes = (size for size in self._sizes if abs(size - line.size) < _SAME_SIZE * size)
        size = next(equal_sizes, None)
        if size is None:
            size = line.size
            self._sizes.append(size)
        number = None if _CHAPTER.match(text) else _NUMBERED.match(text)
        depth = number[1].rstrip(".)").count(".") if number else 0
        return 10 * int(10_000 / max(size, 1)) + depth + 1


def _heading_lines(page: PageText, at: int, usual: float) -> int:
    """Return how many lines the heading takes that begins with this line; 0 where none does."""
    offset, line = page.starts[at]
    larger = line.size > _LARGER * usual
    if not larger and not line.bold:
        return 0
    if not line.upright or (offset and page.text[offset - 2 : offset] != "\n\n"):
        return 0
    count = 1
    while at + count < len(page.starts) and count < _HEADING_LINES:
        following, next_line = page.starts[at + count]
        sizes = ((line.size, next_line.size), (line.height, next_line.height))
        same = any(abs(other - own) <= _SAME_SIZE * own for own, other in sizes)
        ends_paragraph = page.text[following - 2 : following] == "\n\n"
        if not same or ends_paragraph:
            break
        count += 1
    text = _joined([line for _, line in page.starts[at : at + count]])
    letters = sum(map(str.isalpha, text))
    long = len(text) > _LONGEST_HEADING or letters < max(2, len(text) / 3)
    ends_sentence = text.endswith((".", ",", ";")) and not _NUMBERED.match(text)
    runs_on = (
        not larger
        and at + count < len(page.starts)
        and (page.text[page.starts[at + count][0] - 2 : page.starts[at + count][0]] != "\n\n")
    )
    return 0 if long or ends_sentence or runs_on or _is_cut(page, at + count, text) else count


def _is_cut(page: PageText, after: int, text: str) -> bool:
    """Return whether a line in large print is the part of a sentence, as in cells of tables.

    It ends with a word that nothing ends with, or the line right below begins in lower case.
    """
    if text.rpartition(" ")[2].lower() in _NEVER_LAST:
        return True
    if after >= len(page.starts):
        return False
    offset, following = page.starts[after]
    is_below = page.text[max(0, offset - 2) : offset] != "\n\n"
    return is_below and following.text[:1].islower()


def _joined(lines: Sequence[Line]) -> str:
    return " ".join(line.text.rstrip(HYPHENS) for line in lines)


def title_of(lines: Sequence[Line], usual: float) -> str:
    """Return the lines in a first page's largest print, where they follow each other; else ""."""
    upright = [line for line in lines if line.upright and any(map(str.isalpha, line.text))]
    if not upright:
        return ""
    largest = max(line.size for line in upright)
    ordered = sorted(upright, key=lambda line: -line.middle)
    first = next(n for n, line in enumerate(ordered) if line.size >= 0.95 * largest)
    count = 1
    while first + count < len(ordered) and ordered[first + count].size >= 0.95 * largest:
        count += 1
    title = one_line(_joined(ordered[first : first + count]))
    smaller_heights = [line.size for line in upright if line.size < 0.95 * largest]
    fills_page = 2 * count > len(upright)  # then it is the text, and what is smaller is a footer
    if (
        largest < 1.2 * (median(smaller_heights) if smaller_heights else usual)
        or count > 4
        or fills_page
    ):
        return ""
    letters = sum(map(str.isalpha, title))
    return title if letters >= 3 and len(title) <= _LONGEST_HEADING else ""
