"""Where in its file a character of a kept text comes from: its line, and characters of the source.

What the blocks of a reading say is kept in the library as anchors, places of the text from which
on lines and characters can be counted. Knows no format.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from drt_engine.documents.base import Block, Run, source_span
from drt_engine.errors import CorruptStore
from drt_engine.store.catalogue.anchors import MAX_ANCHORS, unpack_anchors

if TYPE_CHECKING:
    from drt_engine.store import DocumentRow
    from drt_engine.store.view import LibraryView

# What libraries of version 2 wrote behind a media type whose text has the source's own lines.
OLD_PARAMETER = "; lines=source"

_STEP = 8192  # characters; the text between an anchor and a place is read to count its lines
_FARTHEST_LINE = 2_000_000  # characters of a text without anchors; counting on would take too long


class Anchor(NamedTuple):
    """From character ``start`` of the text on, and up to the next anchor, the source's places.

    ``line`` is that of ``start``, from 1, later ones being counted. The text is the source's from
    character ``first`` on; or with ``last`` somewhere between the two. None is what is not known.
    """

    start: int
    line: int | None
    first: int | None
    last: int | None = None


@dataclass(frozen=True)
class SourcePlace:
    """A passage's line in its file, from 1, and the characters ``start:end`` of the file's text.

    In PDF files these are characters of the page, as PDFium numbers them.
    """

    line: int | None = None
    start: int | None = None
    end: int | None = None


class SourceMap:
    """Watches a document's blocks pass, and keeps what they say of their source."""

    def __init__(self) -> None:
        self._at = 0
        self._waiting: list[Anchor] = []
        self._last = Anchor(0, None, None)
        self._line: int | None = None  # at the end of what has passed
        self._packed: list[tuple[int, str]] = []

    def see(self, block: Block) -> None:
        """Take the next block in order."""
        line, counted = block.line, 0
        told = line == self._line
        for offset, run in _steps(block):
            if line is not None:
                line += block.text.count("\n", counted, offset)
                counted = offset
            anchor = _anchor(self._at + offset, offset, line, run)
            if not (told and self._tells(anchor)):
                self._keep(anchor)
            told = True  # lines of one block follow each other
        self._line = None if line is None else line + block.text.count("\n", counted)
        self._at += len(block.text)

    def _tells(self, anchor: Anchor) -> bool:
        """Whether the last anchor says the same, and stands near enough."""
        near = anchor.line is None or anchor.start - self._last.start < _STEP
        return near and _moved(self._last, anchor.start) == anchor[2:]

    def _keep(self, anchor: Anchor) -> None:
        self._last = anchor
        self._waiting.append(anchor)
        if len(self._waiting) == MAX_ANCHORS:
            self._pack()

    def _pack(self) -> None:
        if self._waiting:
            self._packed.append((self._waiting[0].start, packed(self._waiting)))
        self._waiting = []

    @property
    def groups(self) -> list[tuple[int, str]]:
        """The anchors as the library keeps them, once all blocks were seen."""
        self._pack()
        return self._packed


def _steps(block: Block) -> Iterator[tuple[int, Run | None]]:
    """Where a block's runs begin, and places between them where one is long."""
    runs: list[tuple[int, Run | None]] = [(run[0], run) for run in block.origin]
    if not runs or runs[0][0] > 0:
        runs.insert(0, (0, None))
    ends = [*(offset for offset, _ in runs[1:]), len(block.text)]
    for (begin, run), end in zip(runs, ends, strict=True):
        for offset in range(begin, end, _STEP):
            yield offset, run


def _anchor(start: int, offset: int, line: int | None, run: Run | None) -> Anchor:
    if run is None:
        return Anchor(start, line, None)
    if len(run) == 3:
        return Anchor(start, line, run[1], run[2])
    return Anchor(start, line, run[1] + offset - run[0])


def _moved(anchor: Anchor, start: int) -> tuple[int | None, int | None]:
    """What an anchor says of characters of the source farther on."""
    if anchor.first is None or anchor.last is not None:
        return anchor.first, anchor.last
    return anchor.first + start - anchor.start, None


def packed(anchors: Sequence[Anchor]) -> str:
    """Anchors as JSON: rows of differences to the row before, the first to zeros.

    A row is start, line, first, last; an unknown number is null, and the next difference is to the
    last known one. ``last`` is counted from ``first``.
    """
    rows = []
    start = line = first = 0
    for one in anchors:
        row: list[int | None] = [one.start - start, None, None, None]
        start = one.start
        if one.line is not None:
            row[1], line = one.line - line, one.line
        if one.first is not None:
            row[2], first = one.first - first, one.first
            row[3] = None if one.last is None else one.last - one.first
        rows.append(row)
    return json.dumps(rows, separators=(",", ":"))


def unpacked(text: str) -> list[Anchor]:
    """The anchors of one group; raises CorruptStore for what no library writes."""
    try:
        return [Anchor(*row) for row in unpack_anchors(text)]
    except ValueError as error:
        raise CorruptStore(
            "the catalogue's map from a text to its file is damaged: run `drt library check`"
        ) from error


def place_in_source(view: LibraryView, document: DocumentRow, start: int, end: int) -> SourcePlace:
    """Return where characters ``start:end`` of a document's text come from, as far as is known.

    A damaged map costs the place, not the answer; ``check`` reports it.
    """
    try:
        groups = view.origins(document.id, start, max(end, start + 1))
        anchors = [anchor for _, text in groups for anchor in unpacked(text)]
    except CorruptStore:
        return SourcePlace()
    number = bisect_right(anchors, start, key=lambda anchor: anchor.start) - 1
    if number < 0:
        return SourcePlace(_line_of_old(view, document, start))
    line = anchors[number].line
    if line is not None:
        line += view.text(document.id, anchors[number].start, start).count("\n")
    page, last_page = (view.place(document.id, at)[0] for at in (start, max(end - 1, start)))
    span = source_span(list(_known(anchors[number:], end)), start, end)
    if span is None or page != last_page:
        return SourcePlace(line)
    return SourcePlace(line, *span)


def _known(anchors: Iterable[Anchor], end: int) -> Iterator[Run]:
    """The runs of the anchors before ``end``; none where one of them knows no characters."""
    runs: list[Run] = []
    for one in anchors:
        if one.start >= end:
            break
        if one.first is None:
            return
        runs.append(
            (one.start, one.first) if one.last is None else (one.start, one.first, one.last)
        )
    yield from runs


def _line_of_old(view: LibraryView, document: DocumentRow, start: int) -> int | None:
    """The line in a document that was read before there were anchors; streams it up to there."""
    if not document.media_type.endswith(OLD_PARAMETER) or start > _FARTHEST_LINE:
        return None
    line, left = 1, start
    for piece in view.iter_text(document.id):
        line += piece.count("\n", 0, left)
        left -= len(piece)
        if left <= 0:
            break
    return line
