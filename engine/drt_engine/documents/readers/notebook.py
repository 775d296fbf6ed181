"""Reads Jupyter notebooks: prose, code and printed results in order, headings as sections.

Knows the notebook's JSON; headings are found by ``markdown``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from drt_engine.documents.base import (
    Block,
    Notes,
    OpenDocument,
    Source,
    date_of,
    one_line,
    regroup,
)
from drt_engine.documents.encodings import characters, empty, find_encoding, split_lines
from drt_engine.documents.html.reader import HtmlReader
from drt_engine.documents.metadata import Metadata
from drt_engine.documents.readers.markdown import sections
from drt_engine.errors import DocumentError, UnreadableDocument

_LONGEST_OUTPUT = 20_000
_FENCE = re.compile(r"`{3,}")
_ESCAPE_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_REPR = re.compile(r"<[^<>]*>")  # <IPython.core.display.HTML object>
_CODE = r"(?P<code>^(?P<fence>`{3,}|~{3,}).*?(?:^(?P=fence)|\Z)|`[^`\n]*`)"
_TABLE = r"(?P<table><table\b(?:(?!<table\b).)*?</table\s*>)"
_TAG = (
    r"<(?P<tag>/?(?:div|span|center|font|p|br|hr|i|b|u|em|strong|small|big|sub|sup|a|"
    r"img|details|summary|left|right|blockquote|cite|mark|section|h[1-6]|ul|ol|li|tr|td|th|kbd))"
    r"(?:\s[^<>]*)?/?>"
)
_TAGS = re.compile(f"{_CODE}|{_TABLE}|{_TAG}", re.DOTALL | re.MULTILINE | re.IGNORECASE)
_HEAD = re.compile(rb'\s*\{\s*"(?:cells|metadata|nbformat)"')


def _load(source: Source, encoding: str) -> dict[str, Any]:
    try:
        value = json.loads("".join(characters(source, encoding)))
    except (ValueError, RecursionError) as error:
        raise _broken(source, str(error)) from error
    if not isinstance(value, dict):
        raise _broken(source, "no JSON object")
    return value


def _broken(source: Source, reason: str) -> UnreadableDocument:
    return UnreadableDocument(
        f"{source.name} is not a whole notebook ({one_line(reason).rstrip('.')}); save it again."
    )


def _cells(notebook: dict[str, Any], source: Source) -> list[dict[str, Any]]:
    cells = notebook.get("cells")
    sheets = notebook.get("worksheets")  # before version 4
    if cells is None and isinstance(sheets, list):
        cells = [c for s in sheets if isinstance(s, dict) for c in _listed(s.get("cells"))]
    if not isinstance(cells, list):
        raise _broken(source, "no list of cells")
    return [cell for cell in cells if isinstance(cell, dict)]


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    """Return a multi-line string, which notebooks write as one or as a list of lines."""
    if isinstance(value, list):
        value = "".join(part for part in value if isinstance(part, str))
    text = value if isinstance(value, str) else ""
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")


def _fenced(text: str, language: str = "") -> str:
    """Return a literal block with a fence longer than any in it."""
    longest = max((len(run) for run in _FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n\n"


def _language(notebook: dict[str, Any]) -> str:
    metadata = notebook.get("metadata")
    info = metadata.get("language_info") if isinstance(metadata, dict) else None
    name = info.get("name") if isinstance(info, dict) else None
    return name if isinstance(name, str) and name.isalnum() else ""


def _markdown(notebook: dict[str, Any], source: Source, notes: Notes) -> Iterator[str]:
    """Yield the notebook as Markdown, cell by cell."""
    language = _language(notebook)
    for cell in _cells(notebook, source):
        text = _text(cell.get("source", cell.get("input")))
        kind = cell.get("cell_type")
        if kind == "code":
            if text.strip():
                yield _fenced(text, language)
            for output in _listed(cell.get("outputs")):
                yield from _output(output, notes)
        elif kind == "heading":  # before version 4
            level = cell.get("level")
            depth = level if isinstance(level, int) and 1 <= level <= 6 else 1
            yield f"{'#' * depth} {one_line(text)}\n\n"
        elif text.strip():
            yield _without_tags(text, notes).strip("\n").rstrip() + "\n\n"
        for name in cell.get("attachments") or ():
            notes.skip(f"attachment {name}", "no text to read")


def _without_tags(text: str, notes: Notes) -> str:
    """Return Markdown without the HTML that only lays it out; tables as rows, code as it is."""

    def plain(match: re.Match[str]) -> str:
        if match["code"]:
            return match["code"]
        if match["table"]:
            return f"\n\n{_html_text(match['table'])}\n\n"
        name = match["tag"].lower()
        if name == "img":
            notes.skip("image", "no text to read")
        return "\n" if name in ("br", "p", "/p", "/div", "/tr", "/li") else ""

    return _TAGS.sub(plain, text)


def _html_text(html: str) -> str:
    """Return the text of a piece of HTML; "" where it has none."""
    source = Source.from_bytes(html.encode("utf-8", "replace"), "HTML")
    try:
        with HtmlReader().open(source) as document:
            return "".join(block.text for block in document.blocks).strip("\n")
    except DocumentError:
        return ""


def _output(output: object, notes: Notes) -> Iterator[str]:
    if not isinstance(output, dict):
        return
    data = output.get("data")
    data = data if isinstance(data, dict) else output
    text = _text(output.get("text")) or _result(data)
    if output.get("output_type") in ("error", "pyerr"):
        text = f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}"
    if any(kind.startswith(("image/", "video/", "audio/")) for kind in data) or "png" in data:
        notes.skip("picture in a result", "no text to read")
        return  # its text only says that it is a picture
    text = _ESCAPE_CODES.sub("", text)
    if len(text) > _LONGEST_OUTPUT:
        notes.skip("end of a result", f"beyond {_LONGEST_OUTPUT} characters")
        text = text[:_LONGEST_OUTPUT]
    if text.strip():
        yield _fenced(text)


def _result(data: dict[str, Any]) -> str:
    """Return a result in its best form: a table, prose, a formula, else what Python prints."""
    printed = _text(data.get("text/plain"))
    if prose := _text(data.get("text/markdown")):
        return prose
    html, formula = _text(data.get("text/html")), _text(data.get("text/latex"))
    opaque = not printed.strip() or _REPR.fullmatch(printed.strip()) is not None
    if html and (opaque or "<table" in html.lower()):
        return _html_text(html) or printed
    return formula if formula and opaque else printed


def _lines(parts: Iterator[str]) -> Iterator[str]:
    for part in parts:
        yield from split_lines([part])


def _blocks(source: Source, encoding: str, notes: Notes) -> Iterator[Block]:
    lines = _lines(_markdown(_load(source, encoding), source, notes))
    yield from regroup(sections(lines, notes=notes))


def _metadata(notebook: dict[str, Any]) -> Metadata:
    """Title, authors and date of a notebook's own metadata, which few have."""
    fields = notebook.get("metadata")
    fields = fields if isinstance(fields, dict) else {}
    people = _listed(fields.get("authors"))
    names = [person.get("name") if isinstance(person, dict) else person for person in people]
    authors = ", ".join(name for name in names if isinstance(name, str))
    title, date = (fields.get(key) for key in ("title", "date"))
    return Metadata(
        one_line(title) if isinstance(title, str) else "",
        one_line(authors),
        date_of(date) if isinstance(date, str) else "",
    )


@dataclass(frozen=True)
class NotebookReader:
    """A notebook as the Markdown it would print."""

    def recognises(self, head: bytes) -> bool:
        return _HEAD.match(head) is not None and b'"cell' in head

    def open(self, source: Source) -> OpenDocument:
        encoding = find_encoding(source)
        title, has_text = "", False
        for block in _blocks(source, encoding, Notes()):
            has_text = has_text or not block.text.isspace()
            title = title or (block.section or "").partition(" > ")[0]
        if not has_text:
            raise empty(source)
        notes, about = Notes(), _metadata(_load(source, encoding))
        return OpenDocument(
            about.title or title or one_line(source.file_name),
            "application/x-ipynb+json",
            _blocks(source, encoding, notes),
            notes,
            about.author,
            about.date,
        )
