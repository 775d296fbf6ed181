"""Reads HTML: title, main text as paragraphs, lists and table rows, headings as sections.

Knows elements and what the page's style hides, not scripts; takes any broken markup without
complaint.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from drt_engine.documents.base import Block, Notes, OpenDocument, Source, one_line, regroup
from drt_engine.documents.encodings import characters, empty, find_encoding
from drt_engine.documents.html.elements import Part
from drt_engine.documents.html.extractor import Extractor
from drt_engine.documents.html.styles import Styles
from drt_engine.documents.html.survey import Survey

_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_XML_ENCODING = re.compile(rb"""^<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]+)""")
_START = re.compile(rb"(?:<\?xml[^>]*>|<!--.*?-->|\s)*<(?:!doctype\s+html|html)\b", re.I | re.S)


def _declared(source: Source) -> str | None:
    with source.open() as file:
        head = file.read(2048)
    match = _XML_ENCODING.search(head) or _CHARSET.search(head)
    return match[1].decode("ascii", "replace") if match else None


def _survey(source: Source, encoding: str) -> Survey:
    survey = Survey()
    for text in characters(source, encoding):
        survey.feed_bounded(text)
    survey.finish()
    return survey


def _pieces(source: Source, encoding: str, part: Part, styles: Styles) -> Iterator[Block]:
    extractor = Extractor(part, styles)
    for text in characters(source, encoding):
        extractor.feed_bounded(text)
        yield from extractor.writer.take()
    extractor.finish()
    extractor.handle_endtag("html")
    extractor.writer.finish()
    yield from extractor.writer.take()


def _first_heading(source: Source, encoding: str, part: Part, styles: Styles) -> str:
    extractor = Extractor(part, styles)
    for text in characters(source, encoding):
        extractor.feed_bounded(text)
        extractor.writer.take()
        if extractor.writer.path.first_title:
            break
    return extractor.writer.path.first_title or ""


@dataclass(frozen=True)
class HtmlReader:
    """The main text of a web page, without what is around it."""

    def recognises(self, head: bytes) -> bool:
        return _START.match(head.removeprefix(b"\xef\xbb\xbf")) is not None

    def open(self, source: Source) -> OpenDocument:
        encoding = find_encoding(source, _declared(source))
        survey = _survey(source, encoding)
        part = survey.part()
        if part is None:
            raise empty(source)
        title = survey.title or _first_heading(source, encoding, part, survey.styles)
        blocks = regroup(_pieces(source, encoding, part, survey.styles))
        notes = Notes()
        survey.note(part, notes)
        return OpenDocument(title or one_line(source.file_name), "text/html", blocks, notes)
