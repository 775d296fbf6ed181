"""Says what a span of a stored document is: prose, or a heading, a line of contents, boilerplate.

All is derived from what libraries of every version hold: text, pages and sections. Asking uses it
to quote no heading, no running head and no bare mark: ``block_kind(...) in NEVER_QUOTED``.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from operator import itemgetter
from typing import Protocol

from drt_engine.documents.source_map import TextView
from drt_engine.documents.structure.boilerplate import (
    GUTENBERG_HEAD,
    GUTENBERG_TAIL,
    end_of_header,
    is_boilerplate_line,
    start_of_licence,
)
from drt_engine.documents.structure.contents import heads_contents
from drt_engine.documents.structure.lines import (
    BlockKind,
    Line,
    count_heading_lines,
    is_mark,
    kinds_of,
    split_lines,
)

NEVER_QUOTED: frozenset[BlockKind] = frozenset(
    ("heading", "contents", "boilerplate", "running head", "mark")
)

_MARKDOWN = ("text/markdown", "application/x-ipynb+json")
_BEFORE, _AFTER = 3_000, 600  # characters around a span that are looked at
_PAGE_LINES = 160  # characters at a page's border in which a running head is
_NEIGHBOURS = (-4, -3, -2, -1, 1, 2, 3, 4)
_FEWEST_REPEATS = 2  # of these pages
_LONGEST_HEAD = 100
_FIELDS_END = 2_000  # characters from the start in which "Key: value" lines are the document's own
_VALUE = re.compile(
    r"\b(?:1[5-9]|20)\d\d\b|\d\.\d|\b(?:January|February|March|April|May|June|July|August|September"
    r"|October|November|December) \d{1,2}\b"
)
_PAGE_NUMBER = re.compile(r"\d+|\b[ivxlc]+\b", re.IGNORECASE)


class StoredText(TextView, Protocol):
    """What telling kinds needs of a library; ``store.view.LibraryView`` has it."""

    def places(self, document_id: str, /) -> list[tuple[int, int | None, str | None]]:
        """Return where page or section changes: (start, page, section), in order."""


class StoredDocument(Protocol):
    """What telling kinds needs of a document's row."""

    @property
    def id(self) -> str:
        """Return the document's id."""

    @property
    def title(self) -> str:
        """Return the document's title."""

    @property
    def media_type(self) -> str:
        """Return the document's media type."""

    @property
    def characters(self) -> int:
        """Return the length of its text."""


def block_kind(view: StoredText, document: StoredDocument, start: int, end: int) -> BlockKind:
    """Return what characters ``start:end`` of a document are: see ``BlockKinds.kind``."""
    return BlockKinds(view, document).kind(start, end)


