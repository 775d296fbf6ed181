"""Lays out paragraphs, list items, table rows and headings as text with sections.

Shared by the formats whose source is a tree; knows none of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from drt_engine.documents.base import (
    Block,
    Node,
    Notes,
    OpenDocument,
    SectionPath,
    Source,
    regroup,
)
from drt_engine.documents.encodings import empty
from drt_engine.documents.metadata import Metadata
from drt_engine.documents.structure.column_names import ColumnNames
from drt_engine.documents.structure.footnotes import note_nodes
from drt_engine.documents.structure.struck import struck_nodes

_TIGHT = frozenset(("item", "row"))  # follow each other without an empty line
_SPACES = re.compile(r" {2,}")
_BREAK = re.compile(r"(?<! ) *\n[ \n]*")


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
        self._row = 0  # of the table that is written
        self._columns = ColumnNames()  # of the same table

    def write_notes(self, notes: Sequence[str], text: str) -> None:
        """Add footnotes behind a paragraph, whose ``text`` refers to them."""
        for note in notes:
            self.write("note", note)
            nodes = tuple(note_nodes(note, text)) or self.ready[-1].nodes
            self.ready[-1] = replace(self.ready[-1], nodes=nodes)

    def write(self, kind: str, text: str, level: int | None = None) -> None:
        """Add a piece; ``kind`` "rest" continues the last one, ``level`` makes it a heading."""
        separator = "\n" if kind in _TIGHT and kind == self.last_kind else "\n\n"
        if self.last_kind and kind != "rest":
            self.ready.append(Block(separator, *self._last_place))
        if level is not None:
            self.path.enter(level, text)
        self._last_place = (self.page, self.path.text)
        nodes = self._nodes(kind if level is None else "heading", text, level or 0)
        self.ready.append(Block(text, *self._last_place, nodes=nodes))
        self.last_kind = self.last_kind if kind == "rest" else kind

    def _nodes(self, kind: str, text: str, level: int) -> tuple[Node, ...]:
        """Return the node of a piece, and those of what is struck out in it."""
        start, end = len(text) - len(text.lstrip()), len(text.rstrip())
        if start >= end or kind == "rest":
            return ()
        self._row = self._row + 1 if kind == self.last_kind == "row" else int(kind == "row")
        header = ""
        if kind == "item":
            level = start // 2 + 1
        elif kind == "row":
            self._columns = ColumnNames() if self._row == 1 else self._columns
            header = self._columns.see(text.split(" | "))
        return (Node(kind, start, end, level, self._row, header), *struck_nodes(text))

    def end_table(self) -> None:
        """Let the next row begin another table."""
        if self.last_kind == "row":
            self.last_kind = "table"

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
