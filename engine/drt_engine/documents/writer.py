"""Lays out paragraphs, list items, table rows and headings as text with sections.

Shared by the formats whose source is a tree; knows none of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from drt_engine.documents.base import Block, Notes, OpenDocument, SectionPath, Source, regroup
from drt_engine.documents.encodings import empty
from drt_engine.documents.metadata import Metadata

_TIGHT = frozenset(("item", "row"))  # follow each other without an empty line
_SPACES = re.compile(r" {2,}")
_BREAK = re.compile(r" *\n[ \n]*")


class BlockWriter:
    """Lays out paragraphs, items, rows and headings as text, each piece with its section.

    Items of a list and rows of a table follow each other on lines of their own; an empty line is
    between all else.
    """

    def __init__(self) -> None:
        self.path = SectionPath()
        self.ready: list[Block] = []
        self.last_kind = ""
        self.page: int | None = None  # of the next piece, where the source names pages
        self._last_place: tuple[int | None, str | None] = (None, None)

    def write(self, kind: str, text: str, level: int | None = None) -> None:
        """Add a piece; ``kind`` "rest" continues the last one, ``level`` makes it a heading."""
        separator = "\n" if kind in _TIGHT and kind == self.last_kind else "\n\n"
        if self.last_kind and kind != "rest":
            self.ready.append(Block(separator, *self._last_place))
        if level is not None:
            self.path.enter(level, text)
        self._last_place = (self.page, self.path.text)
        self.ready.append(Block(text, *self._last_place))
        self.last_kind = self.last_kind if kind == "rest" else kind

    def finish(self) -> None:
        """End the text with a newline."""
        if self.last_kind:
            self.ready.append(Block("\n", *self._last_place))

    def take(self) -> list[Block]:
        """Return the blocks since the last call."""
        ready, self.ready = self.ready, []
        return ready


def document_of(
    source: Source,
    read: Callable[[Source, Notes], Iterable[tuple[object, list[Block]]]],
    *,
    title: str,
    media_type: str,
    about: Metadata,
) -> OpenDocument:
    """Return the document that ``read`` yields in parts; raise EmptyDocument without any text."""

    def blocks(notes: Notes) -> Iterator[Block]:
        for _, part in read(source, notes):
            yield from part

    if not any(block.text.strip() for block in blocks(Notes())):
        raise empty(source)
    notes = Notes()
    return OpenDocument(title, media_type, regroup(blocks(notes)), notes, about.author, about.date)


def tidy(text: str) -> str:
    """Return text with single spaces, none around line breaks, and at most one empty line."""
    text = _SPACES.sub(" ", text)
    return _BREAK.sub(lambda match: "\n\n" if match[0].count("\n") > 1 else "\n", text)
