"""Reads man pages: readable text with sections, options above what they do, and lines.

Of roff's macros those of man(7) and mdoc(7) are known; what they do not print is left out, and
counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

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
from drt_engine.documents.man.converter import Converter
from drt_engine.documents.man.mdoc import MdocConverter

# ".TH PEEL 1", ".TH "CREATE TABLE" "7"", ".TH Tk n 8.6", ".Dt PEEL 1"
_TITLE = re.compile(
    rb"^[.'][ \t]*(?:TH|Dt)[ \t]+(?:\"[^\"\n]+\"|[^\s\"]\S*)[ \t]+(?:\"?\d|\"?[ln]\b)", re.MULTILINE
)
_HEAD_LINES = 400  # in which the title is looked for
_FIRST = re.compile(r"[.'][ \t]*(?P<macro>TH|Dd|Dt)[ \t]")


def _lines(
    source: Source, encoding: str, converter: Converter, notes: Notes | None = None
) -> Iterator[Block]:
    start = 0
    for number, line in enumerate(split_lines(characters(source, encoding)), 1):
        yield from converter.blocks(line, number, start)
        start += len(line)
    yield from converter.finish()
    if notes is not None and converter.dropped:
        notes.skip("line", "comments, layout or macros", converter.dropped)


def _converter(source: Source, encoding: str, notes: Notes) -> Converter:
    """Return a converter for the macros that the page begins with."""
    lines = split_lines(characters(source, encoding))
    for _, line in zip(range(_HEAD_LINES), lines, strict=False):
        if match := _FIRST.match(line):
            return Converter(notes) if match["macro"] == "TH" else MdocConverter(notes)
    return Converter(notes)


def _head(source: Source, encoding: str) -> Converter:
    """Return a converter that has seen the title, the author and the date."""
    converter = _converter(source, encoding, Notes())
    lines = split_lines(characters(source, encoding))
    for number, line in zip(range(1, _HEAD_LINES + 1), lines, strict=False):
        for _ in converter.blocks(line, number, 0):
            pass
        if converter.title.endswith(")"):
            break
    return converter


@dataclass(frozen=True)
class ManReader:
    """The text of a man page, readable without roff."""

    def recognises(self, head: bytes) -> bool:
        return _TITLE.search(head) is not None

    def open(self, source: Source) -> OpenDocument:
        encoding, notes = find_encoding(source), Notes()
        trial = _converter(source, encoding, Notes())
        if not any(block.text.strip() for block in _lines(source, encoding, trial)):
            raise empty(source)
        about = _head(source, encoding)
        return OpenDocument(
            one_line(about.title) or one_line(source.file_name),
            "text/troff",
            regroup(_lines(source, encoding, _converter(source, encoding, notes), notes)),
            notes,
            one_line(about.author),
            date_of(about.date),
        )
