"""Reads Jupyter notebooks: prose, code and printed results in order, headings as sections.

Knows the notebook's JSON; headings are `markdown`'s.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from drt_engine.documents.base import Block, Notes, OpenDocument, Source, one_line, regroup
from drt_engine.documents.markdown import sections, split_lines
from drt_engine.documents.text import characters, empty, find_encoding
from drt_engine.errors import UnreadableDocument

_LONGEST_OUTPUT = 20_000
_FENCE = re.compile(r"`{3,}")
_ESCAPE_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_HEAD = re.compile(rb'\s*\{\s*"(?:cells|metadata|nbformat)"')


def _load(source: Source, encoding: str) -> dict[str, Any]:
    try:
        value = json.loads("".join(characters(source, encoding)))
    except (ValueError, RecursionError) as error:
        raise _broken(source, str(error)) from error
    if not isinstance(value, dict):
        raise _broken(source, "no JSON object")
    return value


def _broken(source: Source, why: str) -> UnreadableDocument:
    return UnreadableDocument(
        f"{source.name} is not a whole notebook ({one_line(why).rstrip('.')}); save it again."
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
    """A multi-line string, which notebooks write as one or as a list of lines."""
    if isinstance(value, list):
        value = "".join(part for part in value if isinstance(part, str))
    text = value if isinstance(value, str) else ""
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")


def _fenced(text: str, language: str = "") -> str:
    """A literal block with a fence longer than any in it."""
    longest = max((len(found) for found in _FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n\n"


def _language(notebook: dict[str, Any]) -> str:
    metadata = notebook.get("metadata")
    info = metadata.get("language_info") if isinstance(metadata, dict) else None
    name = info.get("name") if isinstance(info, dict) else None
    return name if isinstance(name, str) and name.isalnum() else ""


def _markdown(notebook: dict[str, Any], source: Source, notes: Notes) -> Iterator[str]:
    """The notebook as Markdown, cell by cell."""
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
            yield text.rstrip() + "\n\n"
        for name in cell.get("attachments") or ():
            notes.skip(f"attachment {name}", "a picture holds no text")


def _output(output: object, notes: Notes) -> Iterator[str]:
    if not isinstance(output, dict):
        return
    data = output.get("data")
    data = data if isinstance(data, dict) else output
    text = _text(output.get("text") or data.get("text/plain"))
    if output.get("output_type") in ("error", "pyerr"):
        text = f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}"
    if any(kind.startswith(("image/", "video/", "audio/")) for kind in data) or "png" in data:
        notes.skip("picture in a result", "it holds no text")
        return  # its text only says that it is a picture
    text = _ESCAPE_CODES.sub("", text)
    if len(text) > _LONGEST_OUTPUT:
        notes.skip("end of a result", f"only its first {_LONGEST_OUTPUT} characters are read")
        text = text[:_LONGEST_OUTPUT]
    if text.strip():
        yield _fenced(text)


def _lines(parts: Iterator[str]) -> Iterator[str]:
    for part in parts:
        yield from split_lines([part])


def _blocks(source: Source, encoding: str, notes: Notes) -> Iterator[Block]:
    lines = _lines(_markdown(_load(source, encoding), source, notes))
    yield from regroup(sections(lines))


@dataclass(frozen=True)
class NotebookReader:
    """A notebook as the Markdown it would print."""

    def recognises(self, head: bytes) -> bool:
        return _HEAD.match(head) is not None and b'"cell' in head

    def open(self, source: Source) -> OpenDocument:
        encoding = find_encoding(source)
        title, found = "", False
        for block in _blocks(source, encoding, Notes()):
            found = found or not block.text.isspace()
            title = title or (block.section or "").partition(" > ")[0]
        if not found:
            raise empty(source)
        notes = Notes()
        blocks = _blocks(source, encoding, notes)
        return OpenDocument(
            title or one_line(source.file_name), "application/x-ipynb+json", blocks, notes
        )


