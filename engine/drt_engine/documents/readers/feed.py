"""Reads feeds (RSS, Atom): each entry a section with its date, author and text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from drt_engine.documents.base import Block, Notes, OpenDocument, Source, one_line
from drt_engine.documents.html.reader import HtmlReader
from drt_engine.documents.metadata import Metadata
from drt_engine.documents.writer import BlockWriter, document_of, tidy
from drt_engine.documents.xml import Handler, parse
from drt_engine.errors import DocumentError

_START = re.compile(rb"(?:<\?xml[^>]*>|<\?[^>]*>|<!--.*?-->|\s)*<(?:rss|feed|rdf:RDF)\b", re.S)
_ENTRIES = frozenset(("item", "entry"))
# Elements of RSS 0.9 to 2.0 and Atom that hold text, and what they are of an entry.
_FIELDS = {
    "title": "title", "pubDate": "date", "published": "date", "updated": "date", "date": "date",
    "author": "author", "creator": "author", "name": "author", "description": "text",
    "summary": "text", "content": "text", "encoded": "text", "subtitle": "text",
}  # fmt: skip
_LONGEST = 1 << 20  # characters of a field


@dataclass
class _Entry:
    fields: dict[str, str] = field(default_factory=dict)


class _Feed(Handler):
    """Collects entries; the first one is the feed's own head."""

    def __init__(self) -> None:
        self.ready: list[_Entry] = [_Entry()]
        self._open: list[str] = []  # fields that are open, "" for other elements
        self._parts: list[str] = []

    def start(self, name: str, _attributes: dict[str, str], _namespace: str, /) -> None:
        """Begin an entry or a field."""
        if name in _ENTRIES:
            self.ready.append(_Entry())
        kind = "" if any(self._open) else _FIELDS.get(name, "")
        self._open.append(kind)
        if kind:
            self._parts = []

    def end(self, _name: str, /) -> None:
        """End a field; the longest text of an entry is its text."""
        kind = self._open.pop()
        if not kind:
            return
        value, fields = "".join(self._parts).strip(), self.ready[-1].fields
        if kind != "text":
            fields.setdefault(kind, one_line(value))
        elif len(value) > len(fields.get("text", "")):
            fields["text"] = value

    def text(self, data: str, /) -> None:
        """Add text to the field that is open."""
        if any(self._open) and sum(map(len, self._parts)) < _LONGEST:
            self._parts.append(data)

    def take(self, *, last: bool = False) -> list[_Entry]:
        """Return the entries that are complete."""
        count = len(self.ready) if last else len(self.ready) - 1
        entries, self.ready = self.ready[:count], self.ready[count:]
        return entries


def _plain(text: str, source: Source) -> list[str]:
    """Return the paragraphs of an entry, which mostly is HTML."""
    if "<" in text:
        page = Source.from_bytes(f"<html><body>{text}".encode("utf-8", "replace"), source.name)
        try:
            text = "".join(block.text for block in HtmlReader().open(page).blocks)
        except DocumentError:
            text = ""
    return [part.strip() for part in tidy(text).split("\n\n") if part.strip()]


def _write(writer: BlockWriter, entry: _Entry, source: Source, *, level: int) -> None:
    fields = entry.fields
    if fields.get("title"):
        writer.write("paragraph", fields["title"], level)
    about = ", ".join(filter(None, (fields.get("author"), fields.get("date"))))
    if about:
        writer.write("paragraph", about)
    for paragraph in _plain(fields.get("text", ""), source):
        writer.write("paragraph", paragraph)


def _read(source: Source, _notes: Notes) -> Iterator[tuple[BlockWriter, list[Block]]]:
    writer, feed, level = BlockWriter(), _Feed(), 1
    with source.open() as file:
        for _ in parse(iter(lambda: file.read(1 << 16), b""), feed, source.name):
            for entry in feed.take():
                _write(writer, entry, source, level=level)
                level = 2
            yield writer, writer.take()
    for entry in feed.take(last=True):
        _write(writer, entry, source, level=level)
        level = 2
    writer.finish()
    yield writer, writer.take()


@dataclass(frozen=True)
class FeedReader:
    """The entries of a feed."""

    def recognises(self, head: bytes) -> bool:
        """Return whether an XML file begins with the root element of a feed."""
        return _START.match(head.removeprefix(b"\xef\xbb\xbf")) is not None

    def open(self, source: Source) -> OpenDocument:
        """Open the feed, whose title is the document's."""
        feed = _Feed()
        with source.open() as file:
            for _ in parse(iter(lambda: file.read(1 << 16), b""), feed, source.name):
                if len(feed.ready) > 1:
                    break
        head = feed.ready[0].fields
        title = head.get("title") or one_line(source.file_name)
        about = Metadata(title, head.get("author", ""))
        return document_of(
            source, _read, title=title, media_type="application/rss+xml", about=about
        )
