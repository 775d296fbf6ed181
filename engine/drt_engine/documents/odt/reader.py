"""Reads OpenDocument text files (.odt): headings as sections, lists with numbers, tables as rows.

Footnotes follow the paragraph that refers to them. Needs nothing beyond the standard library;
deleted text, headers, footers, comments and tables of contents are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from drt_engine.documents.base import Block, Notes, OpenDocument, Source, one_line
from drt_engine.documents.docx.parts import number
from drt_engine.documents.metadata import names_section, opening_title
from drt_engine.documents.odt.parts import Counter, Parts
from drt_engine.documents.structure.contents import CONTENTS_LINE
from drt_engine.documents.writer import BlockWriter, document_of, tidy
from drt_engine.documents.xml import Handler, parse
from drt_engine.documents.zips import SafeZip
from drt_engine.errors import UnreadableDocument

MEDIA_TYPE = "application/vnd.oasis.opendocument.text"
_MAIN = "content.xml"
_MANIFEST = "META-INF/manifest.xml"
# Text that a revision deleted, comments, and what only programs need.
_LEFT_OUT = frozenset(
    ("tracked-changes", "annotation", "annotation-end", "forms", "sequence-decls", "scripts")
)
_CONTENTS = frozenset(
    ("table-of-content", "illustration-index", "table-index", "object-index", "alphabetical-index")
)
_BREAKS = {"tab": " ", "line-break": "\n"}
_MOST_REPEATED = 64  # cells or spaces that one element stands for
_LONGEST_HEADING = 200
_LONGEST_NOTE = 20_000
_TITLE_BLOCKS = 4


@dataclass
class _Paragraph:
    is_heading: bool = False
    level: int = 1
    style: str = ""
    parts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class _List:
    style: str
    counter: Counter


@dataclass
class _Table:
    cells: list[list[str]] = field(default_factory=list)
    repeated: int = 1


class _Body(Handler):
    """Writes out the running text: paragraphs, lists, tables and the footnotes they refer to."""

    def __init__(self, parts: Parts, notes: Notes) -> None:
        self.writer = BlockWriter()
        self.title = ""
        self._parts, self._skipped = parts, notes
        self._paragraphs: list[_Paragraph] = []
        self._lists: list[_List] = []
        self._counters: dict[str, Counter] = {}  # by the style of a list
        self._tables: list[_Table] = []
        self._headings = Counter()
        self._label = ""  # that the next paragraph of an item begins with
        self._in_body = False
        self._left_out = 0  # depth within what is left out
        self._in_contents = 0
        self._note_depth = 0  # depth within a footnote
        self._note: list[str] | None = None
        self._in_citation = False  # what the note is called in the text
        self._num_notes = 0

    def start(self, name: str, attributes: dict[str, str], namespace: str, /) -> None:
        """Open an element of the text; styles are of use to lists."""
        if self._left_out or name in _LEFT_OUT:
            if not self._left_out and name == "annotation":
                self._skipped.skip("comment", "beside the running text")
            self._left_out += 1
        elif self._in_contents or name in _CONTENTS:
            self._in_contents += 1
        elif not self._in_body:
            self._parts.styles.start(name, attributes, namespace)
            self._in_body = name == "text" and namespace.endswith("office:1.0")
        elif self._note is not None:
            self._note_depth += 1
            self._in_citation = name == "note-citation"
            if name == "p" and self._note:
                self._note.append(" ")
        else:
            self._start_text(name, attributes)

    def _start_text(self, name: str, attributes: dict[str, str]) -> None:
        if name in ("p", "h"):
            level = number(attributes.get("outline-level", "1")) or 1
            style = attributes.get("style-name", "")
            self._paragraphs.append(_Paragraph(name == "h", level, style))
        elif name == "list":
            self._open_list(attributes)
        elif name in ("list-item", "list-header") and self._lists:
            levels = self._parts.styles.styles.get(self._lists[-1].style, {})
            counter = self._lists[-1].counter
            is_item = name == "list-item"
            self._label = counter.label(levels, len(self._lists)) if is_item else ""
        elif name == "table":
            self._tables.append(_Table())
        elif name in ("table-cell", "covered-table-cell") and self._tables:
            repeated = number(attributes.get("number-columns-repeated", "1")) or 1
            self._tables[-1].repeated = min(repeated, _MOST_REPEATED)
            self._tables[-1].cells.append([])
        elif name == "image":
            self._skipped.skip("image", "no text to read")
        elif name == "note" and self._paragraphs:
            self._num_notes += 1
            self._paragraphs[-1].parts.append(f"[{self._num_notes}]")
            self._note, self._note_depth = [], 1
        elif name in _BREAKS and self._paragraphs:
            self._paragraphs[-1].parts.append(_BREAKS[name])
        elif name == "s" and self._paragraphs:
            count = min(number(attributes.get("c", "1")) or 1, _MOST_REPEATED)
            self._paragraphs[-1].parts.append(" " * count)

    def _open_list(self, attributes: dict[str, str]) -> None:
        outer = self._lists[-1] if self._lists else None
        style = attributes.get("style-name", "") or (outer.style if outer else "")
        if outer is not None:
            counter = outer.counter
        elif attributes.get("continue-numbering") == "true" or "continue-list" in attributes:
            counter = self._counters.setdefault(style, Counter())
        else:
            counter = self._counters[style] = Counter()
        self._lists.append(_List(style, counter))

    def text(self, data: str, /) -> None:
        """Add text to the innermost paragraph or to the note."""
        if self._left_out or self._in_contents or not self._in_body:
            return
        if self._note is not None:
            if not self._in_citation and sum(map(len, self._note)) < _LONGEST_NOTE:
                self._note.append(data)
        elif self._paragraphs:
            self._paragraphs[-1].parts.append(data.replace("\n", " "))

    def end(self, name: str, /) -> None:
        """Close an element; paragraphs, rows and tables are written at their end."""
        if self._left_out:
            self._left_out -= 1
        elif self._in_contents:
            self._in_contents -= 1
            if name == "p":
                self._skipped.skip(*CONTENTS_LINE)
        elif self._note is not None:
            self._end_in_note()
        elif name in ("p", "h") and self._paragraphs:
            self._end_paragraph(self._paragraphs.pop())
        elif name == "list" and self._lists:
            self._lists.pop()
            self._label = ""
        elif name in ("table-cell", "covered-table-cell") and self._tables:
            table = self._tables[-1]
            if table.cells:  # the same cell again
                table.cells += [list(table.cells[-1]) for _ in range(table.repeated - 1)]
            table.repeated = 1
        elif name == "table-row" and self._tables:
            self._end_row(self._tables[-1])
        elif name == "table" and self._tables:
            self._end_row(self._tables.pop())

    def _end_in_note(self) -> None:
        self._note_depth -= 1
        self._in_citation = False
        if self._note_depth or self._note is None:
            return
        text = " ".join("".join(self._note).split())
        if text and self._paragraphs:
            self._paragraphs[-1].notes.append(f"[{self._num_notes}] {text}")
        self._note = None

    def _end_row(self, table: _Table) -> None:
        cells = [" ".join(" ".join(cell).split()) for cell in table.cells]
        table.cells = []
        while cells and not cells[-1]:
            cells.pop()
        if not cells:
            return
        outer_tables = [open_table for open_table in self._tables if open_table is not table]
        outer_cells = outer_tables[-1].cells if outer_tables else []
        if outer_cells:
            outer_cells[-1].append(" | ".join(cells))  # a table in a cell
        else:
            self.writer.write("row", " | ".join(cells))

    def _end_paragraph(self, paragraph: _Paragraph) -> None:
        text = tidy("".join(paragraph.parts)).strip()
        cells = self._tables[-1].cells if self._tables else []
        if cells:
            cells[-1].extend([text, *paragraph.notes] if text else paragraph.notes)
        elif text:
            self._write(paragraph, text)
        for note in paragraph.notes if not cells else ():
            self.writer.write("paragraph", note)

    def _write(self, paragraph: _Paragraph, text: str) -> None:
        if paragraph.is_heading:
            number_of = self._headings.label(self._parts.heading_levels, paragraph.level)
            text = f"{number_of} {text}" if number_of else text
            level = paragraph.level if len(text) <= _LONGEST_HEADING else None
            self.writer.write("paragraph", text, level)
            return
        if not self.title and "title" in self._parts.styles.paragraph_names(paragraph.style):
            self.title = text
        if not self._lists:
            self.writer.write("paragraph", text)
            return
        indent = "  " * min(len(self._lists) - 1, 8)
        label, self._label = self._label, ""
        if label:
            self.writer.write("item", f"{indent}{label} {text}")
        elif self.writer.last_kind == "item":
            self.writer.write("item", f"{indent}  {text}")
        else:
            self.writer.write("paragraph", text)


def _open(source: Source) -> SafeZip:
    archive = SafeZip(source, "OpenDocument")
    if _MAIN not in archive:
        archive.close()
        raise UnreadableDocument(
            f"{source.name} holds no OpenDocument text (no {_MAIN}); get or export it again."
        )
    if _MANIFEST in archive and b"encryption-data" in archive.read(_MANIFEST):
        archive.close()
        raise UnreadableDocument(
            f"{source.name} is protected by a password; save a copy without one."
        )
    return archive


def _read(source: Source, notes: Notes) -> Iterator[tuple[_Body, list[Block]]]:
    with _open(source) as archive:
        body = _Body(Parts.read(archive, source.name), notes)
        for _ in parse(archive.pieces(_MAIN), body, source.name):
            yield body, body.writer.take()
        body.writer.finish()
        yield body, body.writer.take()


def _title(source: Source, stated: str) -> str:
    """Return the title in the text, which people see, else that of the metadata, or a heading."""
    heading: str | None = None
    opening = ""
    for body, blocks in islice(_read(source, Notes()), _TITLE_BLOCKS):
        if body.title:
            return one_line(body.title)
        heading = body.writer.path.first_title
        opening += "".join(block.text for block in blocks if block.section is None)
    if heading and names_section(heading):
        heading = opening_title(opening)
    return stated or heading or one_line(source.file_name)


@dataclass(frozen=True)
class OdtReader:
    """The running text of an OpenDocument text file."""

    def recognises(self, head: bytes) -> bool:
        return head.startswith(b"PK\x03\x04") and MEDIA_TYPE.encode() in head[:200]

    def open(self, source: Source) -> OpenDocument:
        with _open(source) as archive:
            about = Parts.read(archive, source.name).metadata
        title = _title(source, about.title)
        return document_of(source, _read, title=title, media_type=MEDIA_TYPE, about=about)
