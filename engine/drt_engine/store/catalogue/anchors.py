"""The packed form of anchors, which lead from a document's text to its file (FORMAT.md, `origins`).

Knows nothing of what the numbers are for; `source_map` makes and follows them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise

MAX_ANCHORS = 256  # of one group
_MAX_NUMBER = 1 << 62

AnchorRow = tuple[int, int | None, int | None, int | None]  # start, line, first, last


def unpack_anchors(text: str) -> list[AnchorRow]:
    """The anchors of one group; ValueError for what no library writes."""
    try:
        rows = json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(rows, list) or len(rows) > MAX_ANCHORS:
        raise ValueError(f"it is no list of at most {MAX_ANCHORS} anchors")
    anchors: list[AnchorRow] = []
    start = line = first = 0
    for row in rows:
        _expect_row(row)
        moved, lines, begun, length = row
        start += moved
        line += lines or 0
        first += begun or 0
        known = None if begun is None else first
        last = None if begun is None or length is None else first + length
        anchors.append((start, None if lines is None else line, known, last))
    numbers = [number for anchor in anchors for number in anchor if number is not None]
    if not all(0 <= number < _MAX_NUMBER for number in numbers):
        raise ValueError("a number of an anchor is out of range")
    if not all(one[0] < other[0] for one, other in pairwise(anchors)):
        raise ValueError("its anchors are not in order")
    return anchors


def _expect_row(row: object) -> None:
    if not isinstance(row, list) or len(row) != 4:
        raise ValueError(f"{row!r:.40} is no anchor")
    if type(row[0]) is not int or not all(type(n) in (int, type(None)) for n in row[1:]):
        raise ValueError(f"{row!r:.40} is no anchor")
    if row[3] is not None and row[3] < 0:
        raise ValueError("an anchor's last character is before its first")


def expect_origins(groups: Iterable[tuple[int, str]], characters: int) -> None:
    """Raise ValueError unless these are the groups of anchors of a text of so many characters."""
    end = -1  # the last anchor so far
    for start, text in groups:
        anchors = unpack_anchors(text)
        if not anchors or anchors[0][0] != start or start <= end:
            raise ValueError(f"the anchors from {start} on are not in their place")
        end = anchors[-1][0]
    if end >= characters:
        raise ValueError(f"an anchor is at {end}, the text has {characters} characters")
