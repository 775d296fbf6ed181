"""Blocks of text and the places that they come from: page, section, line, characters.

Knows no format; ``regroup`` turns the many small pieces of a reader into few large blocks.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from drt_engine.blocks.nodes import Node, nodes_between

BLOCK_CHARACTERS = 65536

# From an offset in a block's text on: the source's character there, the two advancing together; or,
# of three numbers, the first character of the source and the one after the last that the text is
# made of, where a reader rewrites them.
Run = tuple[int, int] | tuple[int, int, int]
Origin = tuple[Run, ...]


@dataclass(frozen=True)
class Block:
    """A piece of a document's text; the texts of all blocks, joined, are the document's text.

    ``line`` is the source's line, from 1, where the text begins, in formats whose lines are the
    source's own: each newline in the text is then one in the source. ``origin`` leads from the text
    to characters of the source: of the file as text, its newlines being one character, or of the
    page in formats that number them (PDF: PDFium's). ``nodes`` say what parts of the text are, each
    with its characters in it; their spans nest or are apart.
    """

    text: str
    page: int | None = None
    section: str | None = None
    line: int | None = None
    origin: Origin = ()
    nodes: tuple[Node, ...] = ()

    def line_at(self, offset: int) -> int | None:
        """Return the source line of the character at ``offset``; None in formats without lines."""
        return None if self.line is None else self.line + self.text.count("\n", 0, offset)

    def origin_at(self, offset: int) -> int | None:
        """Return the place in the source of the character at ``offset``; None where unknown."""
        span = source_span(self.origin, offset, offset + 1)
        return None if span is None else span[0]


class PassedOver(Block):
    """Text of the source that is left out; ``regroup`` counts its lines and characters."""


def source_span(origin: Sequence[Run], start: int, end: int) -> tuple[int, int] | None:
    """Return the span of the source that the text from ``start`` to ``end`` comes from, if known.

    With runs of two numbers alone, in their order, it is exact; else the smallest that holds all.
    """
    number = bisect_right(origin, start, key=_offset) - 1
    if number < 0:
        return None
    spans = []
    for index, run in enumerate(origin[number:], number):
        if run[0] >= end:
            break
        if len(run) == 3:
            spans.append((run[1], run[2]))
            continue
        run_end = min(end, origin[index + 1][0]) if index + 1 < len(origin) else end
        spans.append((run[1] + max(start, run[0]) - run[0], run[1] + run_end - run[0]))
    return (min(span[0] for span in spans), max(span[1] for span in spans)) if spans else None


def runs_between(origin: Sequence[Run], start: int, end: int) -> Origin:
    """Return the runs of the text from ``start`` to ``end``, counted from ``start``."""
    first = bisect_left(origin, start, key=_offset)
    last = bisect_left(origin, end, key=_offset)
    runs = [_shifted(run, -start) for run in origin[first:last]]
    if first and (not runs or runs[0][0] > 0):
        # The run before the first one reaches into the text.
        offset, source_start, *source_end = origin[first - 1]
        if source_end:
            runs.insert(0, (0, source_start, source_end[0]))
        else:
            runs.insert(0, (0, source_start + start - offset))
    return tuple(runs)


def _offset(run: Run) -> int:
    return run[0]


def _shifted(run: Run, by: int) -> Run:
    return (run[0] + by, run[1], run[2]) if len(run) == 3 else (run[0] + by, run[1])


def regroup(
    pieces: Iterable[Block], limit: int = BLOCK_CHARACTERS, *, verbatim: bool = False
) -> Iterator[Block]:
    """Yield the text of ``pieces``, with its places, in few blocks of at most ``limit`` characters.

    Lines of a block follow each other without a gap. ``verbatim`` pieces are the whole of the
    source's own text, those ``PassedOver`` among them, so that their lines and characters need only
    be counted.
    """
    buffer, start_line = "", None
    runs: list[Run] = []
    nodes: list[Node] = []
    place: tuple[int | None, str | None] = (None, None)  # page and section of the buffer
    next_line: int | None = 1
    position = 0  # in the source, for verbatim pieces
    for piece in pieces:
        if isinstance(piece, PassedOver):
            if buffer:
                yield Block(buffer, *place, start_line, tuple(runs), tuple(nodes))
                buffer, runs, nodes = "", [], []
            next_line = _advanced(next_line, piece.text)
            position += len(piece.text)
            continue
        line = next_line if verbatim else piece.line
        origin: Origin = ((0, position),) if verbatim else piece.origin
        piece_place = (piece.page, piece.section)
        if buffer and (piece_place != place or line != next_line or bool(origin) != bool(runs)):
            yield Block(buffer, *place, start_line, tuple(runs), tuple(nodes))
            buffer, runs, nodes = "", [], []
        if not buffer:
            place, start_line = piece_place, line
        _extend(runs, origin, len(buffer))
        nodes.extend(node.moved(len(buffer)) for node in piece.nodes)
        buffer += piece.text
        position += len(piece.text)
        next_line = _advanced(line, piece.text)
        while len(buffer) > limit:
            cut = _border(buffer, limit)
            parted = nodes_between(nodes, 0, cut)
            yield Block(buffer[:cut], *place, start_line, runs_between(runs, 0, cut), parted)
            start_line = _advanced(start_line, buffer[:cut])
            runs = list(runs_between(runs, cut, len(buffer)))
            nodes = list(nodes_between(nodes, cut, len(buffer), by=-cut))
            buffer = buffer[cut:]
    if buffer:
        yield Block(buffer, *place, start_line, tuple(runs), tuple(nodes))


def _extend(runs: list[Run], origin: Origin, offset: int) -> None:
    """Add the runs of a piece at ``offset``, except those that only continue the last run."""
    for piece_run in origin:
        run = _shifted(piece_run, offset)
        last = runs[-1] if runs else None
        if last is None or len(last) != len(run):
            runs.append(run)
        elif len(run) == 3:
            if last[1:] != run[1:]:
                runs.append(run)
        elif run[1] - last[1] != run[0] - last[0]:
            runs.append(run)


def _advanced(line: int | None, text: str) -> int | None:
    return None if line is None else line + text.count("\n")


def _border(text: str, limit: int) -> int:
    """Return where to cut a text longer than ``limit``: after a line, else a word, else anywhere.

    Not before a combining mark or a joiner, however: what is drawn as one character stays whole.
    """
    for separator in ("\n", " "):
        index = text.rfind(separator, limit // 2, limit)
        if index >= 0:
            return index + 1
    cut = limit
    while cut > limit // 2 + 1 and _joins(text[cut - 1], text[cut]):
        cut -= 1
    return cut


def _joins(left: str, right: str) -> bool:
    """Return whether ``right`` is drawn as a part of the character ``left``."""
    return "\u200d" in (left, right) or unicodedata.category(right).startswith("M")
