"""What a document reader takes and gives: sources of bytes in, blocks of text with places out.

Knows no format, no model and no library; the readers build on it, `registry` chooses among them.
"""

from __future__ import annotations

import io
import os
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

from drt_engine.documents.inputs.unnamed_files import HeldFile
from drt_engine.documents.sandbox.limits import Budget
from drt_engine.errors import UnreadableDocument

BLOCK_CHARACTERS = 65536
TITLE_CHARACTERS = 300
_NOTES = 20

# From an offset in a block's text on: the source's character there, the two advancing together; or,
# of three numbers, the first character of the source and the one after the last that the text is
# made of, where a reader rewrites them.
Run = tuple[int, int] | tuple[int, int, int]
Origin = tuple[Run, ...]


@dataclass(frozen=True)
class Block:
    """A piece of a document's text; the texts of all blocks, joined, are the document's text.

    `line` is the source's line, from 1, where the text begins, in formats whose lines are the
    source's own: each newline in the text is then one in the source. `origin` leads from the text
    to characters of the source: of the file as text, its newlines being one character, or of the
    page in formats that number them (PDF: PDFium's).
    """

    text: str
    page: int | None = None
    section: str | None = None
    line: int | None = None
    origin: Origin = ()

    def line_at(self, offset: int) -> int | None:
        """The source's line of the character at `offset`; None where the format has no lines."""
        return None if self.line is None else self.line + self.text.count("\n", 0, offset)

    def origin_at(self, offset: int) -> int | None:
        """Where in the source the character at `offset` comes from; None where that is unknown."""
        span = source_span(self.origin, offset, offset + 1)
        return None if span is None else span[0]


class PassedOver(Block):
    """Text of the source that is left out; `regroup` counts its lines and characters."""


def source_span(origin: Sequence[Run], start: int, end: int) -> tuple[int, int] | None:
    """The source's characters that the text from `start` to `end` comes from, as far as is known.

    With runs of two numbers alone, in their order, exactly these; else the least that hold them.
    """
    number = bisect_right(origin, start, key=_offset) - 1
    if number < 0:
        return None
    spans = []
    for at, run in enumerate(origin[number:], number):
        if run[0] >= end:
            break
        if len(run) == 3:
            spans.append((run[1], run[2]))
            continue
        stop = min(end, origin[at + 1][0]) if at + 1 < len(origin) else end
        spans.append((run[1] + max(start, run[0]) - run[0], run[1] + stop - run[0]))
    return (min(f for f, _ in spans), max(e for _, e in spans)) if spans else None


def runs_between(origin: Sequence[Run], start: int, end: int) -> Origin:
    """The runs of the text from `start` to `end`, counted from `start`."""
    first = bisect_left(origin, start, key=_offset)
    last = bisect_left(origin, end, key=_offset)
    inside = [_moved(run, -start) for run in origin[first:last]]
    if first and (not inside or inside[0][0] > 0):
        offset, index, *stop = origin[first - 1]
        inside.insert(0, (0, index, stop[0]) if stop else (0, index + start - offset))
    return tuple(inside)


def _offset(run: Run) -> int:
    return run[0]


def _moved(run: Run, by: int) -> Run:
    return (run[0] + by, run[1], run[2]) if len(run) == 3 else (run[0] + by, run[1])


