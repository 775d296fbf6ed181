"""Maps characters of a document's text to its file: the line, and the characters there.

While a document is read, ``SourceMap`` turns the places of its blocks into anchors, which the
library keeps; ``place_in_source`` follows them for a passage. Knows no format.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from drt_engine.documents.anchors import MAX_ANCHORS, Anchor, pack_anchors, unpack_anchors
from drt_engine.documents.base import Block, Run, source_span
from drt_engine.errors import CorruptStore

# What libraries of version 2 wrote behind a media type whose text has the source's own lines.
OLD_PARAMETER = "; lines=source"

# Characters between anchors at most: to find the line of a place, the newlines of the text since
# the anchor before it are counted.
_STEP = 8192
_FARTHEST_LINE = 2_000_000  # characters of a text without anchors; counting on would take too long


@dataclass(frozen=True)
class SourcePlace:
    """A passage's line in its file, from 1, and the characters ``start:end`` of the file's text.

    In PDF files these are characters of the page, as PDFium numbers them.
    """

    line: int | None = None
    start: int | None = None
    end: int | None = None


class SourceMap:
    """Makes the anchors of a document from its blocks as they pass."""

    def __init__(self) -> None:
        self._position = 0  # in the document's text
        self._pending: list[Anchor] = []
        self._last_anchor = Anchor(0, None, None)
        self._line: int | None = None  # at the end of the last block
        self._packed: list[tuple[int, str]] = []

    def see(self, block: Block) -> None:
        """Take the next block in order."""
        line, counted = block.line, 0
        # A line that does not go on from the last block can only be told by a new anchor.
        lines_follow = line == self._line
        for offset, run in _steps(block):
            if line is not None:
                line += block.text.count("\n", counted, offset)
                counted = offset
            anchor = _anchor(self._position + offset, offset, line, run)
            if not (lines_follow and self._is_implied(anchor)):
                self._add(anchor)
            lines_follow = True  # within a block
        self._line = None if line is None else line + block.text.count("\n", counted)
        self._position += len(block.text)

    def _is_implied(self, anchor: Anchor) -> bool:
        """Return whether counting on from the last anchor, not too far, gives the same place."""
        in_reach = anchor.line is None or anchor.start - self._last_anchor.start < _STEP
        return in_reach and _source_at(self._last_anchor, anchor.start) == anchor[2:]

    def _add(self, anchor: Anchor) -> None:
        self._last_anchor = anchor
        self._pending.append(anchor)
        if len(self._pending) == MAX_ANCHORS:
            self._pack()

    def _pack(self) -> None:
        if self._pending:
            self._packed.append((self._pending[0].start, pack_anchors(self._pending)))
        self._pending = []

    @property
    def groups(self) -> list[tuple[int, str]]:
        """Return the anchors as the library keeps them, once all blocks were seen."""
        self._pack()
        return self._packed


def _steps(block: Block) -> Iterator[tuple[int, Run | None]]:
    """Yield where a block's runs begin, and places between them where one is long."""
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


def _source_at(anchor: Anchor, start: int) -> tuple[int | None, int | None]:
    """Return the ``first`` and ``last`` that an anchor gives for a later character."""
    if anchor.first is None or anchor.last is not None:
        return anchor.first, anchor.last
    return anchor.first + start - anchor.start, None


def read_anchors(text: str) -> list[Anchor]:
    """Return the anchors of one group; raise CorruptStore for what no library writes."""
    try:
        return unpack_anchors(text)
    except ValueError as error:
        raise CorruptStore(
            "the catalogue's map from a text to its file is damaged: run `drt library check`"
        ) from error


class TextView(Protocol):
    """What following anchors needs of a library; ``store.view.LibraryView`` has it."""

    def origins(self, document_id: str, start: int, end: int, /) -> list[tuple[int, str]]:
        """Return the groups of anchors for a part of a document's text."""

    def text(self, document_id: str, start: int, end: int, /) -> str:
        """Return a part of a document's text."""

    def iter_text(self, document_id: str, /) -> Iterator[str]:
        """Yield a document's text in pieces."""

    def place(self, document_id: str, start: int, /) -> tuple[int | None, str | None]:
        """Return page and section of a character."""


class DocumentEntry(Protocol):
    """What following anchors needs of a document's row."""

    @property
    def id(self) -> str:
        """Return the document's id."""

    @property
    def media_type(self) -> str:
        """Return the media type, with ``OLD_PARAMETER`` in old libraries."""


def place_in_source(view: TextView, document: DocumentEntry, start: int, end: int) -> SourcePlace:
    """Return where characters ``start:end`` of a document's text come from, as far as is known.

    A damaged map costs the place, not the answer; ``check`` reports it.
    """
    try:
        groups = view.origins(document.id, start, max(end, start + 1))
        anchors = [anchor for _, text in groups for anchor in read_anchors(text)]
    except CorruptStore:
        return SourcePlace()
    number = bisect_right(anchors, start, key=lambda anchor: anchor.start) - 1
    if number < 0:
        return SourcePlace(_line_without_anchors(view, document, start))
    line = anchors[number].line
    if line is not None:
        line += view.text(document.id, anchors[number].start, start).count("\n")
    # Characters are counted from the page's first: a span over two pages has no meaning.
    page, last_page = (view.place(document.id, at)[0] for at in (start, max(end - 1, start)))
    span = source_span(list(_runs(anchors[number:], end)), start, end)
    if span is None or page != last_page:
        return SourcePlace(line)
    return SourcePlace(line, *span)


def _runs(anchors: Iterable[Anchor], end: int) -> Iterator[Run]:
    """Yield the runs of the anchors before ``end``; none where one of them knows no characters."""
    runs: list[Run] = []
    for anchor in anchors:
        if anchor.start >= end:
            break
        if anchor.first is None:
            return
        if anchor.last is None:
            runs.append((anchor.start, anchor.first))
        else:
            runs.append((anchor.start, anchor.first, anchor.last))
    yield from runs


def _line_without_anchors(view: TextView, document: DocumentEntry, start: int) -> int | None:
    """Return the line in a document that was read before there were anchors.

    Streams the text up to there.
    """
    if not document.media_type.endswith(OLD_PARAMETER) or start > _FARTHEST_LINE:
        return None
    line, remaining = 1, start
    for piece in view.iter_text(document.id):
        line += piece.count("\n", 0, remaining)
        remaining -= len(piece)
        if remaining <= 0:
            break
    return line
