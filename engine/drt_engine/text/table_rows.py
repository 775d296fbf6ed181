"""Rows of the tables in a text: cells with their column names and places.

Reads the three ways in which documents write rows: ``name: value | name: value`` (CSV, JSON lines,
spreadsheets), Markdown's ``| value | value |`` and plain ``value | value``, whose first row names
the columns. Knows nothing of documents or questions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_FIELD = re.compile(r"(?:^|(?<= \| ))([^:|]{1,80}): ([^|]*?)(?= \| |$)")
_BAR_CELL = re.compile(r"[^|]+")
_RULE = re.compile(r":?-+:?")
_LEAST_ROWS = 2  # below its header; a single line with bars is a menu or a path


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
    block: list[list[tuple[str, int]]] = []  # rows of bars that follow each other
    for line, start in _lines(text):
        fields = list(_FIELD.finditer(line))
        is_record = len(fields) >= 2 and len(fields) >= line.count(" | ")
        cells = _bar_cells(line, start) if whole and not is_record else []
        if block and (not cells or len(cells) != len(block[0])):
            rows += _with_header(block)
            block = []
        if is_record:
            values = [(m[1].strip(), m[2], start + m.start(2)) for m in fields if m[2]]
            rows.append(TableRow(tuple(Cell(n, v, s, s + len(v)) for n, v, s in values)))
        elif cells and not all(_RULE.fullmatch(value) for value, _ in cells):
            block.append(cells)
    return [row for row in rows + _with_header(block) if row.cells]


def _lines(text: str) -> Iterator[tuple[str, int]]:
    start = 0
    for line in text.split("\n"):
        yield line, start
        start += len(line) + 1


def _bar_cells(line: str, start: int) -> list[tuple[str, int]]:
    """Return values between bars and where they begin; none for a line without two of them."""
    if " | " not in line and not line.lstrip().startswith("|"):
        return []
    cells = []
    for match in _BAR_CELL.finditer(line):
        value = match[0].strip()
        if value:
            indent = len(match[0]) - len(match[0].lstrip())
            cells.append((value, start + match.start() + indent))
    return cells if len(cells) >= 2 else []


def _with_header(block: list[list[tuple[str, int]]]) -> list[TableRow]:
    """Return the rows below the first of a block, which names their columns."""
    if len(block) <= _LEAST_ROWS:
        return []
    names = [name for name, _ in block[0]]
    return [
        TableRow(
            tuple(
                Cell(name, value, start, start + len(value))
                for name, (value, start) in zip(names, row, strict=True)
            )
        )
        for row in block[1:]
    ]
