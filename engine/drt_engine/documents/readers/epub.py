"""Reads EPUB books: chapters in reading order, named as the table of contents names them.

Each chapter goes through the HTML reader; books locked by a shop are refused in a sentence.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, replace
from urllib.parse import unquote

from drt_engine.documents.base import (
    Block,
    Notes,
    OpenDocument,
    Source,
    date_of,
    one_line,
    regroup,
)
from drt_engine.documents.inputs.zips import SafeZip
from drt_engine.documents.metadata import Metadata
from drt_engine.documents.readers.html import HtmlReader
from drt_engine.documents.xml import parse
from drt_engine.errors import DocumentError, EmptyDocument, UnreadableDocument

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_PAGES = frozenset(("application/xhtml+xml", "text/html", "text/x-oeb1-document"))
_MOST_CHAPTERS = 20_000


@dataclass(frozen=True)
class _Item:
    href: str
    media_type: str
    properties: str


class _Container:
    """Finds the package file."""

    def __init__(self) -> None:
        self.package = ""

    def start(self, name: str, attributes: dict[str, str], namespace: str) -> None:
        if name == "rootfile" and not self.package:
            self.package = attributes.get("full-path", "")

    def end(self, name: str) -> None:
        pass

    def text(self, data: str) -> None:
        pass


class _Package:
    """Title, files and reading order of a book."""

    def __init__(self) -> None:
        self.title = ""
        self.creators: list[str] = []
        self.date = ""
        self.items: dict[str, _Item] = {}
        self.spine: list[tuple[str, bool]] = []  # item id, whether it is in the main line
        self.toc = ""
        self._field = ""  # the element of the metadata whose text is read

    def start(self, name: str, attributes: dict[str, str], namespace: str) -> None:
        given = {"title": self.title, "creator": "", "date": self.date}
        self._field = name if name in given and not given[name] else ""
        if name == "creator":
            self.creators.append("")
        elif name == "item":
            self.items[attributes.get("id", "")] = _Item(
                unquote(attributes.get("href", "")),
                attributes.get("media-type", "").lower(),
                attributes.get("properties", ""),
            )
        elif name == "itemref" and len(self.spine) < _MOST_CHAPTERS:
            linear = attributes.get("linear", "yes") != "no"
            self.spine.append((attributes.get("idref", ""), linear))
        elif name == "spine":
            self.toc = attributes.get("toc", "")

    def end(self, name: str) -> None:
        self._field = ""

    def text(self, data: str) -> None:
        if self._field == "title":
            self.title += data
        elif self._field == "creator":
            self.creators[-1] += data
        elif self._field == "date":
            self.date += data


class _Contents:
    """The names of chapters, from an NCX file or an EPUB 3 navigation page."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}  # href without its fragment -> first name
        self._name: list[str] = []
        self._href = ""
        self._collects = False

    def start(self, name: str, attributes: dict[str, str], namespace: str) -> None:
        if name == "navLabel" or (name == "a" and "href" in attributes):
            self._name, self._collects = [], True
        if name in ("content", "a"):
            self._href = attributes.get("src") or attributes.get("href") or ""
        if name == "content":
            self._note()

    def end(self, name: str) -> None:
        if name == "navLabel":
            self._collects = False
        if name == "a":
            self._note()
            self._collects = False

    def text(self, data: str) -> None:
        if self._collects:
            self._name.append(data)

    def _note(self) -> None:
        href = unquote(self._href.partition("#")[0])
        name = one_line("".join(self._name))
        if href and name:
            self.names.setdefault(href, name)


class _Locked:
    """The files that the book keeps encrypted."""

    def __init__(self) -> None:
        self.files: set[str] = set()

    def start(self, name: str, attributes: dict[str, str], namespace: str) -> None:
        if name == "CipherReference":
            self.files.add(unquote(attributes.get("URI", "")))

    def end(self, name: str) -> None:
        pass

    def text(self, data: str) -> None:
        pass


class _Book:
    """An open EPUB file."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._zip = SafeZip(source, "EPUB")
        try:
            container, self._package = _Container(), _Package()
            self._parse(_CONTAINER, container)
            self._folder = posixpath.dirname(container.package)
            self._parse(container.package, self._package)
            self._names = self._contents()
            self._locked = _Locked()
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

    def _parse(self, name: str, handler: _Container | _Package | _Contents | _Locked) -> None:
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
            contents = _Contents()
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

    def chapters(self, notes: Notes) -> Iterator[Block]:
        """The text of all chapters; what is no text or cannot be read is noted."""
        started = False
        for item_id, linear in self._package.spine:
            item = self._package.items.get(item_id)
            if item is None or "nav" in item.properties.split():
                continue
            member = self._member(item.href)
            if not linear or item.media_type not in _PAGES or member not in self._zip:
                why = "not in the main line" if not linear else "not a page of text"
                notes.skip(item.href, "missing" if member not in self._zip else why)
                continue
            for number, block in enumerate(self._chapter(member, notes)):
                parted = started and number == 0
                yield replace(block, text="\n" + block.text) if parted else block
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


def _section(chapter: str, section: str | None) -> str | None:
    """The chapter's name before the page's own headings, said once."""
    if not chapter or not section:
        return section or chapter or None
    first = section.partition(" > ")[0]
    if _plain(chapter) in _plain(first):
        return section
    if _plain(first) in _plain(chapter):  # a number, whose name only the contents know
        return chapter + section[len(first) :]
    return f"{chapter} > {section}"


def _plain(text: str) -> str:
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
