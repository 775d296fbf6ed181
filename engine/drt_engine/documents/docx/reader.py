"""Reads Word files (.docx): headings as sections, lists with their numbers, tables as rows.

Footnotes follow the paragraph that refers to them; headers are before the text and footers behind
it, each once. Needs nothing beyond the standard library; deleted and hidden text and comments are
left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from drt_engine.documents.base import Block, Notes, OpenDocument, SectionPath, Source, one_line
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
_MOST_COLUMNS = 64
_LONGEST_NAME = 60  # characters of a name that is repeated above each of its columns
_LONGEST_EDGE = 4000  # characters of all headers, or all footers
_FEWEST_WORDS = 3  # beside the number of a page, which is no text: "Page 3 of 7"


@dataclass
class _Paragraph:
    style: str = ""
    outline: int | None = None
    list_id: str | None = None
    list_level: int | None = None
    parts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class _Cell:
    texts: list[str] = field(default_factory=list)
    columns: int = 1
    goes_on: bool = False  # with the cell above

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


@dataclass
class _Table:
    """A table that is read; those within its cells follow it, each below the name of its row."""

    cells: list[_Cell] = field(default_factory=list)  # of the row that is read
    above: dict[int, str] = field(default_factory=dict)  # by column, of the last row
    rows: int = 0
    inner: list[tuple[str, list[str]]] = field(default_factory=list)
    unnamed: list[list[str]] = field(default_factory=list)  # tables of the row that is read
    written: list[str] = field(default_factory=list)  # rows, of a table in a cell

    def row(self) -> list[str]:
        """Return a text for each column of the row; merged cells have theirs in all rows."""
        row: list[str] = []
        for cell in self.cells:
            text = self.above.get(len(row), "") if cell.goes_on else cell.text
            is_name = self.rows == 0 and len(text) <= _LONGEST_NAME
            spare = min(cell.columns, _MOST_COLUMNS - len(row)) - 1 if len(self.cells) > 1 else 0
            row += [text] + [text if is_name else ""] * max(0, spare)
        return row


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
        self._struck = False
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
            self._tables[-1].cells.append(_Cell())
        elif name in ("vMerge", "gridSpan") and self._tables and self._tables[-1].cells:
            _span(self._tables[-1].cells[-1], name, attributes.get("val", ""))
        elif name in ("drawing", "pict"):
            self._skipped.skip("image", "no text to read")
        elif self._paragraphs:
            self._start_inline(name, attributes, self._paragraphs[-1])

    def _start_inline(self, name: str, attributes: dict[str, str], paragraph: _Paragraph) -> None:
        value = attributes.get("val", "")
        if name == "t":
            self._in_text = not self._hidden
        elif name == "r":
            self._hidden = self._struck = False
        elif name == "vanish":
            self._hidden = value not in ("0", "false")
        elif name in ("strike", "dstrike"):
            self._struck = value not in ("0", "false")
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
            self._paragraphs[-1].parts.append(f"~~{data}~~" if self._struck else data)

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
            self._end_row(self._tables[-1])
            self._end_table(self._tables.pop())

    def _end_row(self, table: _Table) -> None:
        row = table.row()
        table.cells, table.above = [], dict(enumerate(row))
        name = next(filter(None, row), "")
        table.inner += [(name, rows) for rows in table.unnamed]
        table.unnamed = []
        if not any(row):
            return
        table.rows += 1
        if len(self._tables) > 1:
            table.written.append(" | ".join(row))
        else:
            self.writer.write("row", " | ".join(row))

    def _end_table(self, table: _Table) -> None:
        """Write the tables in a table's cells below it, or leave them to the table around it."""
        if self._tables:
            outer = self._tables[-1]
            if len(table.written) == 1 and outer.cells:  # no table of its own
                outer.cells[-1].texts.append(table.written.pop().replace(" | ", " "))
            outer.unnamed += [table.written] if table.written else []
            outer.inner += table.inner
            return
        self.writer.end_table()
        for name, rows in table.inner:
            if name:
                self.writer.write("paragraph", name)
            for row in rows:
                self.writer.write("row", row)
            self.writer.end_table()

    def _end_paragraph(self, paragraph: _Paragraph) -> None:
        parts = "".join(paragraph.parts).replace("~~~~", "")  # of one struck-out text
        text = tidy(_BOX.sub(r" \1 ", parts)).strip()
        cells = self._tables[-1].cells if self._tables else []
        if cells:
            cells[-1].texts.extend([text, *paragraph.notes] if text else paragraph.notes)
        elif text:
            self._write(paragraph, text)
        self.writer.write_notes(paragraph.notes if not cells else (), text)

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


