"""Reads Markdown: the text verbatim, its headings as sections.

Knows just enough of CommonMark to tell headings from code, comments and front matter. Comments
and the fences of directives are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from drt_engine.documents.base import (
    Block,
    Notes,
    OpenDocument,
    PassedOver,
    SectionPath,
    Source,
    SuffixOnly,
    one_line,
    regroup,
)
from drt_engine.documents.encodings import characters, find_encoding, split_lines
from drt_engine.documents.metadata import (
    Metadata,
    metadata_of,
    names_release,
    names_section,
    yaml_fields,
)
from drt_engine.documents.structure.drawn_rows import with_drawn_rows
from drt_engine.documents.structure.records import with_records
from drt_engine.documents.structure.struck import with_struck

# A first heading further down is not the title of the whole.
_TITLE_PIECES = 16
_HEADING_LINES = 3
_COMMENT_LINES = 1000  # a longer one lacks its end
_HEADING_CHARACTERS = 1000
_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*$\n?", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"^[\w-]+[ \t]*:", re.MULTILINE)
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_CLOSING_HASHES = re.compile(r"(?:^|(?<![ \t])[ \t]+)#+[ \t]*$")
_SETEXT = re.compile(r" {0,3}(?:(=+)|-+)[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_DIRECTIVE = re.compile(r" {0,3}:{3,}[ \t]*(?:\{?[\w-]+\}?.*)?$")
_NOT_PARAGRAPH = re.compile(r"[ \t]*$|(?: {0,3}(?:>|[-+*][ \t]|\d{1,9}[.)][ \t]|<))")
_INDENTED = re.compile(r" {4}|\t")
_LINK = re.compile(r"!?\[([^\[\]]{0,500})\](?:\([^)]{0,500}\)|\[[^\[\]]{0,200}\])")
_EMPHASIS = re.compile(r"`+|\*+|(?<!\w)__?|__?(?!\w)")
_CODE_OR_TAG = re.compile(
    r"(`[^`]*`)|</?(?:a|b|i|p|br|em|img|kbd|sub|sup|div|code|font|span|small|center|strong)"
    r"(?:\s[^<>]*)?/?>|<!--.*?-->"
)
_ATTRIBUTES = re.compile(r"(?<![ \t])[ \t]*\{[#.:][^{}]*\}[ \t]*$")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")


def plain_heading(text: str) -> str:
    """Return a heading without the marks of links, emphasis, code and attributes, and tags."""
    text = _CODE_OR_TAG.sub(lambda m: m[1] or "", text)
    text = _ATTRIBUTES.sub("", _CLOSING_HASHES.sub("", text))
    text = _LINK.sub(lambda m: m[1], text)
    return _ESCAPE.sub(r"\1", _EMPHASIS.sub("", text)).strip()


class _Literal:
    """Follows what holds no headings: front matter and fenced code."""

    def __init__(self, front_lines: int) -> None:
        self._front_lines = front_lines
        self._fence: str | None = None

    def takes(self, line: str) -> bool:
        """Return whether ``line`` belongs to a literal part, its first and last line included."""
        if self._front_lines:
            self._front_lines -= 1
            return True
        if self._fence is not None:
            mark = line.strip()
            if set(mark) == {self._fence[0]} and len(mark) >= len(self._fence):
                self._fence = None if _FENCE.match(line) else self._fence
            return True
        opening = _FENCE.match(line)
        if opening:
            self._fence = opening[1]
        return opening is not None


class _Sections:
    """Gives every line its section.

    A paragraph of up to ``_HEADING_LINES`` lines is kept back, since a line of ``===`` below would
    make it a heading. Comments and the fences of directives are left out, since no reader of the
    page sees them.
    """

    def __init__(self, path: SectionPath, front_lines: int, notes: Notes) -> None:
        self._path, self._notes = path, notes
        self._literal = _Literal(front_lines)
        self._paragraph_lines: list[str] = []
        self._paragraph_length = 0  # lines of the paragraph so far
        self._comment: list[str] = []  # lines of a comment that has not ended yet

    def places(self, lines: Iterable[str]) -> Iterator[Block]:
        at_line_start = True
        for line in lines:
            if self._comment:
                yield from self._in_comment(line)
            elif at_line_start and len(line) <= _HEADING_CHARACTERS:
                yield from self._line(line)
            else:
                yield from self._plain(line)
                self._paragraph_length = _HEADING_LINES
            at_line_start = line.endswith("\n")
        yield from self._end_comment(hidden=False)
        yield from self._release()

    def _in_comment(self, line: str) -> Iterator[Block]:
        """Keep a comment back until its end; one that never ends, or ends in text, is text."""
        self._comment.append(line)
        if (end := line.find("-->")) >= 0:
            yield from self._end_comment(hidden=not line[end + 3 :].strip())
        elif len(self._comment) > _COMMENT_LINES:
            yield from self._end_comment(hidden=False)

    def _end_comment(self, *, hidden: bool) -> Iterator[Block]:
        lines, self._comment = self._comment, []
        if not lines:
            return
        if hidden:
            self._notes.skip("line of comments", "hidden from who reads the page", len(lines))
            yield PassedOver("".join(lines))
        else:
            yield Block("".join(lines), section=self._path.text)

    def _line(self, line: str) -> Iterator[Block]:
        bare = line.rstrip("\n")
        underline = _SETEXT.match(bare) if self._paragraph_lines else None
        if underline:
            yield self._heading(1 if underline[1] else 2, "".join(self._paragraph_lines), line)
        elif self._literal.takes(bare):
            yield from self._plain(line)
        elif bare.lstrip().startswith("<!--"):
            yield from self._release()
            self._paragraph_length = 0
            yield from self._in_comment(line)
        elif _DIRECTIVE.match(bare):
            yield from self._release()
            self._paragraph_length = 0
            self._notes.skip("fence of a directive", "a mark for the page's layout")
            yield PassedOver(line)
        elif atx := _ATX.match(bare):
            yield from self._release()
            yield self._heading(len(atx[1]), atx[2] or "", line)
        elif _NOT_PARAGRAPH.match(bare) or (not self._paragraph_length and _INDENTED.match(bare)):
            yield from self._plain(line)
        else:
            yield from self._paragraph(line)

    def _paragraph(self, line: str) -> Iterator[Block]:
        self._paragraph_length += 1
        if self._paragraph_length <= _HEADING_LINES:
            self._paragraph_lines.append(line)
            return
        yield from self._release()
        yield Block(line, section=self._path.text)

    def _heading(self, level: int, heading: str, line: str) -> Block:
        self._path.enter(level, plain_heading(heading))
        text = "".join(self._paragraph_lines) + line
        self._paragraph_lines, self._paragraph_length = [], 0
        return Block(text, section=self._path.text)

    def _plain(self, line: str) -> Iterator[Block]:
        yield from self._release()
        self._paragraph_length = 0
        yield Block(line, section=self._path.text)

    def _release(self) -> Iterator[Block]:
        if self._paragraph_lines:
            yield Block("".join(self._paragraph_lines), section=self._path.text)
        self._paragraph_lines = []


def sections(
    lines: Iterable[str], front_lines: int = 0, notes: Notes | None = None
) -> Iterator[Block]:
    """Return lines of Markdown with the sections that their headings make."""
    return _Sections(SectionPath(), front_lines, notes or Notes()).places(lines)


def _front_matter(source: Source, encoding: str) -> tuple[int, Metadata]:
    """Return how many lines the front matter takes, and what it says; 0 where there is none."""
    head = "".join(islice(characters(source, encoding), 1))
    match = _FRONT_MATTER.match(head)
    if not match or not _KEY.search(match[1]):
        return 0, Metadata()
    return match[0].count("\n"), metadata_of(yaml_fields(match[1]))


def _first_heading(source: Source, encoding: str, front_lines: int) -> str:
    """Return the first heading of level 1, else the one that the text begins with.

    A numbered one, an "Overview" or a release is a section of a text without a title.
    """
    path, opening, begins = SectionPath(), "", True
    pieces = islice(characters(source, encoding), _TITLE_PIECES)
    for block in _Sections(path, front_lines, Notes()).places(split_lines(pieces)):
        if path.first_title:
            break
        if begins and block.text.strip() and not isinstance(block, PassedOver):
            opening, begins = path.text or "", False
    title = path.first_title or ("" if names_section(opening) else opening)
    return "" if names_release(title) else title


def _blocks(source: Source, encoding: str, front_lines: int, notes: Notes) -> Iterator[Block]:
    lines = split_lines(characters(source, encoding))
    blocks = regroup(sections(lines, front_lines, notes), verbatim=True)
    return with_struck(with_records(with_drawn_rows(blocks)))


@dataclass(frozen=True)
class MarkdownReader(SuffixOnly):
    """Markdown, kept as it is written so that quotes are verbatim."""

    def open(self, source: Source) -> OpenDocument:
        """Open the document; the title is that of the front matter, else the first heading."""
        encoding = find_encoding(source)
        front_lines, about = _front_matter(source, encoding)
        title = about.title or _first_heading(source, encoding, front_lines)
        notes = Notes()
        return OpenDocument(
            title or one_line(source.file_name),
            "text/markdown",
            _blocks(source, encoding, front_lines, notes),
            notes,
            about.author,
            about.date,
        )
