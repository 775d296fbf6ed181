"""Reads Word files (.docx): headings as sections, lists with their numbers, tables as rows.

Footnotes follow the paragraph that refers to them. Needs nothing beyond the standard library;
deleted and hidden text, headers, footers and comments are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from drt_engine.documents.base import Block, Notes, OpenDocument, Source, one_line
from drt_engine.documents.docx.parts import Parts, number, symbol
from drt_engine.documents.metadata import names_section, opening_title
from drt_engine.documents.structure.contents import CONTENTS_LINE
from drt_engine.documents.writer import BlockWriter, document_of, tidy
from drt_engine.documents.xml import Handler, parse
from drt_engine.documents.zips import SafeZip
from drt_engine.errors import UnreadableDocument

MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_WORD = frozenset(
    (
        "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
        "http://purl.oclc.org/ooxml/wordprocessingml/main",
    )
)
_MATH = "http://schemas.openxmlformats.org/officeDocument/2006/math"
# A simpler copy of a drawing or text box for old programs; text that a revision moved away.
_LEFT_OUT = frozenset(("Fallback", "moveFrom"))
_SIGNS = {"tab": " ", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "softHyphen": ""}
_TITLE_BLOCKS = 4
_TICKED, _UNTICKED = "\u2612", "\u2610"
_BOX = re.compile("(?:(?<!\\s)\\s+)?([\u2610-\u2612])\\s*")
_CONTENTS_STYLE = re.compile(r"toc (?:\d|heading)|table of figures")
_OLD_WORD = b"\xd0\xcf\x11\xe0"
_LONGEST_HEADING = 200  # contracts give whole clauses the style of a heading
_LONGEST_NOTE = 20_000


@dataclass
class _Paragraph:
    style: str = ""
    outline: int | None = None
    list_id: str | None = None
    list_level: int | None = None
    parts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class _Table:
    cells: list[list[str]] = field(default_factory=list)


class _Body(Handler):
    """Writes out the running text: paragraphs, lists, tables and the footnotes they refer to."""

    def __init__(self, parts: Parts, footnotes: dict[str, str], notes: Notes) -> None:
        self.writer = BlockWriter()
        self.title = ""
        self._parts, self._footnotes, self._skipped = parts, footnotes, notes
        self._paragraphs: list[_Paragraph] = []
        self._tables: list[_Table] = []
        self._footnote_keys: list[str] = []
        self._skip_depth = 0  # paragraph an element that is left out
        self._in_text = False
        self._hidden = False
        self._ticked = False
        self.in_title = True

    def start(self, name: str, attributes: dict[str, str], namespace: str, /) -> None:
        """Open an element of the text or of a formula; others are left out with their names."""
        if self._skip_depth or name in _LEFT_OUT:
            self._skip_depth += 1
        elif namespace == _MATH:
            self._in_text = self._in_text or name == "t"
        elif namespace in _WORD:
            self._start_word(name, attributes)

    def _start_word(self, name: str, attributes: dict[str, str]) -> None:
        if name == "p":
            self._paragraphs.append(_Paragraph())
        elif name == "tbl":
            self._tables.append(_Table())
        elif name == "tc" and self._tables:
            self._tables[-1].cells.append([])
        elif name in ("drawing", "pict"):
            self._skipped.skip("image", "no text to read")
        elif self._paragraphs:
            self._start_inline(name, attributes, self._paragraphs[-1])

    def _start_inline(self, name: str, attributes: dict[str, str], paragraph: _Paragraph) -> None:
        value = attributes.get("val", "")
        if name == "t":
            self._in_text = not self._hidden
        elif name == "r":
            self._hidden = False
        elif name == "vanish":
            self._hidden = value not in ("0", "false")
        elif name in _SIGNS:
            paragraph.parts.append(_SIGNS[name])
        elif name == "pStyle":
            paragraph.style = value
        elif name == "outlineLvl":
            paragraph.outline = number(value)
        elif name == "numId":
            paragraph.list_id = value
        elif name == "ilvl":
            paragraph.list_level = number(value)
        elif name == "sym":
            self._add_symbol(attributes, paragraph)
        elif name == "checkBox":
            self._ticked = False
        elif name in ("default", "checked"):  # of a tick box; the second overrides the first
            self._ticked = value not in ("0", "false")
        elif name in ("footnoteReference", "endnoteReference"):
            self._refer(name[: -len("Reference")] + attributes.get("id", ""), paragraph)

    def _add_symbol(self, attributes: dict[str, str], paragraph: _Paragraph) -> None:
        """Add a character of a picture font, whose code means nothing in Unicode."""
        sign = symbol(attributes.get("font", ""), attributes.get("char", ""))
        if sign:
            paragraph.parts.append(sign)
        else:
            self._skipped.skip("symbol of a picture font", "without a name")

    def _refer(self, key: str, paragraph: _Paragraph) -> None:
        if key in self._footnotes:
            self._footnote_keys.append(key)
            paragraph.parts.append(f"[{len(self._footnote_keys)}]")
            paragraph.notes.append(f"[{len(self._footnote_keys)}] {self._footnotes[key]}")

    def text(self, data: str, /) -> None:
        """Add text to the innermost paragraph: a text box is a paragraph within one."""
        if self._in_text and self._paragraphs:
            self._paragraphs[-1].parts.append(data)

    def end(self, name: str, /) -> None:
        """Close an element; paragraphs, rows and tables are written at their end."""
        if self._skip_depth:
            self._skip_depth -= 1
        elif name == "t":
            self._in_text = False
        elif name == "checkBox" and self._paragraphs:
            self._paragraphs[-1].parts.append(_TICKED if self._ticked else _UNTICKED)
        elif name == "p" and self._paragraphs:
            self._end_paragraph(self._paragraphs.pop())
        elif name == "tr" and self._tables:
            self._end_row(self._tables[-1])
        elif name == "tbl" and self._tables:
            self._end_row(self._tables.pop())

    def _end_row(self, table: _Table) -> None:
        cells = [" ".join(" ".join(cell).split()) for cell in table.cells]
        table.cells = []
        if not any(cells):
            return
        outer_tables = [open_table for open_table in self._tables if open_table is not table]
        outer_cells = outer_tables[-1].cells if outer_tables else []
        if outer_cells:
            outer_cells[-1].append(" | ".join(cells))  # a table in a cell
        else:
            self.writer.write("row", " | ".join(cells))

    def _end_paragraph(self, paragraph: _Paragraph) -> None:
        text = tidy(_BOX.sub(r" \1 ", "".join(paragraph.parts))).strip()
        cells = self._tables[-1].cells if self._tables else []
        if cells:
            cells[-1].extend([text, *paragraph.notes] if text else paragraph.notes)
        elif text:
            self._write(paragraph, text)
        for note in paragraph.notes if not cells else ():
            self.writer.write("paragraph", note)

    def _write(self, paragraph: _Paragraph, text: str) -> None:
        # What the paragraph says itself goes before what its style says.
        style = self._parts.styles.resolved(paragraph.style)
        level = style.level if paragraph.outline is None else paragraph.outline + 1
        list_id = style.list_id if paragraph.list_id is None else paragraph.list_id
        depth = style.list_level if paragraph.list_level is None else paragraph.list_level
        label = self._parts.numbering.label(list_id, depth) if list_id else ""
        kind = style.name.lower()
        if _CONTENTS_STYLE.fullmatch(kind):
            self._skipped.skip(*CONTENTS_LINE)
            return
        if kind == "title" and self.in_title:
            self.title = f"{self.title} {text}".strip()  # it may take several paragraphs
        self.in_title = self.in_title and (kind == "title" or not self.title)
        text = f"{label} {text}" if label else text
        if level is not None and level <= 9 and len(text) <= _LONGEST_HEADING:
            self.writer.write("paragraph", text, level)
        elif label:
            self.writer.write("item", "  " * min(depth, 8) + text)
        else:
            self.writer.write("paragraph", text)


class _Footnotes(Handler):
    """Collects the texts of footnotes or endnotes by their kind and id."""

    def __init__(self, kind: str) -> None:
        self._kind, self._key, self._in_text = kind, "", False
        self.texts: dict[str, str] = {}

    def start(self, name: str, attributes: dict[str, str], _namespace: str, /) -> None:
        """Begin a note, or one of its paragraphs."""
        if name == self._kind:
            # The lines that part notes from the text are notes with a type of their own.
            self._key = "" if "type" in attributes else self._kind + attributes.get("id", "")
        self._in_text = name == "t" and bool(self._key)
        if name == "p" and self._key in self.texts:
            self.texts[self._key] += " "

    def end(self, _name: str, /) -> None:
        """End a piece of text."""
        self._in_text = False

    def text(self, data: str, /) -> None:
        """Add text to the note."""
        if self._in_text and len(self.texts.get(self._key, "")) < _LONGEST_NOTE:
            self.texts[self._key] = self.texts.get(self._key, "") + data


def _footnotes(archive: SafeZip, parts: Parts, name: str) -> dict[str, str]:
    texts: dict[str, str] = {}
    folder = parts.main.rpartition("/")[0]
    for kind in ("footnote", "endnote"):
        handler, member = _Footnotes(kind), f"{folder}/{kind}s.xml"
        if member in archive:
            for _ in parse(archive.pieces(member), handler, name):
                pass
        texts |= handler.texts
    return {key: " ".join(text.split()) for key, text in texts.items() if text.strip()}


def _open(source: Source) -> SafeZip:
    with source.open() as file:
        if file.read(4) == _OLD_WORD:
            raise UnreadableDocument(
                f"{source.name} is protected by a password or in Word's old format; "
                "save it as a .docx file without a password."
            )
    return SafeZip(source, "Word")


def _read(source: Source, notes: Notes) -> Iterator[tuple[_Body, list[Block]]]:
    with _open(source) as archive:
        parts = Parts.read(archive, source.name)
        if parts.main not in archive:
            raise UnreadableDocument(
                f"{source.name} holds no Word document (no {parts.main}); get or export it again."
            )
        _note_parts(archive, notes, source.name)
        body = _Body(parts, _footnotes(archive, parts, source.name), notes)
        for _ in parse(archive.pieces(parts.main), body, source.name):
            yield body, body.writer.take()
        body.writer.finish()
        yield body, body.writer.take()


class _Contents(Handler):
    """Counts comments, and tells whether a part holds any text."""

    def __init__(self) -> None:
        self.comments = 0
        self.has_text = False

    def start(self, name: str, _attributes: dict[str, str], _namespace: str, /) -> None:
        """Count a comment."""
        self.comments += name == "comment"

    def text(self, data: str, /) -> None:
        """Look at a piece of text."""
        self.has_text = self.has_text or not data.isspace()


def _note_parts(archive: SafeZip, notes: Notes, name: str) -> None:
    """Note the parts beside the running text, unless nothing is in them."""
    for member in archive.members:
        leaf = member.rpartition("/")[2]
        is_edge = leaf.startswith(("header", "footer")) and leaf.endswith(".xml")
        if not is_edge and leaf != "comments.xml":
            continue
        contents = _Contents()
        try:
            for _ in parse(archive.pieces(member), contents, name):
                pass
        except UnreadableDocument:
            notes.skip(member, "broken XML")
            continue
        if is_edge and contents.has_text:
            notes.skip("header or footer", "beside the running text")
        elif contents.comments:
            notes.skip("comment", "beside the running text", contents.comments)


def _title(source: Source, core: str) -> str:
    if core := one_line(core):
        return core
    body: _Body | None = None
    opening = ""
    for body, blocks in islice(_read(source, Notes()), _TITLE_BLOCKS):
        if body.title and not body.in_title:
            break
        opening += "".join(block.text for block in blocks if block.section is None)
    if body is not None and body.title:
        return one_line(body.title)
    heading = body.writer.path.first_title if body is not None else None
    if heading and names_section(heading):
        heading = opening_title(opening)
    return heading or one_line(source.file_name)


@dataclass(frozen=True)
class DocxReader:
    """The running text of a Word file."""

    def recognises(self, head: bytes) -> bool:
        return head.startswith(b"PK\x03\x04") and b"word/" in head

    def open(self, source: Source) -> OpenDocument:
        with _open(source) as archive:
            parts = Parts.read(archive, source.name)
            title = _title(source, parts.metadata.title)
        return document_of(source, _read, title=title, media_type=MEDIA_TYPE, about=parts.metadata)
