"""Finds tables whose columns are kept apart by spaces alone, as terminals and typists write them.

A column's border is where every line of the table is blank, or where a line of dashes says so.
Decides only where the first line can be names: above a line of dashes, or above numbers. Knows
nothing of rows and cells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from drt_engine.text.sentences import Span

_GAP = re.compile(r"\S {2,}\S")
_RULE = re.compile(r"\s*[-=]{2,}(?:\s+[-=]{2,})+\s*\Z")
_DASHES = re.compile(r"[-=]+")
_NAME = re.compile(r"[^\W\d_][^=;{}<>|]{0,60}\Z")
_NUMBER = re.compile(r"[-+$€£]?\d[\d.,/:-]*\s*%?\Z")
_LEAST_ROWS = 3  # below the names; fewer lines align by chance
_NUMBERS = 0.8  # of the values of a column of numbers
_LONGEST_TABLE = 100_000  # lines; what is longer was written by a program for a program


@dataclass(frozen=True)
class AlignedTable:
    """Where a table's lines are: ``first`` to ``last``, numbers of lines; its names are the first.

    ``columns`` are spans of each line, the last one open-ended.
    """

    first: int
    last: int
    columns: tuple[Span, ...]


def aligned_tables(lines: Sequence[str]) -> Iterator[AlignedTable]:
    """Yield the tables among the ``lines`` of a text, in order."""
    first = None
    for number, line in enumerate([*lines, ""]):
        goes_on = first is not None and line.startswith("  ")  # a cell of several lines
        has_gap = "  " in line and "\t" not in line and _GAP.search(line)
        if has_gap or goes_on or _RULE.match(line):
            first = number if first is None else first
            continue
        if first is not None and _LEAST_ROWS < number - first <= _LONGEST_TABLE:
            table = _table(lines[first:number], first)
            if table is not None:
                yield table
        first = None


def _table(lines: Sequence[str], offset: int) -> AlignedTable | None:
    """Return the table that consecutive lines are, if its first line names its columns."""
    rules = [number for number, line in enumerate(lines) if _RULE.match(line)]
    begin = 1 if rules[:1] == [0] else 0  # a rule above the names
    rows = [line for number, line in enumerate(lines[begin + 1 :]) if not _RULE.match(line)]
    if len(rows) < _LEAST_ROWS:
        return None
    columns = _ruled(lines[rules[0]]) if rules else _between_gutters(lines)
    if len(columns) < 2:
        return None
    names = [lines[begin][slice(*column)].strip() for column in columns]
    if not all(map(_NAME.match, names)) or len(set(names)) < len(names):
        return None
    if begin + 1 not in rules and not any(_holds_numbers(rows, column) for column in columns):
        return None
    return AlignedTable(offset + begin, offset + len(lines) - 1, columns)


def _ruled(rule: str) -> tuple[Span, ...]:
    """Return the columns that runs of dashes are drawn above; the text may begin before them."""
    ends = [match.end() for match in _DASHES.finditer(rule)]
    return _spans([0, *ends[:-1]])


def _between_gutters(lines: Sequence[str]) -> tuple[Span, ...]:
    """Return the columns between spans of two or more characters that are blank in all lines."""
    width = max(map(len, lines))
    filled = bytearray(width)
    for line in lines:
        for match in re.finditer(r"\S+", line):
            filled[match.start() : match.end()] = b"\1" * (match.end() - match.start())
    starts = [
        match.end() for match in re.finditer(rb"\A\0*|\0{2,}", bytes(filled)) if match.end() < width
    ]
    return _spans([0, *starts[1:]])


def _spans(starts: Sequence[int]) -> tuple[Span, ...]:
    ends = [*starts[1:], 1 << 30]
    return tuple(zip(starts, ends, strict=True))


def _holds_numbers(rows: Sequence[str], column: Span) -> bool:
    values = [value for row in rows if (value := row[slice(*column)].strip())]
    numbers = sum(_NUMBER.match(value) is not None for value in values)
    return bool(values) and numbers >= _NUMBERS * len(values) and len(values) * 2 >= len(rows)