class BlockKinds:
    """Tells the kinds of spans of one document, which is looked over once."""

    def __init__(self, view: StoredText, document: StoredDocument) -> None:
        self._view, self._document = view, document

    def kind(self, start: int, end: int) -> BlockKind:
        """Return what characters ``start:end`` are.

        Where they are of several lines, that of the first that may be quoted. A date or a version
        after the first word of a heading is a "field": what the section is about.
        """
        pairs = self.lines(start, end)
        kinds = [kind for _, kind in pairs]
        kind = next((kind for kind in kinds if kind not in NEVER_QUOTED), kinds[0])
        line, span = pairs[0][0], self._view.text(self._document.id, start, end)
        opens_line = not line.text[: max(0, start - line.start)].strip("#* \t")
        if opens_line and is_mark(span):
            return "mark"
        return "field" if kind == "heading" and not opens_line and _VALUE.search(span) else kind

    def lines(self, start: int, end: int) -> list[tuple[Line, BlockKind]]:
        """Return the lines with a character of ``start:end``, each with its kind.

        The first line is cut where it begins far before ``start``.
        """
        low = max(0, start - _BEFORE)
        high = min(self._document.characters, max(end, start + 1) + _AFTER)
        lines = split_lines(self._view.text(self._document.id, low, high), low)
        kinds = kinds_of(
            lines,
            in_fence=low > 0 and _begins_in_fence(lines),
            markdown=self._document.media_type.startswith(_MARKDOWN),
        )
        self._mark_headings(lines, kinds)
        pairs = [
            (line, self._refined(line, kind))
            for line, kind in zip(lines, kinds, strict=True)
            if line.start < end and start < line.end
        ]
        return pairs or [(Line(start, end, ""), "mark")]

    def _mark_headings(self, lines: Sequence[Line], kinds: list[BlockKind]) -> None:
        """Mark the lines that begin a section with its name, the title, and the contents below."""
        number = bisect_left(self._places, lines[0].start, key=itemgetter(0))
        line_number = 0
        for start, _, section in self._places[number:]:
            while line_number < len(lines) and lines[line_number].end <= start:
                line_number += 1
            if line_number == len(lines):
                break
            count = count_heading_lines(lines, line_number, section) if section else 0
            kinds[line_number : line_number + count] = ["heading"] * count
        if lines[0].start == 0 and self._document.title:
            count = count_heading_lines(lines, 0, self._document.title)
            kinds[:count] = ["heading"] * count
        for index, (line, kind) in enumerate(zip(lines, kinds, strict=True)):
            if kind == "paragraph" and heads_contents(line.text):
                kinds[index] = "heading"

    def _refined(self, line: Line, kind: BlockKind) -> BlockKind:
        """Return the kind of a line in view of its place in the document."""
        if self._is_boilerplate(line):
            return "boilerplate"
        if kind == "field" and line.start > _FIELDS_END:
            return "paragraph"  # "Note: ..." in the middle is prose
        if kind in ("paragraph", "heading") and self._is_running_head(line):
            return "running head"
        return kind

    def _is_boilerplate(self, line: Line) -> bool:
        first, last = self._own_text
        return not first <= line.start < last or is_boilerplate_line(line.text)

    def _is_running_head(self, line: Line) -> bool:
        """Return whether the line is at the border of its page as the same line is at others'."""
        if len(line.text) > _LONGEST_HEAD or len(self._pages) < 4:
            return False
        page = bisect_right(self._pages, line.start) - 1
        signature = _signature(line.text)
        if page < 0 or signature not in self._border_lines(page):
            return False
        nearby_pages = (page + by for by in _NEIGHBOURS if 0 <= page + by < len(self._pages))
        repeats = sum(signature in self._border_lines(nearby_page) for nearby_page in nearby_pages)
        return repeats >= _FEWEST_REPEATS

    def _border_lines(self, page: int) -> list[str]:
        """Return what the first two and the last two lines of a page are, whatever their number."""
        start = self._pages[page]
        end = self._pages[page + 1] if page + 1 < len(self._pages) else self._document.characters
        texts = (
            self._view.text(self._document.id, start, min(end, start + _PAGE_LINES)),
            self._view.text(self._document.id, max(start, end - _PAGE_LINES), end),
        )
        head, foot = ([line for line in text.split("\n") if line.strip()] for text in texts)
        return [_signature(line) for line in (*head[:2], *foot[-2:])]

    @cached_property
    def _places(self) -> list[tuple[int, int | None, str | None]]:
        return self._view.places(self._document.id)

    @cached_property
    def _pages(self) -> list[int]:
        """Where each page begins."""
        starts, last_page = [], None
        for start, page, _ in self._places:
            if page is not None and page != last_page:
                starts.append(start)
                last_page = page
        return starts

    @cached_property
    def _own_text(self) -> tuple[int, int]:
        """Where the text between a publisher's header and licence begins and ends."""
        document_id, characters = self._document.id, self._document.characters
        start = end_of_header(self._view.text(document_id, 0, GUTENBERG_HEAD))
        if not start:
            return 0, characters
        low = max(start, characters - GUTENBERG_TAIL)
        licence = start_of_licence(self._view.text(document_id, low, characters))
        return start, characters if licence is None else low + licence


def _begins_in_fence(lines: Sequence[Line]) -> bool:
    """Return whether the first line is probably code: the next fence only closes.

    An opening fence has an empty line before it, a closing one has not.
    """
    for before, line in pairwise(lines):
        if line.text.lstrip().startswith(("```", "~~~")):
            return bool(before.text.strip()) and not line.text.strip().strip("`~")
    return False


def _signature(line: str) -> str:
    return _PAGE_NUMBER.sub("#", " ".join(line.split()))
