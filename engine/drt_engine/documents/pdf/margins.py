"""Which lines at the edges of a page run through the document: headers, footers, page numbers.

Compares a page with its neighbours; knows boxes and texts, not PDFium.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from drt_engine.documents.pdf.lines import Line

NEIGHBOURS = 4  # left and right pages may have headers of their own
_ZONE = 0.13  # of the page's height, at the top and at the bottom
_SAME_PLACE = 4.0
_OTHERS = 2
_GAP = 1.3  # in heights of a line, between a running line and the text
_LARGER = 1.15  # a line larger than the text is a heading
_NUMBER = re.compile(r"\d+|(?<![a-z])[ivxlc]+(?![a-z])")
_OUTER_NUMBER = re.compile(r"^(\d{1,5})\b|\b(\d{1,5})$")
_PAGE_NUMBER = re.compile(r"[\W_]*(?:page|seite|p\.)?\s*#(?:\s*(?:of|von|/)\s*#)?[\W_]*")


@dataclass(slots=True)
class Edge:
    """A line that may be a running one; `parts` are all that is beside each other in it."""

    line: Line
    parts: list[Line]
    text: str
    pattern: str
    numbers: tuple[str, ...]
    offsets: frozenset[int]  # of a number at either end of the line from the page's
    numbered: bool  # a page number and nothing else


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
    found = {id(line): line for line in (*upper, *lower)}
    rows: list[list[Line]] = []
    for line in sorted(found.values(), key=lambda line: (-round(line.middle), line.x0)):
        if rows and abs(rows[-1][-1].middle - line.middle) < 0.3 * line.height:
            rows[-1].append(line)
        else:
            rows.append([line])
    whole = [_edge(sorted(row, key=lambda line: line.x0), page.number) for row in rows]
    alone = [_edge([line], page.number) for row in rows if len(row) > 1 for line in row]
    return [*whole, *alone]


def _outer(lines: Sequence[Line], usual: float, within: Sequence[bool]) -> list[Line]:
    """Lines from an edge inwards, as long as a gap parts them from the rest."""
    count = 0
    for at, (one, two) in enumerate(pairwise(lines)):
        if not within[at] or one.height > _LARGER * usual:
            break
        distance = max(one.y0 - two.y1, two.y0 - one.y1)
        if distance > (_GAP - 1) * max(one.height, two.height) and distance > 0.3 * usual:
            count = at + 1
    if len(lines) == 1 and within[0]:
        count = 1
    return list(lines[:count])


def _edge(row: list[Line], page: int) -> Edge:
    text = " ".join(" ".join(line.text for line in row).lower().split())
    ends = {found[1] or found[2] for found in _OUTER_NUMBER.finditer(text)}
    offsets = frozenset(int(number) - page for number in ends)
    pattern = _NUMBER.sub("#", text)
    numbered = _PAGE_NUMBER.fullmatch(pattern) is not None
    return Edge(row[0], row, text, pattern, tuple(_NUMBER.findall(text)), offsets, numbered)


def running(page: Page, others: Sequence[Page]) -> set[int]:
    """The `id` of each of the page's lines that also stand, in their place, on `others`.

    A page of nothing else keeps them, but for its number: they are what it says.
    """
    found = [edge for edge in page.edges if _runs(edge, page, others)]
    gone = {id(line) for edge in found for line in edge.parts}
    if len(gone) == len(page.lines):
        gone = {id(line) for edge in found if edge.numbered for line in edge.parts}
    return gone


def _runs(edge: Edge, page: Page, others: Sequence[Page]) -> bool:
    alike = sum(
        any(_alike(edge, one, other.number - page.number) for one in other.edges)
        for other in others
    )
    return alike >= (1 if edge.numbered else _OTHERS)


def _alike(edge: Edge, other: Edge, pages: int) -> bool:
    """Whether a line of another page stands in the same place and says the same, or counts on."""
    if abs(other.line.middle - edge.line.middle) >= _SAME_PLACE:
        return False
    if other.text == edge.text or edge.offsets & other.offsets:
        return True
    return other.pattern == edge.pattern and _in_step(edge, other, pages)


def _in_step(edge: Edge, other: Edge, pages: int) -> bool:
    """Whether one number goes with the pages and all others stay."""
    moved = [(one, two) for one, two in zip(edge.numbers, other.numbers, strict=True) if one != two]
    if len(moved) != 1:
        return False
    one, two = moved[0]
    if one.isdecimal() and two.isdecimal():
        return int(two[:9]) - int(one[:9]) == pages
    return not one.isdecimal() and not two.isdecimal()
