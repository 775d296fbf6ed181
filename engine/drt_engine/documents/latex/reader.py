"""Reads LaTeX: readable text with sections and lines; formulas as written.

Does not run TeX: of macros only those are expanded that the file defines plainly, before it begins;
what others do is told by their names and arguments, or they are left as written;
other files are not read, and named. Comments and the preamble are left out, and counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from drt_engine.documents.base import Block, Notes, OpenDocument, Source, one_line, regroup
from drt_engine.documents.encodings import characters, empty, find_encoding, split_lines
from drt_engine.documents.latex.about import authors_and_date
from drt_engine.documents.latex.converter import Converter
from drt_engine.documents.latex.macros import COMMENT

_BEGINS = re.compile(r"\\begin\s{0,9}\{document\}")
_TITLE_LINES = 3000
_PREAMBLE_CHARACTERS = 1 << 20  # in which definitions are looked for
_HEAD_CHARACTERS = 1 << 16  # in which authors and the date are looked for


def _preamble(source: Source, encoding: str) -> str | None:
    """Return what comes before ``\\begin{document}``, shortened; None in files without it."""
    lines: list[str] = []
    size = 0
    for line in split_lines(characters(source, encoding)):
        if _BEGINS.search(COMMENT.sub("", line)):
            return "".join([*lines, line])
        if size < _PREAMBLE_CHARACTERS:
            lines.append(line)
            size += len(line)
    return None


def _head(source: Source, encoding: str) -> str:
    """Return the first characters of a file."""
    head = ""
    for text in characters(source, encoding):
        head += text
        if len(head) >= _HEAD_CHARACTERS:
            break
    return head[:_HEAD_CHARACTERS]


def _lines(source: Source, encoding: str, notes: Notes) -> Iterator[tuple[Converter, Block]]:
    converter, dropped = Converter(_preamble(source, encoding), notes), 0
    blank = True
    for line in split_lines(characters(source, encoding)):
        blocks = converter.blocks(line)
        empty_line = not any(block.text.strip() for block in blocks)
        if not blocks:
            dropped += 1
        elif not (empty_line and blank):
            for block in blocks:
                yield converter, block
            blank = empty_line
    for block in converter.finish():
        yield converter, block
    if dropped > converter.after_end:
        reason = "preamble, comments or layout"
        notes.skip("line", reason, dropped - converter.after_end)
    if converter.after_end:
        subject = "line after the end of the document"
        notes.skip(subject, "TeX does not read it", converter.after_end)


def _blocks(source: Source, encoding: str, notes: Notes) -> Iterator[Block]:
    return regroup(block for _, block in _lines(source, encoding, notes))


def _title(source: Source, encoding: str) -> str:
    converter: Converter | None = None
    for number, (converter, _) in enumerate(_lines(source, encoding, Notes())):
        if converter.title or number > _TITLE_LINES:
            break
    return converter.title if converter is not None else ""


@dataclass(frozen=True)
class LatexReader:
    """The text of a LaTeX source, readable without TeX."""

    def recognises(self, head: bytes) -> bool:
        return re.search(rb"^\s*\\documentclass\b", head, re.MULTILINE) is not None

    def open(self, source: Source) -> OpenDocument:
        encoding = find_encoding(source)
        notes = Notes()
        if not any(b.text.strip() for _, b in _lines(source, encoding, Notes())):
            raise empty(source)
        title = one_line(_title(source, encoding)) or one_line(source.file_name)
        author, date = authors_and_date(_head(source, encoding))
        blocks = _blocks(source, encoding, notes)
        return OpenDocument(title, "text/x-tex", blocks, notes, author, date)
