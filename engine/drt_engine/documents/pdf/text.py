"""A page's text from its lines in reading order, each character with its index in the page.

Joins words split over lines and drops stray characters; knows no PDFium and no file. Whether a
hyphen at a line's end belongs to the word is told by how the pages around write it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from drt_engine.documents.base import Node, words
from drt_engine.documents.pdf.layout import Region, separators
from drt_engine.documents.pdf.lines import HYPHENS, Line
from drt_engine.documents.pdf.tables import Table, cell_separators, find_tables
from drt_engine.documents.structure.column_names import ColumnNames

_LIGATURES = {
    "\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl",
    "\ufb05": "ft", "\ufb06": "st",
}  # fmt: skip
_STRAY = re.compile("[\x00-\x08\x0e-\x1f\x7f\u200b\u2060\ufeff\uffff\ud800-\udfff\ufb00-\ufb06]")
_REAL_HYPHENS = "-\u2010"
_LONGEST_WORD = 40
_MOST_COMPOUNDS = 100_000
_PAGES_AROUND = 9
_FIRST_WORD = re.compile(r"[^\W_]+")
_COMPOUND = re.compile(r"(?<![^\W_])[^\W_]+-[^\W_]+")
_WORD = re.compile(r"[^\W\d_]{2,}")
# no words, but parts of one
_SPLIT = re.compile(f"(?<![^\\W_])[^\\W_]+[{_REAL_HYPHENS}{HYPHENS}]\n?[^\\W_]+")
_SHORTEST_PART = 4
_HYPHENATED = words("non self well ill all ex anti multi")
# What begins many words that are written as one: "with-out" at a line's end is "without".
_PREFIXES = words(
    "after any back down ever every fore hand head here hind home house inter land life light mean "
    "more news night over rain road sand sea some song south north east west sun super sword them "
    "there thunder time under water what when where wind wood work world your"
)
_SENTENCE_END = re.compile(r"[.!?:;…][\"'”’»)\]]*\Z")


class Spellings:
    """How a document writes its words: compounds so far, and the words of the pages around."""

    def __init__(self) -> None:
        self._compounds: set[str] = set()
        self._pages: deque[list[str]] = deque(maxlen=_PAGES_AROUND)
        self._words: frozenset[str] | None = None

    def see(self, lines: Sequence[Line]) -> None:
        """Take note of a page, which may be one to come."""
        inner = "\n".join(line.text for line in lines if "-" in line.text)
        if inner and len(self._compounds) < _MOST_COMPOUNDS:
            self._compounds.update(_COMPOUND.findall(inner.lower()))
        self._pages.append([line.text for line in lines])
        self._words = None

    def has_hyphen(self, left: str, right: str) -> bool:
        """Return whether ``left`` and ``right``, parted by a line's end, are written with a hyphen.

        So they are where the document writes them that way elsewhere; or where it uses both as
        words, and not what they would be as one.
        """
        left, right = left.lower(), right.lower()
        if f"{left}-{right}" in self._compounds:
            return True
        if any(map(str.isdigit, left + right)):
            return True
        short = min(len(left), len(right)) < _SHORTEST_PART and left not in _HYPHENATED
        if short or left in _PREFIXES:
            return False
        if self._words is None:
            text = "\n".join("\n".join(lines) for lines in self._pages)
            self._words = frozenset(_WORD.findall(_SPLIT.sub(" ", text.lower())))
        is_word = left in self._words or left in _HYPHENATED
        return is_word and right in self._words and left + right not in self._words


@dataclass
class PageText:
    """Text that grows line by line, with runs of (offset, index in the page)."""

    text: str = ""
    origin: list[tuple[int, int]] = field(default_factory=list)
    starts: list[tuple[int, Line]] = field(default_factory=list)  # where each line begins
    spellings: Spellings = field(default_factory=Spellings)
    nodes: list[Node] = field(default_factory=list)

    def add(self, line: Line, separator: str, behind: str = "") -> None:
        """Append a line after ``separator``, or to the word that the last line left open."""
        piece, runs = _cleaned(line)
        if not piece:
            return
        if self.text and not self.join(piece):
            self.text += separator
        self.starts.append((len(self.text), line))
        self.origin += [(len(self.text) + at, index) for at, index in runs]
        self.text += piece + behind

    def join(self, following: str) -> bool:
        """Drop or keep the hyphen at the text's end where ``following`` continues its word.

        Return whether it does.
        """
        if not _ends_open(self.text):
            self.text = self.text.rstrip(HYPHENS)
            return False
        real = self.text[-1] in _REAL_HYPHENS
        if not following[:1].isalnum() and real:
            return False
        if following[:1].islower() and not self._is_compound(following):
            self.text = self.text[:-1]
        elif not real:
            self.text = self.text[:-1] + "-"
        return True

    def _is_compound(self, following: str) -> bool:
        """Return whether the word that ``following`` completes is written with its hyphen."""
        left = _FIRST_WORD.match(self.text[-2:-_LONGEST_WORD:-1])
        right = _FIRST_WORD.match(following)
        return bool(left and right and self.spellings.has_hyphen(left[0][::-1], right[0]))

    def end(self) -> None:
        """Turn the mark of a hyphen at the very end into a hyphen."""
        if self.text and self.text[-1] in HYPHENS:
            self.text = self.text[:-1] + "-"


def lay_out(regions: Sequence[Region], spellings: Spellings | None = None) -> PageText:
    """Return the text of a page's regions, with empty lines between paragraphs."""
    if spellings is None:
        spellings = Spellings()
        spellings.see([line for region in regions for line in region])
    page = PageText(spellings=spellings)
    for number, region in enumerate(regions):
        between = [_between(page.text, region[0]) if number else "", *separators(region)]
        tables = find_tables(region)
        _separate(between, tables)
        marks = {at: mark for table in tables for at, mark in cell_separators(table).items()}
        starts = []
        for at, (line, separator) in enumerate(zip(region, between, strict=True)):
            lead, behind = marks.get(at, ("", ""))
            is_cell = at in marks and separator == " "
            page.add(line, lead if is_cell else separator + lead, behind)
            starts.append((page.starts[-1][0] if page.starts else 0, len(page.text)))
        for table in tables:
            page.nodes += _row_nodes(table, region, starts)
    page.end()
    return page


