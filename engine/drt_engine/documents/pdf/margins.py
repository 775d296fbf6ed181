"""Which lines at the edges of a page run through the document: headers, footers, page numbers.

Compares a page with its neighbours; knows boxes and texts, not PDFium.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Literal

from drt_engine.documents.pdf.lines import Line

NEIGHBOURS = 4  # left and right pages may have headers of their own
_ZONE = 0.13  # of the page's height, at the top and at the bottom
_SAME_PLACE = 4.0
_OTHERS = 2
_FEWEST_ALTERNATING = 5  # pages of which the left and the right ones have their own
_FARTHEST = 40  # pages that a printed number may differ from the page's
_MOST_KNOWN = 1000
_GAP = 1.3  # in heights of a line, between a running_lines line and the text
_LARGER = 1.15  # a line larger than the text is a heading
_NUMBER = re.compile(r"\d+|(?<![a-z])[ivxlc]+(?![a-z])")
_OUTER_NUMBER = re.compile(r"^(\d{1,5})\b|\b(\d{1,5})$")
_PAGE_NUMBER = re.compile(
    r"[\W_]{0,200}(?:page|seite|p\.)?\s*#(?:\s*(?:of|von|/)\s*#)?[\W_]{0,200}"
)


@dataclass(slots=True)
class Edge:
    """A line that may be a running line; ``parts`` are its parts beside each other."""

    line: Line
    parts: list[Line]
    text: str
    pattern: str
    numbers: tuple[str, ...]
    offsets: frozenset[int]  # of a number at either end of the line from the page's
    numbered: bool  # a page number and nothing else
    page: int


@dataclass(slots=True)
class Page:
    """A page's lines in the order of its content, and those at its edges."""

    number: int
    lines: list[Line]
    bottom: float = 0.0
    top: float = 0.0
    width: float = 0.0
    usual: float = 0.0  # height of a line
    edges: list[Edge] = field(default_factory=list)
    drawn: list[tuple[float, float, float, float]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # that were stuck on it
    running: list[Line] = field(default_factory=list)  # new ones, left out of ``lines``
    label: str = ""  # printed on it, where that is not its number

    def __post_init__(self) -> None:
        if not self.usual:  # not what is left of a page, whose edges are known
            self.edges = _edges(self)


def _edges(page: Page) -> list[Edge]:
    lines = sorted((line for line in page.lines if line.upright), key=lambda line: -line.middle)
    if not lines:
        return []
    usual = page.usual = median(line.height for line in lines)
    zone = _ZONE * (page.top - page.bottom)
    upper = _outer(lines, usual, [line.middle > page.top - zone for line in lines])
    lines.reverse()
    lower = _outer(lines, usual, [line.middle < page.bottom + zone for line in lines])
    candidates = {id(line): line for line in (*upper, *lower)}
    rows: list[list[Line]] = []
    for line in sorted(candidates.values(), key=lambda line: (-round(line.middle), line.x0)):
        if rows and abs(rows[-1][-1].middle - line.middle) < 0.3 * line.height:
            rows[-1].append(line)
        else:
            rows.append([line])
    # Each row as a whole, and each part of it alone: a title may vary beside a page number.
    row_edges = [_edge(sorted(row, key=lambda line: line.x0), page.number) for row in rows]
    part_edges = [_edge([line], page.number) for row in rows if len(row) > 1 for line in row]
    return [*row_edges, *part_edges]


def _outer(lines: Sequence[Line], usual: float, within: Sequence[bool]) -> list[Line]:
    """Return lines from an edge inwards, as long as a gap parts them from the rest."""
    count = 0
    for index, (line, following) in enumerate(pairwise(lines)):
        if not within[index] or line.height > _LARGER * usual:
            break
        distance = max(line.y0 - following.y1, following.y0 - line.y1)
        if distance > (_GAP - 1) * max(line.height, following.height) and distance > 0.3 * usual:
            count = index + 1
    if len(lines) == 1 and within[0]:
        count = 1
    return list(lines[:count])


def _edge(row: list[Line], page: int) -> Edge:
    text = " ".join(" ".join(line.text for line in row).lower().split())
    ends = {match[1] or match[2] for match in _OUTER_NUMBER.finditer(text)}
    # A number far from the page's is one only where it is alone, as in an offprint of a journal.
    alone = {line.text.strip() for line in row}
    offsets = frozenset(
        int(number) - page
        for number in ends
        if number in alone or abs(int(number) - page) <= _FARTHEST
    )
    pattern = _NUMBER.sub("#", text)
    numbered = _PAGE_NUMBER.fullmatch(pattern) is not None
    return Edge(row[0], row, text, pattern, tuple(_NUMBER.findall(text)), offsets, numbered, page)


def running_lines(page: Page, neighbours: Sequence[Page]) -> set[int]:
    """Return the ``id`` of each of the page's lines that ``neighbours`` have in the same place.

    A page of nothing else keeps them, but for its number: they are what it says.
    """
    found = [(edge, _runs(edge, page, neighbours)) for edge in page.edges]
    steady = {id(line) for edge, runs in found if runs == "steady" for line in edge.parts}
    edges = [
        edge
        for edge, runs in found
        if runs and (runs == "steady" or not _is_inside(edge, page, steady))
    ]
    ids = {id(line) for edge in edges for line in edge.parts}
    if len(ids) == len(page.lines):
        ids = {id(line) for edge in edges if edge.numbered for line in edge.parts}
    return ids


def _is_inside(edge: Edge, page: Page, running_ids: set[int]) -> bool:
    """Return whether a line that does not run is between this one and the edge of the page."""
    at_top = edge.line.middle > (page.top + page.bottom) / 2
    distances = (
        (line.middle - edge.line.middle) * (1 if at_top else -1)
        for line in page.lines
        if line.upright and id(line) not in running_ids
    )
    return any(distance > _SAME_PLACE for distance in distances)


def _runs(
    edge: Edge, page: Page, neighbours: Sequence[Page]
) -> Literal["steady", "alternating"] | None:
    """Return whether neighbours have a line in its place, and nearly all of them this one.

    Values of a form are in one place, too, and change from page to page. Left and right pages may
    have lines of their own.
    """
    first, last = edge.parts[0].text, edge.parts[-1].text
    if first[:1].islower() and last.endswith((".", "!", "?")) and not edge.numbered:
        return None  # the end of a sentence
    places = [
        (neighbour.number, _match_at(edge, neighbour, neighbour.number - page.number))
        for neighbour in neighbours
    ]
    same = [(number, matches) for number, matches in places if matches is not None]
    if sum(matches for _, matches in same) < (1 if edge.numbered else _OTHERS):
        return None
    same = sorted([*same, (page.number, True)])
    sides = ([m for n, m in same if n % 2 == side] for side in (0, 1))
    alternates = len(same) >= _FEWEST_ALTERNATING and sum(map(_changes, sides)) == 0
    if _changes([m for _, m in same]) <= 1:
        return "steady"
    return "alternating" if alternates else None


def _changes(matches: Sequence[bool]) -> int:
    """Return how often lines in one place change to another text or back, page by page."""
    return sum(current != following for current, following in pairwise(matches))


def _match_at(edge: Edge, page: Page, pages: int) -> bool | None:
    """Return whether a page has the line in its place; None where it has nothing there."""
    matches_at = [
        candidate
        for candidate in page.edges
        if abs(candidate.line.middle - edge.line.middle) < _SAME_PLACE
    ]
    return any(_matches(edge, candidate, pages) for candidate in matches_at) if matches_at else None


def _matches(edge: Edge, candidate: Edge, pages: int) -> bool:
    """Return whether a line in the same place of another page has the same text, or counts on."""
    if candidate.text == edge.text or edge.offsets & candidate.offsets:
        return True
    return candidate.pattern == edge.pattern and _in_step(edge, candidate, pages)


def _in_step(edge: Edge, candidate: Edge, pages: int) -> bool:
    """Return whether one number counts with the pages and all others are equal."""
    changes = [
        (number, candidate_number)
        for number, candidate_number in zip(edge.numbers, candidate.numbers, strict=True)
        if number != candidate_number
    ]
    if len(changes) != 1:
        return False
    number, candidate_number = changes[0]
    if number.isdecimal() and candidate_number.isdecimal():
        is_near = abs(int(number[:9]) - edge.page) <= _FARTHEST
        return is_near and int(candidate_number[:9]) - int(number[:9]) == pages
    return not number.isdecimal() and not candidate_number.isdecimal()


def new_running_lines(
    page: Page, running_ids: set[int], neighbours: Sequence[Page], known: set[str]
) -> list[Line]:
    """Return the running lines whose text no page before had, and note them in ``known``.

    A number of a page, and what a heading nearby says, are left out.
    """
    lines: list[Line] = []
    for line in page.lines:
        if id(line) not in running_ids or len(known) >= _MOST_KNOWN:
            continue
        pattern = _NUMBER.sub("#", " ".join(line.text.lower().split()))
        words = "".join(filter(str.isalpha, pattern))
        if words in known or _PAGE_NUMBER.fullmatch(pattern):
            continue
        known.add(words)
        nearby = (_letters_of(other, running_ids) for other in (page, *neighbours))
        if words and not any(words in letters for letters in nearby):
            lines.append(line)
    return lines


def _letters_of(page: Page, without: set[int]) -> str:
    """Return the letters of a page's lines but those at its edges, which may be running."""
    edges = {id(part) for edge in page.edges for part in edge.parts} | without
    text = "".join(line.text for line in page.lines if id(line) not in edges)
    return "".join(filter(str.isalpha, text.lower()))