class Notes:
    """What a reader passed over and why, complete once the document is read."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}
        self._unnamed = 0

    def skip(self, what: str, why: str, count: int = 1) -> None:
        """Count `what` (a singular noun, or a named thing) that was passed over because of `why`.

        `why` must read well after one and after many. More than a few kinds are only counted, so
        that a file of nothing else stays small.
        """
        known = (one_line(what), one_line(why))
        if known in self._counts or len(self._counts) < _NOTES:
            self._counts[known] = self._counts.get(known, 0) + count
        else:
            self._unnamed += count

    def merge(self, other: Notes) -> None:
        """Add what was passed over in a part of the document."""
        for (what, why), count in other._counts.items():
            self.skip(what, why, count)
        self._unnamed += other._unnamed

    def take(self, sentences: Iterable[str]) -> None:
        """Add what another `Notes` said in `skipped`."""
        for sentence in sentences:
            self.skip(sentence, "")

    @property
    def skipped(self) -> tuple[str, ...]:
        """One phrase for each thing passed over: "3 images (pictures hold no text)"."""
        found = [_counted(what, why, n) for (what, why), n in self._counts.items()]
        return (*found, f"{self._unnamed} more") if self._unnamed else tuple(found)


_HEAD_NOUN = re.compile(r"(.*?)(\b(?: of| in| on| with| without| around| that)\b.*|)\Z")
_NAME_SIGNS = re.compile(r"[^a-z -]", re.IGNORECASE)


def _counted(what: str, why: str, count: int) -> str:
    named = what if count == 1 else f"{count} {_plural(what)}"
    return f"{named} ({why})" if why else named


def _plural(what: str) -> str:
    """More than one of a phrase: "ends of a result", "headers or footers", "attachments a.png"."""
    match = _HEAD_NOUN.match(what)
    noun, rest = (match[1], match[2]) if match else (what, "")
    first, _, name = noun.partition(" ")
    if _NAME_SIGNS.search(first):
        return f"times {what}"  # a name alone
    if _NAME_SIGNS.search(name):
        return f"{_more(first)} {name}{rest}"
    one, either, other = noun.partition(" or ")
    if either and " " not in other:
        return f"{_more(one)} or {_more(other)}{rest}"
    return _more(noun) + rest


def _more(noun: str) -> str:
    if noun.endswith("s"):
        return noun
    return noun[:-1] + "ies" if re.search(r"[^aeiou]y\Z", noun) else noun + "s"


@dataclass(frozen=True)
class OpenDocument:
    """A document about to be read: `blocks` opens its file when first asked, and only once."""

    title: str
    media_type: str
    blocks: Iterator[Block]
    notes: Notes = field(default_factory=Notes)
    author: str = ""  # as the document names them; "" where it does not
    date: str = ""  # YYYY-MM-DD where that is certain, else as it is written; "" without

    @property
    def skipped(self) -> tuple[str, ...]:
        """What was passed over and why, complete once all blocks are read."""
        return self.notes.skipped

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

    `path` is None for standard input, whose bytes are in a temporary file until `close`. A member
    of an archive is in such a file too; its path is `ARCHIVE!/MEMBER`. Parts of a document that
    is being read are held in memory.
    """

    path: Path | None
    name: str
    _copy: HeldFile | None = field(default=None, repr=False)
    _held: bytes | None = field(default=None, repr=False)
    budget: Budget | None = field(default=None, repr=False)  # of the archive that it is in

    @classmethod
    def from_path(cls, path: Path | str) -> Source:
        return cls(Path(path), printable_path(path))

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> Source:
        """A part of another document, held in memory."""
        return cls(None, name, _held=data)

    @classmethod
    def from_stream(cls, stream: BinaryIO, name: str) -> Source:
        """Copy `stream` to a temporary file without a name, given up by `close` or at exit."""
        return cls.from_pieces(iter(lambda: stream.read(1 << 16), b""), name)

    @classmethod
    def from_pieces(
        cls,
        pieces: Iterable[bytes],
        name: str,
        path: Path | None = None,
        budget: Budget | None = None,
    ) -> Source:
        """Keep `pieces` in a temporary file without a name, given up by `close` or at exit."""
        return cls(path, name, HeldFile.copy_of(pieces), budget=budget)

    @classmethod
    def from_file(cls, file: HeldFile, name: str, path: Path | None) -> Source:
        """Bytes of an open file; `path` says what it is called."""
        return cls(path, name, file)

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

    @property
    def size(self) -> int:
        """How many bytes there are; raises OSError as it comes."""
        if self._held is not None:
            return len(self._held)
        return self._copy.size if self._copy is not None else self._path().stat().st_size

    def open(self) -> BinaryIO:
        if self._held is not None:
            return io.BytesIO(self._held)
        return self._copy.open() if self._copy is not None else self._path().open("rb")

    def descriptor(self) -> int:
        """Open the bytes for another process; the caller closes the descriptor."""
        if self._copy is not None:
            return self._copy.duplicate()
        return os.open(self._path(), os.O_RDONLY | os.O_CLOEXEC)

    def _path(self) -> Path:
        if self.path is None:
            raise FileNotFoundError(self.name)
        return self.path

    def close(self) -> None:
        """Give up the temporary copy of standard input; a file on disk is left alone."""
        if self._copy is not None:
            self._copy.close()