def _separate(between: list[str], tables: Sequence[Table]) -> None:
    """Put the rows of tables below each other, and an empty line around each table."""
    for table in tables:
        for row in table.rows:
            first, *later_cells = (cell for cell in row if cell is not None)
            between[first] = "\n\n" if first == table.first and first else between[first]
            between[first] = "\n" if first != table.first else between[first]
            for cell in later_cells:
                between[cell] = " "
        if table.last + 1 < len(between):
            between[table.last + 1] = "\n\n"


def _row_nodes(table: Table, region: Region, starts: Sequence[tuple[int, int]]) -> Iterator[Node]:
    """Yield a node for each row, where its lines were written, with the names above its cells."""
    columns = ColumnNames()
    names_columns = _has_names(table, region)
    for number, row in enumerate(table.rows, 1):
        cells = [cell for cell in row if cell is not None]
        header = columns.see(["" if cell is None else region[cell].text for cell in row])
        header = header if names_columns else ""
        yield Node("row", starts[cells[0]][0], starts[cells[-1]][1], row=number, header=header)


def _has_names(table: Table, region: Region) -> bool:
    """Return whether numbers are below the first row, and none in it."""
    first, *later_rows = table.rows
    for number, name in enumerate(first):
        below = [region[cell].text for row in later_rows if (cell := row[number]) is not None]
        numbers = sum(any(map(str.isdigit, text)) for text in below)
        is_name = name is None or not any(map(str.isdigit, region[name].text))
        if is_name and below and 2 * numbers >= len(below):
            return True
    return False


def ends_sentence(text: str) -> bool:
    """Return whether the text ends where a sentence may."""
    return _SENTENCE_END.search(text.rstrip()) is not None


def _between(text: str, line: Line) -> str:
    """Return what parts two columns: a paragraph may run on at the top of the next one."""
    runs_on = not _SENTENCE_END.search(text) and line.text[:1].islower()
    return "\n" if runs_on else "\n\n"


def _cleaned(line: Line) -> tuple[str, list[tuple[int, int]]]:
    """Return a line without stray characters, ligatures spelt out, and its runs."""
    text = line.text
    if line.indices or _STRAY.search(text):
        return _character_by_character(line)
    return text, [(0, line.index)]


def _character_by_character(line: Line) -> tuple[str, list[tuple[int, int]]]:
    indices = line.indices or range(line.index, line.index + len(line.text))
    out, runs = "", [(0, line.index)]
    for character, index in zip(line.text, indices, strict=True):
        start, first = runs[-1]
        if index - first != len(out) - start:
            runs.append((len(out), index))
        out += _LIGATURES.get(character) or _replacement(character)
    return out, list(dict(runs).items())  # of two runs at one place the later counts


def _replacement(character: str) -> str:
    if "\ud800" <= character <= "\udfff":
        return "\ufffd"
    return character if character in HYPHENS or not _STRAY.match(character) else ""


def _ends_open(text: str) -> bool:
    """Return whether a hyphen after a letter ends the text."""
    return text[-1:] != "" and text[-1] in _REAL_HYPHENS + HYPHENS and text[-2:-1].isalpha()


def continues(page_end: str, following: str) -> bool:
    """Return whether the last word of a page goes on in the next, its hyphen being the line's."""
    return _ends_open(page_end) and following[:1].islower()