def _span(cell: _Cell, name: str, value: str) -> None:
    """Note how many columns a cell takes, or that it goes on with the one above."""
    if name == "vMerge":
        cell.goes_on = value != "restart"
    else:
        cell.columns = min(number(value) or 1, _MOST_COLUMNS)


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


def _read(
    source: Source, notes: Notes, *, edges: bool = True
) -> Iterator[tuple[_Body, list[Block]]]:
    with _open(source) as archive:
        parts = Parts.read(archive, source.name)
        if parts.main not in archive:
            raise UnreadableDocument(
                f"{source.name} holds no Word document (no {parts.main}); get or export it again."
            )
        headers, footers = _edges(archive, notes, source.name) if edges else ([], [])
        body = _Body(parts, _footnotes(archive, parts, source.name), notes)
        for text in headers:
            body.writer.write("paragraph", text)
        for _ in parse(archive.pieces(parts.main), body, source.name):
            yield body, body.writer.take()
        body.writer.path = SectionPath()
        for text in footers:
            body.writer.write("paragraph", text)
        body.writer.finish()
        yield body, body.writer.take()


class _Contents(Handler):
    """Counts comments, and collects the paragraphs of a header or footer without its fields."""

    def __init__(self) -> None:
        self.comments = 0
        self.paragraphs: list[tuple[str, bool]] = []  # and whether it has a field
        self._in_text = False
        self._fields = 0  # that are open: the number of a page, mostly

    def start(self, name: str, attributes: dict[str, str], namespace: str, /) -> None:
        """Count a comment, or begin a paragraph, a text or a field."""
        self.comments += name == "comment"
        self._in_text = name == "t" and namespace in _WORD
        if name == "p":
            self.paragraphs.append(("", False))
        elif name in ("tab", "br"):
            self._add(" ")
        elif name == "fldSimple" or attributes.get("fldCharType") == "begin":
            self._fields += 1
            self._add("", has_field=True)
        elif attributes.get("fldCharType") == "end":
            self._fields = max(0, self._fields - 1)

    def end(self, name: str, /) -> None:
        """End a text or a field."""
        self._in_text = False
        if name == "fldSimple":
            self._fields = max(0, self._fields - 1)

    def text(self, data: str, /) -> None:
        """Add a piece of text."""
        if self._in_text and not self._fields:
            self._add(data)

    def _add(self, data: str, *, has_field: bool = False) -> None:
        if self.paragraphs:
            text, had_field = self.paragraphs[-1]
            self.paragraphs[-1] = ((text + data)[:_LONGEST_EDGE], had_field or has_field)


def _edges(archive: SafeZip, notes: Notes, name: str) -> tuple[list[str], list[str]]:
    """Return what headers and what footers say, each once; note comments, which are left out."""
    headers: dict[str, None] = {}
    footers: dict[str, None] = {}
    for member in sorted(archive.members):
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
        if contents.comments and not is_edge:
            notes.skip("comment", "beside the running text", contents.comments)
        for paragraph, numbered in contents.paragraphs if is_edge else ():
            text = " ".join(paragraph.split())
            if text and (not numbered or len(text.split()) >= _FEWEST_WORDS):
                (headers if leaf.startswith("header") else footers)[text] = None
    return list(headers), list(footers)


def _title(source: Source, core: str) -> str:
    if core := one_line(core):
        return core
    body: _Body | None = None
    opening = ""
    for body, blocks in islice(_read(source, Notes(), edges=False), _TITLE_BLOCKS):
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
