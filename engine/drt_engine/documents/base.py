"""What a document reader takes and gives: sources of bytes in, blocks of text with places out.

Knows no format, no model and no library; the readers build on it, `registry` chooses among them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import unicodedata
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

from drt_engine.errors import UnreadableDocument

BLOCK_CHARACTERS = 65536
TITLE_CHARACTERS = 300


@dataclass(frozen=True)
class Block:
    """A piece of a document's text; the texts of all blocks, joined, are the document's text."""

    text: str
    page: int | None = None
    section: str | None = None


@dataclass(frozen=True)
class OpenDocument:
    """A document about to be read: `blocks` opens its file when first asked, and only once."""

    title: str
    media_type: str
    blocks: Iterator[Block]

    def close(self) -> None:
        """Close the file without reading on; harmless when all was read."""
        close = getattr(self.blocks, "close", None)
        if close is not None:
            close()

    def __enter__(self) -> OpenDocument:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class Source:
    """Bytes that can be opened more than once, and the name a user knows them by.

    `path` is None for standard input, whose bytes lie in a temporary file until `close`.
    """

    path: Path | None
    name: str
    _spooled: Path | None = field(default=None, repr=False)

    @classmethod
    def from_path(cls, path: Path | str) -> Source:
        return cls(Path(path), printable_path(path))

    @classmethod
    def from_stream(cls, stream: BinaryIO, name: str) -> Source:
        """Copy `stream` to a temporary file, removed by `close` or at exit."""
        with tempfile.NamedTemporaryFile(prefix="drt-", delete=False) as file:
            spooled = Path(file.name)
            try:
                shutil.copyfileobj(stream, file, 1 << 16)
            except BaseException:
                spooled.unlink()
                raise
        source = cls(None, name, spooled)
        weakref.finalize(source, spooled.unlink, missing_ok=True)
        return source

    @property
    def location(self) -> str:
        """The absolute path, which stays the same wherever a command is started; else the name."""
        return self.name if self.path is None else printable_path(self.path.absolute())

    @property
    def file_name(self) -> str:
        """The last part of the name."""
        return self.name if self.path is None else printable_path(self.path.absolute().name)

    @property
    def suffix(self) -> str:
        """The lower-case suffix with its dot; empty for standard input."""
        return "" if self.path is None else self.path.suffix.lower()

    def open(self) -> BinaryIO:
        file = self.path if self.path is not None else self._spooled
        if file is None:
            raise FileNotFoundError(self.name)
        return file.open("rb")

    def close(self) -> None:
        """Remove the temporary copy of standard input; a file on disk is left alone."""
        if self._spooled is not None:
            self._spooled.unlink(missing_ok=True)


class Reader(Protocol):
    """One document format: to add one, write its file and name it in `registry.READERS`."""

    @property
    def label(self) -> str:
        """What a user calls the format, with its best-known suffix: "Markdown (.md)"."""

    @property
    def suffixes(self) -> frozenset[str]:
        """The lower-case suffixes, dots included, that belong to the format."""

    def recognises(self, head: bytes) -> bool:
        """Whether a file without a known suffix that begins with `head` is of this format."""

    def open(self, source: Source) -> OpenDocument:
        """Check the source and start reading; raises DocumentError, and OSError as it comes."""


class SectionPath:
    """The headings that are open at a place of the text, outermost first."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []
        self.first_title: str | None = None

    def enter(self, level: int, heading: str) -> None:
        """Open a heading of `level` (1 is the highest), closing those it ends."""
        heading = one_line(heading)
        while self._open and self._open[-1][0] >= level:
            self._open.pop()
        if not heading:
            return
        self._open.append((level, heading))
        if level == 1 and self.first_title is None:
            self.first_title = heading

    @property
    def text(self) -> str | None:
        """The path as "Part > Chapter"; None before the first heading."""
        return " > ".join(heading for _, heading in self._open) or None


def one_line(text: str) -> str:
    """`text` fit for a title: one line, no control characters, cut at TITLE_CHARACTERS."""
    kept = (" " if unicodedata.category(c) in ("Cc", "Cs") else c for c in text[: 1 << 16])
    return " ".join("".join(kept).split())[:TITLE_CHARACTERS].rstrip()


def words(text: str) -> frozenset[str]:
    """The words of `text` as a set, to keep long tables of names readable."""
    return frozenset(text.split())


def printable_path(path: Path | str) -> str:
    """`path` as text; bytes of a name that are not UTF-8 become escapes, as SQLite refuses them."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def unreadable(name: str, error: OSError | ValueError) -> UnreadableDocument:
    """The sentence for an operating system's refusal to give a file's bytes."""
    if isinstance(error, FileNotFoundError):
        return UnreadableDocument(f"{name} does not exist; check the path.")
    if isinstance(error, PermissionError):
        return UnreadableDocument(
            f"{name} cannot be read (permission denied); give yourself the right to read it."
        )
    if isinstance(error, IsADirectoryError):
        return UnreadableDocument(f"{name} is a folder, not a file; name a file in it.")
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return UnreadableDocument(f"{name} cannot be read ({reason}); check the path and the disk.")


def regroup(pieces: Iterable[Block], limit: int = BLOCK_CHARACTERS) -> Iterator[Block]:
    """The same text with the same places in blocks of at most `limit` characters, few and large."""
    buffer, page, section = "", None, None
    for piece in pieces:
        if buffer and (piece.page, piece.section) != (page, section):
            yield Block(buffer, page, section)
            buffer = ""
        page, section = piece.page, piece.section
        buffer += piece.text
        while len(buffer) > limit:
            cut = _border(buffer, limit)
            yield Block(buffer[:cut], page, section)
            buffer = buffer[cut:]
    if buffer:
        yield Block(buffer, page, section)


def _border(text: str, limit: int) -> int:
    """Where to cut `text`, which is longer than `limit`: after a line, else a word, else hard."""
    for mark in ("\n", " "):
        at = text.rfind(mark, limit // 2, limit)
        if at >= 0:
            return at + 1
    cut = limit
    while cut > limit // 2 + 1 and _joins(text[cut - 1], text[cut]):
        cut -= 1
    return cut


def _joins(left: str, right: str) -> bool:
    """Whether `right` is drawn as a part of the character `left`."""
    return "\u200d" in (left, right) or unicodedata.category(right).startswith("M")
