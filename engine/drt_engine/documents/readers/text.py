"""Reads plain text; ``text_headings`` tells its headings, ``text_head`` its title."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from drt_engine.documents.base import Block, Notes, OpenDocument, Source, one_line, regroup
from drt_engine.documents.encodings import characters, find_encoding, looks_like_text, split_lines
from drt_engine.documents.metadata import Metadata
from drt_engine.documents.readers.settings import setting_blocks
from drt_engine.documents.readers.text_head import metadata_of_head
from drt_engine.documents.readers.text_headings import TextSections
from drt_engine.documents.structure.records import with_records
from drt_engine.documents.structure.setting_tree import SUFFIXES

_MARKED = frozenset((".org", ".adoc", ".asciidoc"))
_PROSE = frozenset(("", ".txt", ".text")) | _MARKED  # not logs, data or code
# What a first line says of a file to Emacs: stars before a line make it a heading.
_OUTLINE = re.compile(r"-\*-[^\n]{0,80}\b(?:outline|org)\b[^\n]{0,80}-\*-")


def _blocks(source: Source, encoding: str, notes: Notes, *, marked: bool) -> Iterator[Block]:
    if source.suffix in SUFFIXES:
        return setting_blocks(source, encoding)
    if source.suffix == ".xml":
        notes.skip("markup of XML", "of a kind that is not known; read as it is written")
    if source.suffix not in _PROSE:
        pieces = (Block(text) for text in characters(source, encoding))
        return with_records(regroup(pieces, verbatim=True))
    lines = split_lines(characters(source, encoding))
    sections = TextSections(notes, marked=marked)
    return with_records(regroup(sections.places(lines), verbatim=True))


@dataclass(frozen=True)
class TextReader:
    """Plain text as it is, tables and logs included; prose with the sections of its headings.

    Configuration files have those of their keys.
    """

    def recognises(self, head: bytes) -> bool:
        return looks_like_text(head)

    def open(self, source: Source) -> OpenDocument:
        encoding, notes = find_encoding(source), Notes()
        about, marked = Metadata(), source.suffix in _MARKED
        if source.suffix in _PROSE:
            head = "".join(islice(characters(source, encoding), 1))
            about = metadata_of_head(head.split("\n"))
            if _OUTLINE.search(first := head.partition("\n")[0]):
                marked = True
                about = replace(about, title=about.title or one_line(_OUTLINE.sub("", first)))
        return OpenDocument(
            about.title or one_line(source.file_name),
            "text/plain",
            _blocks(source, encoding, notes, marked=marked),
            notes,
            about.author,
            about.date,
        )
