"""Rows of the tables in a text: cells with their column names and places.

Reads the ways in which documents write rows: ``name: value | name: value`` (CSV, JSON lines,
spreadsheets), and those whose first row names the columns: Markdown's ``| value | value |``, plain
``value | value``, grids with ``+---+`` between the rows (reStructuredText, Org), lines of fields
between tabs, semicolons or colons, and columns that spaces align. Knows nothing of documents or
questions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from drt_engine.text.aligned_columns import aligned_tables
from drt_engine.text.sentences import Span

_FIELD = re.compile(r"(?:^|(?<= \| ))([^:|]{1,80}): ([^|]*?)(?= \| |$)")
_RULE = re.compile(r":?[-=]+:?")
_GRID_LINE = re.compile(r"\s*\+?(?:[-=]+\+)+[-=]*\s*\Z")
_COMMENT = re.compile(r"(?<!\s)\s*[#;%]+\s*")
_LEAST_ROWS = 2  # below its header; a single line with bars is a menu or a path
_LEAST_LINES = 5  # of fields between tabs, semicolons or colons, which prose has, too
_ALIGNED = "  "  # the separator of columns that spaces align


@dataclass(frozen=True)
class Cell:
    """A value under the name of its column, and its characters [start, end) of the text."""

    column: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class TableRow:
    """The cells of one row that hold a value, in the order of their columns."""

    cells: tuple[Cell, ...]

    @property
    def start(self) -> int:
        """Where the first cell begins."""
        return self.cells[0].start

    @property
    def end(self) -> int:
        """Where the last cell ends."""
        return self.cells[-1].end


def table_rows(text: str, *, whole: bool = True) -> list[TableRow]:
    """Return the rows of all tables in ``text``, in order; their headers are no rows.

    Of a text that is not ``whole``, only rows that name their columns themselves: the header of the
    others may be missing.
    """
    rows: list[TableRow] = []
    block: list[_Fields] = []  # rows of one kind and length that follow each other
    aligned = _aligned(text) if whole else {}
    for line, start in _lines(text):
        records = list(_FIELD.finditer(line))
        is_record = len(records) >= 2 and len(records) >= line.count(" | ")
        fields = None
        if whole and not is_record:
            columns = aligned.get(start)
            fields = _cut(line, start, columns) if columns else _fields(line, start)
        if block and not (fields and fields.belongs_to(block[0])):
            if _is_between_rows(line, block):
                continue
            rows += _with_header(block)
            block = []
        if is_record:
            values = [(m[1].strip(), m[2], start + m.start(2)) for m in records if m[2]]
            rows.append(TableRow(tuple(Cell(n, v, s, s + len(v)) for n, v, s in values)))
        elif fields and not all(_RULE.fullmatch(value) for value, _ in fields.values):
            block.append(fields)
    return [row for row in rows + _with_header(block) if row.cells]


@dataclass(frozen=True)
class _Fields:
    """The values of a line between separators, "" where there is none, and where they begin."""

    separator: str
    values: tuple[tuple[str, int], ...]

    def belongs_to(self, other: _Fields) -> bool:
        return self.separator == other.separator and len(self.values) == len(other.values)


def _aligned(text: str) -> dict[int, tuple[Span, ...]]:
    """Return the columns of lines in tables that spaces align, by where the lines begin."""
    if _ALIGNED not in text:
        return {}
    lines = list(_lines(text))
    return {
        start: table.columns
        for table in aligned_tables([line for line, _ in lines])
        for _, start in lines[table.first : table.last + 1]
    }


def _cut(line: str, start: int, columns: Sequence[Span]) -> _Fields:
    """Return the values of a line at the places of its table's columns."""
    values = []
    for begin, end in columns:
        part = line[begin:end]
        values.append((part.strip(), start + begin + len(part) - len(part.lstrip())))
    return _Fields(_ALIGNED, tuple(values))


def _is_between_rows(line: str, block: Sequence[_Fields]) -> bool:
    """Return whether a line goes on with a table: one of a grid, or an empty comment."""
    if block[0].separator == _ALIGNED:
        return False
    if block[0].separator == "|":
        return _GRID_LINE.match(line) is not None
    return not _COMMENT.sub("", line, count=1).strip()


def _lines(text: str) -> Iterator[tuple[str, int]]:
    start = 0
    for line in text.split("\n"):
        yield line, start
        start += len(line) + 1


def _fields(line: str, start: int) -> _Fields | None:
    """Return the values between the separators of a line; None for one without any."""
    if " | " in line or line.lstrip().startswith("|"):
        return _split(line, start, "|")
    for separator in ("\t", ";", ":"):
        # A colon before a space is prose's, or a clock's where digits are around it.
        if line.count(separator) >= 2 and f"{separator} " not in line.strip():
            return _split(line, start, separator)
    return None


def _split(line: str, start: int, separator: str) -> _Fields | None:
    comment = _COMMENT.match(line) if separator != "|" else None
    begin = comment.end() if comment else len(line) - len(line.lstrip())
    end = len(line.rstrip())
    if separator == "|":  # outer bars hold nothing
        begin += line.startswith("|", begin)
        end -= line.endswith("|", begin, end)
    values, at = [], begin
    for part in line[begin:end].split(separator):
        indent = len(part) - len(part.lstrip())
        values.append((part.strip(), start + at + indent))
        at += len(part) + 1
    return _Fields(separator, tuple(values)) if len(values) >= 2 and any(values[0]) else None


def _merged_names(block: Sequence[_Fields]) -> list[str]:
    """Return the names that two rows give together, "Summer Gold"; none where one row has all.

    The first row then has the same name for several columns, the second is without numbers where
    the rows below have some.
    """
    upper, lower, below = ([value for value, _ in line.values] for line in block[:3])
    if len(set(upper)) == len(upper) or not all(lower) or any(map(_holds_digit, lower)):
        return []
    if not any(map(_holds_digit, below)):
        return []
    names = [
        low if low == high or not high else f"{high} {low}"
        for high, low in zip(upper, lower, strict=True)
    ]
    return names if len(set(names)) == len(names) else []


def _holds_digit(text: str) -> bool:
    return any(character.isdigit() for character in text)


def _with_header(block: Sequence[_Fields]) -> list[TableRow]:
    """Return the rows below the first of a block, which names their columns."""
    drawn = bool(block) and block[0].separator in ("|", _ALIGNED)
    if len(block) <= (_LEAST_ROWS if drawn else _LEAST_LINES):
        return []
    names = [name for name, _ in block[0].values]
    first = 1
    if drawn and (merged := _merged_names(block)):
        names, first = merged, 2
    if not drawn and any(not name or name.isdigit() for name in names):
        return []  # no header
    rows = []
    for line in block[first:]:
        # A row whose first cell is empty goes on with the one above it.
        if drawn and not line.values[0][0]:
            continue
        cells = zip(names, line.values, strict=True)
        rows.append(
            TableRow(
                tuple(
                    Cell(name, value, start, start + len(value))
                    for name, (value, start) in cells
                    if value
                )
            )
        )
    return rows
