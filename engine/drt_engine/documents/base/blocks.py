"""Blocks of text and the places that they come from: page, section, line, characters.

Knows no format; `regroup` turns the many small pieces of a reader into few large blocks.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

BLOCK_CHARACTERS = 65536

# From an offset in a block's text on: the source's character there, the two advancing together; or,
# of three numbers, the first character of the source and the one after the last that the text is
# made of, where a reader rewrites them.
Run = tuple[int, int] | tuple[int, int, int]
Origin = tuple[Run, ...]


@dataclass(frozen=True)
class Block:
    """A piece of a document's text; the texts of all blocks, joined, are the document's text.

    `line` is the source's line, from 1, where the text begins, in formats whose lines are the
    source's own: each newline in the text is then one in the source. `origin` leads from the text
    to characters of the source: of the file as text, its newlines being one character, or of the
    page in formats that number them (PDF: PDFium's).
    """

    text: str
    page: int | None = None
    section: str | None = None
    line: int | None = None
    origin: Origin = ()

    def line_at(self, offset: int) -> int | None:
        """The source's line of the character at `offset`; None where the format has no lines."""
        return None if self.line is None else self.line + self.text.count("\n", 0, offset)

    def origin_at(self, offset: int) -> int | None:
        """Where in the source the character at `offset` comes from; None where that is unknown."""
        span = source_span(self.origin, offset, offset + 1)
        return None if span is None else span[0]


class PassedOver(Block):
    """Text of the source that is left out; `regroup` counts its lines and characters."""


def source_span(origin: Sequence[Run], start: int, end: int) -> tuple[int, int] | None:
    """The source's characters that the text from `start` to `end` comes from, as far as is known.

    With runs of two numbers alone, in their order, exactly these; else the least that hold them.
    """
    number = bisect_right(origin, start, key=_offset) - 1
    if number < 0:
        return None
    spans = []
    for at, run in enumerate(origin[number:], number):
        if run[0] >= end:
            break
        if len(run) == 3:
            spans.append((run[1], run[2]))
            continue
        stop = min(end, origin[at + 1][0]) if at + 1 < len(origin) else end
        spans.append((run[1] + max(start, run[0]) - run[0], run[1] + stop - run[0]))
    return (min(f for f, _ in spans), max(e for _, e in spans)) if spans else None


def runs_between(origin: Sequence[Run], start: int, end: int) -> Origin:
    """The runs of the text from `start` to `end`, counted from `start`."""
    first = bisect_left(origin, start, key=_offset)
    last = bisect_left(origin, end, key=_offset)
    inside = [_moved(run, -start) for run in origin[first:last]]
    if first and (not inside or inside[0][0] > 0):
        offset, index, *stop = origin[first - 1]
        inside.insert(0, (0, index, stop[0]) if stop else (0, index + start - offset))
    return tuple(inside)


def _offset(run: Run) -> int:
    return run[0]


def _moved(run: Run, by: int) -> Run:
    return (run[0] + by, run[1], run[2]) if len(run) == 3 else (run[0] + by, run[1])


def regroup(
    pieces: Iterable[Block], limit: int = BLOCK_CHARACTERS, *, verbatim: bool = False
) -> Iterator[Block]:
    """The same text with the same places in blocks of at most `limit` characters, few and large.

    Lines of a block follow each other without a gap. `verbatim` pieces are the whole of the
    source's own text, those `PassedOver` among them, so that their lines and characters need only
    be counted.
    """
    buffer, start = "", None
    runs: list[Run] = []
    place: tuple[int | None, str | None] = (None, None)
    following: int | None = 1
    position = 0
    for piece in pieces:
        if isinstance(piece, PassedOver):
            if buffer:
                yield Block(buffer, *place, start, tuple(runs))
                buffer, runs = "", []
            following = _advanced(following, piece.text)
            position += len(piece.text)
            continue
        line = following if verbatim else piece.line
        origin: Origin = ((0, position),) if verbatim else piece.origin
        here = (piece.page, piece.section)
        if buffer and (here != place or line != following or bool(origin) != bool(runs)):
            yield Block(buffer, *place, start, tuple(runs))
            buffer, runs = "", []
        if not buffer:
            place, start = here, line
        _extend(runs, origin, len(buffer))
        buffer += piece.text
        position += len(piece.text)
        following = _advanced(line, piece.text)
        while len(buffer) > limit:
            cut = _border(buffer, limit)
            yield Block(buffer[:cut], *place, start, runs_between(runs, 0, cut))
            start = _advanced(start, buffer[:cut])
            runs = list(runs_between(runs, cut, len(buffer)))
            buffer = buffer[cut:]
    if buffer:
        yield Block(buffer, *place, start, tuple(runs))


def _extend(runs: list[Run], origin: Origin, offset: int) -> None:
    """Add a piece's runs, which stands at `offset`; one that goes on as the last is left out."""
    for run in origin:
        moved = _moved(run, offset)
        last = runs[-1] if runs else None
        if last is None or len(last) != len(moved):
            runs.append(moved)
        elif len(moved) == 3:
            if last[1:] != moved[1:]:
                runs.append(moved)
        elif moved[1] - last[1] != moved[0] - last[0]:
            runs.append(moved)


def _advanced(line: int | None, text: str) -> int | None:
    return None if line is None else line + text.count("\n")


def _border(text: str, limit: int) -> int:
    """Where to cut `text`, which is longer than `limit`: after a line, else a word, else hard."""
    for mark in ("\n", " "):
        at = text.rfind(mark, limit // 2, limit)
        if at >= 0:
            return at + 1
    cut = limit
    while cut > limit // 2 + 1 and _joins(text[cut - 1], text[cut]):
        cut -= 1
    return cut


def _joins(left: str, right: str) -> bool:
    """Whether `right` is drawn as a part of the character `left`."""
    return "\u200d" in (left, right) or unicodedata.category(right).startswith("M")
