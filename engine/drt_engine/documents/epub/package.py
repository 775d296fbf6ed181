"""The files of an EPUB that describe it: container, package, contents, encryption."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from drt_engine.documents.base import one_line
from drt_engine.documents.xml import Handler

_MOST_CHAPTERS = 20_000


@dataclass(frozen=True)
class _Item:
    href: str
    media_type: str
    properties: str


class Container(Handler):
    """Reads META-INF/container.xml, which names the package file."""

    def __init__(self) -> None:
        self.package = ""

    def start(self, name: str, attributes: dict[str, str], _namespace: str, /) -> None:
        """Take the first package; others are further renditions of the same book."""
        if name == "rootfile" and not self.package:
            self.package = attributes.get("full-path", "")


class Package(Handler):
    """Reads the package file: title, authors, date, files and reading order of a book."""

    def __init__(self) -> None:
        self.title = ""
        self.creators: list[str] = []
        self.date = ""
        self.items: dict[str, _Item] = {}
        self.spine: list[tuple[str, bool]] = []  # item id, whether it is in the main line
        self.toc = ""
        self._field = ""  # the element of the metadata whose text is read

    def start(self, name: str, attributes: dict[str, str], _namespace: str, /) -> None:
        """Take a file, an entry of the reading order, or the beginning of a field."""
        # Of several titles and dates the first counts; every creator is an author.
        values = {"title": self.title, "creator": "", "date": self.date}
        self._field = name if name in values and not values[name] else ""
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

    def end(self, _name: str, /) -> None:
        """End a field."""
        self._field = ""

    def text(self, data: str, /) -> None:
        """Add text to the field."""
        if self._field == "title":
            self.title += data
        elif self._field == "creator":
            self.creators[-1] += data
        elif self._field == "date":
            self.date += data


class Contents(Handler):
    """Reads the names of chapters from an NCX file or an EPUB 3 navigation page.

    In NCX a ``navLabel`` is followed by its ``content``; in a navigation page the name is the text
    of a link.
    """

    def __init__(self) -> None:
        self.names: dict[str, str] = {}  # href without its fragment -> first name
        self._name: list[str] = []
        self._href = ""
        self._collects = False

    def start(self, name: str, attributes: dict[str, str], _namespace: str, /) -> None:
        """Begin a name, or take the file that the last one belongs to."""
        if name == "navLabel" or (name == "a" and "href" in attributes):
            self._name, self._collects = [], True
        if name in ("content", "a"):
            self._href = attributes.get("src") or attributes.get("href") or ""
        if name == "content":
            self._note()

    def end(self, name: str, /) -> None:
        """End a name."""
        if name == "navLabel":
            self._collects = False
        if name == "a":
            self._note()
            self._collects = False

    def text(self, data: str, /) -> None:
        """Add text to the name."""
        if self._collects:
            self._name.append(data)

    def _note(self) -> None:
        href = unquote(self._href.partition("#")[0])
        name = one_line("".join(self._name))
        if href and name:
            self.names.setdefault(href, name)


class Locked(Handler):
    """Reads META-INF/encryption.xml: the files that are encrypted.

    Fonts are encrypted in many books without a lock, so that only a chapter in it matters.
    """

    def __init__(self) -> None:
        self.files: set[str] = set()

    def start(self, name: str, attributes: dict[str, str], _namespace: str, /) -> None:
        """Take the name of an encrypted file."""
        if name == "CipherReference":
            self.files.add(unquote(attributes.get("URI", "")))
