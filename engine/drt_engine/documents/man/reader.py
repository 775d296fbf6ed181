"""Reads man pages: readable text with sections, options above what they do, and lines.

Of roff's macros those of man(7) are known; what they do not print is left out, and counted.
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

# ".TH PEEL 1", ".TH "CREATE TABLE" "7"", ".TH Tk n 8.6"
_TITLE = re.compile(
    rb"^[.'][ \t]*TH[ \t]+(?:\"[^\"\n]+\"|[^\s\"]\S*)[ \t]+(?:\"?\d|\"?[ln]\b)", re.MULTILINE
)
_HEAD_LINES = 400  # in which the title is looked for


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


def _head(source: Source, encoding: str) -> Converter:
    """Return a converter that has seen the title, the author and the date."""
    converter = Converter(Notes())
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
        if not any(block.text.strip() for block in _lines(source, encoding, Converter(Notes()))):
            raise empty(source)
        about = _head(source, encoding)
        return OpenDocument(
            one_line(about.title) or one_line(source.file_name),
            "text/troff",
            regroup(_lines(source, encoding, Converter(notes), notes)),
            notes,
            one_line(about.author),
            date_of(about.date),
        )
