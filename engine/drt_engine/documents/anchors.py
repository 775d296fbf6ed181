"""Anchors, which lead from a document's text to its file, and their packed form in the library.

The packed form is described in ``store/FORMAT.md`` (``origins``). Knows nothing of how anchors are
made or followed; ``source_map`` does both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

MAX_ANCHORS = 256  # of one group
_MAX_NUMBER = 1 << 62


class Anchor(NamedTuple):
    """From character ``start`` of the text on, and up to the next anchor, the source's places.

    ``line`` is that of ``start``, from 1, later ones being counted. The text is the source's from
    character ``first`` on; or with ``last`` somewhere between the two. None is what is not known.
    """

    start: int
    line: int | None
    first: int | None
    last: int | None = None


def pack_anchors(anchors: Iterable[Anchor]) -> str:
    """Return anchors as JSON: rows of differences to the row before, the first to zeros.

    A row is start, line, first, last; an unknown number is null, and the next difference is to the
    last known one. ``last`` is counted from ``first``.
    """
    rows = []
    start = line = first = 0
    for anchor in anchors:
        row: list[int | None] = [anchor.start - start, None, None, None]
        start = anchor.start
        if anchor.line is not None:
            row[1], line = anchor.line - line, anchor.line
        if anchor.first is not None:
            row[2], first = anchor.first - first, anchor.first
            row[3] = None if anchor.last is None else anchor.last - anchor.first
        rows.append(row)
    return json.dumps(rows, separators=(",", ":"))


def unpack_anchors(text: str) -> list[Anchor]:
    """Return the anchors of one group; raise ValueError for what no library writes."""
    try:
        rows = json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(rows, list) or len(rows) > MAX_ANCHORS:
        raise ValueError(f"it is no list of at most {MAX_ANCHORS} anchors")
    anchors: list[Anchor] = []
    start = line = first = 0
    for row in rows:
        _expect_row(row)
        start_step, line_step, first_step, length = row
        start += start_step
        line += line_step or 0
        first += first_step or 0
        anchors.append(
            Anchor(
                start,
                None if line_step is None else line,
                None if first_step is None else first,
                None if first_step is None or length is None else first + length,
            )
        )
    numbers = [number for anchor in anchors for number in anchor if number is not None]
    if not all(0 <= number < _MAX_NUMBER for number in numbers):
        raise ValueError("a number of an anchor is out of range")
    if not all(anchor.start < following.start for anchor, following in pairwise(anchors)):
        raise ValueError("its anchors are not in order")
    return anchors


def _expect_row(row: object) -> None:
    if not isinstance(row, list) or len(row) != 4:
        raise ValueError(f"{row!r:.40} is no anchor")
    if type(row[0]) is not int or not all(type(n) in (int, type(None)) for n in row[1:]):
        raise ValueError(f"{row!r:.40} is no anchor")
    if row[3] is not None and row[3] < 0:
        raise ValueError("an anchor's last character is before its first")


def expect_origins(groups: Sequence[tuple[int, str]], characters: int) -> None:
    """Raise ValueError unless these are the groups of anchors of a text of so many characters."""
    last_start = -1
    for start, text in groups:
        anchors = unpack_anchors(text)
        if not anchors or anchors[0].start != start or start <= last_start:
            raise ValueError(f"the anchors from {start} on are not in their place")
        last_start = anchors[-1].start
    if last_start >= characters:
        raise ValueError(f"an anchor is at {last_start}, the text has {characters} characters")
