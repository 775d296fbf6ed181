"""Reads EPUB books: chapters in reading order, named as the table of contents names them.

Each chapter goes through the HTML reader; books locked by a shop are refused in a sentence.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, replace

from drt_engine.documents.base import Block, Notes, OpenDocument, Source, date_of, one_line, regroup
from drt_engine.documents.epub.package import Container, Contents, Locked, Package
from drt_engine.documents.html.reader import HtmlReader
from drt_engine.documents.metadata import Metadata
from drt_engine.documents.xml import Handler, parse
from drt_engine.documents.zips import SafeZip
from drt_engine.errors import DocumentError, EmptyDocument, UnreadableDocument

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_PAGES = frozenset(("application/xhtml+xml", "text/html", "text/x-oeb1-document"))


class _Book:
    """An open EPUB file with its package, the names of its chapters and its locked files."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._zip = SafeZip(source, "EPUB")
        try:
            container, self._package = Container(), Package()
            self._parse(_CONTAINER, container)
            self._folder = posixpath.dirname(container.package)
            self._parse(container.package, self._package)
            self._names = self._contents()
            self._locked = Locked()
            if _ENCRYPTION in self._zip:
                self._parse(_ENCRYPTION, self._locked)
        except BaseException:
            self._zip.close()
            raise

    def __enter__(self) -> _Book:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    @property
    def metadata(self) -> Metadata:
        package = self._package
        authors = one_line(", ".join(filter(None, map(one_line, package.creators))))
        return Metadata(one_line(package.title), authors, date_of(package.date))

    def _parse(self, name: str, handler: Handler) -> None:
        if name not in self._zip:
            raise UnreadableDocument(
                f"{self._source.name} is not a whole EPUB file (no {name or 'package'}); "
                "get or export it again."
            )
        for _ in parse(self._zip.pieces(name), handler, self._source.name):
            pass

    def _contents(self) -> dict[str, str]:
        """Chapter names by the member that holds the chapter."""
        items = self._package.items
        pages = [item for item in items.values() if "nav" in item.properties.split()]
        files = pages or [items[self._package.toc]] if self._package.toc in items or pages else []
        names: dict[str, str] = {}
        for item in files:
            member = self._member(item.href)
            if member not in self._zip:
                continue
            contents = Contents()
            try:
                self._parse(member, contents)
            except UnreadableDocument:
                continue  # headings in the chapters name them well enough
            folder = posixpath.dirname(member)
            for href, name in contents.names.items():
                names.setdefault(posixpath.normpath(posixpath.join(folder, href)), name)
        return names

    def _member(self, href: str) -> str:
        return posixpath.normpath(posixpath.join(self._folder, href))

    def _reading_order(self) -> list[str]:
        """Return the ids of all pages: the main line, then what is beside it (notes)."""
        spine = self._package.spine
        main = [item_id for item_id, linear in spine if linear]
        beside = [item_id for item_id, linear in spine if not linear]
        listed = {*main, *beside}
        beside_spine = (
            item_id
            for item_id, item in self._package.items.items()
            if item_id not in listed and item.media_type in _PAGES
        )
        return [*main, *beside, *beside_spine]

    def chapters(self, notes: Notes) -> Iterator[Block]:
        """Yield the text of all chapters in reading order, and note what is left out."""
        started = False
        for item_id in self._reading_order():
            item = self._package.items.get(item_id)
            if item is None or "nav" in item.properties.split():
                continue
            member = self._member(item.href)
            if item.media_type not in _PAGES or member not in self._zip:
                is_missing = member not in self._zip
                notes.skip(item.href, "missing" if is_missing else "not a page of text")
                continue
            for number, block in enumerate(self._chapter(member, notes)):
                yield _apart(block) if started and number == 0 else block
                started = True
        for item in self._package.items.values():
            if item.media_type.startswith(("image/", "audio/", "video/")):
                notes.skip(f"{item.media_type.partition('/')[0]} file", "no text to read")

    def _chapter(self, member: str, notes: Notes) -> Iterator[Block]:
        if member in self._locked.files:
            raise UnreadableDocument(
                f"{self._source.name} is locked by its seller (DRM); get a copy without a lock."
            )
        page = Source.from_bytes(self._zip.read(member), f"{self._source.name}!/{member}")
        try:
            document = HtmlReader().open(page)
        except EmptyDocument:
            return
        except DocumentError as error:
            notes.skip(member, str(error))
            return
        notes.merge(document.notes)
        name = self._names.get(member, "")
        for block in document.blocks:
            yield replace(block, section=_section(name, block.section))


def _apart(block: Block) -> Block:
    """Return the first block of a further chapter, with an empty line before it."""
    nodes = tuple(node.moved(1) for node in block.nodes)
    return replace(block, text="\n" + block.text, nodes=nodes)


def _section(chapter: str, section: str | None) -> str | None:
    """Return the path of a page's section below its chapter, without saying a name twice."""
    if not chapter or not section:
        return section or chapter or None
    first = section.partition(" > ")[0]
    if _letters(chapter) in _letters(first):
        return section
    if _letters(first) in _letters(chapter):  # "3", where the contents have "3. The bear"
        return chapter + section[len(first) :]
    return f"{chapter} > {section}"


def _letters(text: str) -> str:
    return "".join(c for c in text.lower() if c.isalnum())


def _blocks(source: Source, notes: Notes) -> Iterator[Block]:
    with _Book(source) as book:
        yield from regroup(book.chapters(notes))


@dataclass(frozen=True)
class EpubReader:
    """The chapters of a book."""

    def recognises(self, head: bytes) -> bool:
        return head.startswith(b"PK\x03\x04") and b"application/epub+zip" in head[:256]

    def open(self, source: Source) -> OpenDocument:
        with _Book(source) as book:
            about = book.metadata
            if next(book.chapters(Notes()), None) is None:
                raise EmptyDocument(f"{source.name} holds no chapter with text.")
        notes = Notes()
        return OpenDocument(
            about.title or one_line(source.file_name),
            "application/epub+zip",
            _blocks(source, notes),
            notes,
            about.author,
            about.date,
        )
