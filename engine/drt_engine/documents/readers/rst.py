"""Reads reStructuredText: the text verbatim, its titles as sections, its lines as places.

Knows titles, and the blocks that cannot hold one; directives and roles stay as they are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from drt_engine.documents.base import (
    Block,
    OpenDocument,
    SectionPath,
    Source,
    SuffixOnly,
    one_line,
    regroup,
)
from drt_engine.documents.encodings import characters, find_encoding, split_lines
from drt_engine.documents.metadata import Metadata, header_fields, metadata_of, names_release

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*[ \t]*\n?")
_ROLE = re.compile(
    r":[\w:.+-]{1,80}:`([^`]*)`|``([^`]*)``"
    r"|`([^`<\s]*(?:\s+[^`<\s]+)*)\s*<[^`>]*>`_{1,2}|`([^`]*)`_{0,2}"
)
_EMPHASIS = re.compile(r"\*\*([^*]+)\*\*|\*([^*]+)\*")
_LONGEST_TITLE = 400
_TITLE_LINES = 2000
_HEAD_LINES = 60


def plain_title(text: str) -> str:
    """Return a title without the marks of roles, links and emphasis."""
    text = _ROLE.sub(lambda match: next(part for part in match.groups() if part is not None), text)
    return _EMPHASIS.sub(lambda match: match[1] or match[2], text).strip()


class _Titles:
    """Gives every line its section; each style of adornment is a level, in order of appearance."""

    def __init__(self) -> None:
        self.path = SectionPath()
        self._styles: list[tuple[str, bool]] = []
        self._pending: list[str] = []  # at most a blank, an overline and a title
        self._blank = True  # whether the line before the pending ones is empty

    def places(self, lines: Iterable[str]) -> Iterator[Block]:
        for line in lines:
            self._pending.append(line)
            yield from self._settle()
        yield from self._release(len(self._pending))

    def _settle(self) -> Iterator[Block]:
        """Release what can no longer be part of a title."""
        pending = self._pending
        if len(pending) == 3:
            if self._blank and self._is_title(pending[1], pending[2], over=pending[0]):
                yield from self._heading(3)
                return
            yield from self._release(1)
        if len(pending) >= 2 and self._blank and not _adorns(pending[0]):
            if self._is_title(pending[0], pending[1]):
                yield from self._heading(2)
            else:
                yield from self._release(1)
        elif len(pending) >= 2 and not (self._blank and _adorns(pending[0])):
            yield from self._release(1)

    def _is_title(self, title: str, under: str, over: str | None = None) -> bool:
        bare, rule = title.strip(), under.rstrip()
        if not bare or len(bare) > _LONGEST_TITLE or not _adorns(under) or _adorns(title):
            return False
        if over is None:
            # A shorter rule is tolerated by docutils from four characters on.
            indented = title[:1].isspace()
            return not indented and (len(rule) >= len(bare) or len(rule) >= 4)
        return over.rstrip() == rule and len(rule) >= len(bare)

    def _heading(self, count: int) -> Iterator[Block]:
        lines, self._pending = self._pending[:count], self._pending[count:]
        style = (lines[-1][0], count == 3)
        if style not in self._styles:
            self._styles.append(style)
        self.path.enter(self._styles.index(style) + 1, plain_title(lines[-2]))
        self._blank = True  # a title may follow at once
        yield Block("".join(lines), section=self.path.text)

    def _release(self, count: int) -> Iterator[Block]:
        for _ in range(count):
            line = self._pending.pop(0)
            self._blank = not line.strip()
            yield Block(line, section=self.path.text)


def _adorns(line: str) -> bool:
    return len(line.rstrip()) > 1 and _ADORNMENT.fullmatch(line) is not None


def _title(source: Source, encoding: str) -> str:
    titles = _Titles()
    for number, _ in enumerate(titles.places(split_lines(characters(source, encoding)))):
        if titles.path.text or number > _TITLE_LINES:
            break
    title = titles.path.text or ""
    return "" if names_release(title) else title


def _metadata(source: Source, encoding: str) -> Metadata:
    """Return what the field list says that the file begins with, alone or below its title."""
    lines = list(islice(split_lines(characters(source, encoding)), _HEAD_LINES))
    for number, line in enumerate(lines):
        below_title = number and (_adorns(lines[number - 1]) or not lines[number - 1].strip())
        listed = line.startswith(":") and below_title
        if listed or (number == 0 and line.strip()):
            fields = header_fields(lines[number:])
            if len(fields) > 1 or listed:
                return metadata_of(fields)
    return Metadata()


def _blocks(source: Source, encoding: str) -> Iterator[Block]:
    lines = split_lines(characters(source, encoding))
    return regroup(_Titles().places(lines), verbatim=True)


@dataclass(frozen=True)
class RstReader(SuffixOnly):
    """reStructuredText, kept as it is written so that quotes are verbatim."""

    def open(self, source: Source) -> OpenDocument:
        """Open the document; the title is that of its field list, else its first heading."""
        encoding = find_encoding(source)
        about = _metadata(source, encoding)
        title = about.title or one_line(_title(source, encoding)) or one_line(source.file_name)
        blocks = _blocks(source, encoding)
        return OpenDocument(title, "text/x-rst", blocks, author=about.author, date=about.date)