class Reader(Protocol):
    """One document format: to add one, write its file and name it in `formats.BUILT_IN`.

    Another distribution adds a `Format` of its own by an entry point of the group `drt.readers`.
    """

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


_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_ISO_DATE = re.compile(r"D:(\d{4})(\d\d)(\d\d)|(\d{4})-(\d\d)-(\d\d)(?!\d)")
_DAY_FIRST = re.compile(r"(?:[a-z]{3,9}, ?)?(\d{1,2})[- ]([a-z]{3,9})[- ,]+(\d{4})\b", re.I)
_MONTH_FIRST = re.compile(r"([a-z]{3,9}) (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})\b", re.I)


def date_of(text: str) -> str:
    """A date as YYYY-MM-DD where its day, month and year are certain; else as it is written."""
    text = one_line(text)
    if found := _ISO_DATE.match(text):
        year, month, day = (int(part) for part in found.groups() if part)
    elif found := _DAY_FIRST.match(text):
        year, month, day = int(found[3]), _month(found[2]), int(found[1])
    elif found := _MONTH_FIRST.match(text):
        year, month, day = int(found[3]), _month(found[1]), int(found[2])
    else:
        return text
    return f"{year:04}-{month:02}-{day:02}" if 0 < month < 13 and 0 < day < 32 else text


def _month(name: str) -> int:
    key = name[:3].lower()
    return _MONTHS.index(key) + 1 if key in _MONTHS else 0


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


def regroup(
    pieces: Iterable[Block], limit: int = BLOCK_CHARACTERS, *, verbatim: bool = False
) -> Iterator[Block]:
    """The same text with the same places in blocks of at most `limit` characters, few and large.

    Lines of a block follow each other without a gap. `verbatim` pieces are the whole of the
    source's own text, those `PassedOver` among them, so that their lines and characters need only
    be counted.
    """
    buffer, start = "", None
    runs: list[Run] = []
    place: tuple[int | None, str | None] = (None, None)
    following: int | None = 1
    position = 0
    for piece in pieces:
        if isinstance(piece, PassedOver):
            if buffer:
                yield Block(buffer, *place, start, tuple(runs))
                buffer, runs = "", []
            following = _advanced(following, piece.text)
            position += len(piece.text)
            continue
        line = following if verbatim else piece.line
        origin: Origin = ((0, position),) if verbatim else piece.origin
        here = (piece.page, piece.section)
        if buffer and (here != place or line != following or bool(origin) != bool(runs)):
            yield Block(buffer, *place, start, tuple(runs))
            buffer, runs = "", []
        if not buffer:
            place, start = here, line
        _extend(runs, origin, len(buffer))
        buffer += piece.text
        position += len(piece.text)
        following = _advanced(line, piece.text)
        while len(buffer) > limit:
            cut = _border(buffer, limit)
            yield Block(buffer[:cut], *place, start, runs_between(runs, 0, cut))
            start = _advanced(start, buffer[:cut])
            runs = list(runs_between(runs, cut, len(buffer)))
            buffer = buffer[cut:]
    if buffer:
        yield Block(buffer, *place, start, tuple(runs))


def _extend(runs: list[Run], origin: Origin, offset: int) -> None:
    """Add a piece's runs, which stands at `offset`; one that goes on as the last is left out."""
    for run in origin:
        moved = _moved(run, offset)
        last = runs[-1] if runs else None
        if last is None or len(last) != len(moved):
            runs.append(moved)
        elif len(moved) == 3:
            if last[1:] != moved[1:]:
                runs.append(moved)
        elif moved[1] - last[1] != moved[0] - last[0]:
            runs.append(moved)


def _advanced(line: int | None, text: str) -> int | None:
    return None if line is None else line + text.count("\n")


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
