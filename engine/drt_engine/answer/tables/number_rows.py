"""Rows of tables of numbers whose columns single spaces part, as text from a PDF has them.

A line of names, and below it lines that end in as many numbers; what is before the numbers names
the row, with or without a name above it. Where a cell is empty its column cannot be told: such a
line ends the table. Knows nothing of documents or questions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from drt_engine.text.table_rows import Cell, TableRow
from drt_engine.text.words import STOP_WORDS

_LEAST_ROWS, _LEAST_NUMBERS, _MOST_WORDS = 2, 2, 30
_WORD = re.compile(r"\S+")
# A number, with a sign, a currency or per cent, and the mark of a note: "1.164,[5]".
_NUMBER = re.compile(r"[-+\u2212$\u20ac\u00a3]?\d[\d.,]*%?(?:\[\d{1,3}\]|\*{1,3})?")
_NOTE = re.compile(r"(?:,?\[\d{1,3}\]|\*{1,3}|,)\Z")
_YEAR = re.compile(r"(?:19|20)\d\d")
_BARS = re.compile(r"[|\t]")
_Line = Sequence[re.Match[str]]
# Two lines below each other that end in numbers, as a first look.
_NUMBERS = r"\S[^\n|]{0,200} [-+\u2212$]?\d\S{0,20} [-+\u2212$]?\d\S{0,20} ?"
NUMBER_LINES = re.compile(rf"(?m)^{_NUMBERS}\n{_NUMBERS}$")


def number_rows(text: str) -> list[TableRow]:
    """Return the rows of all such tables in a text, in order; the lines of names are no rows."""
    lines = list(_lines(text))
    counts = [_count_numbers(line) for line in lines]
    rows: list[TableRow] = []
    number = 0
    while number < len(lines) - 1:
        first, count = number + 1, counts[number + 1]
        if count < _LEAST_NUMBERS or not _may_be_names(lines[number], counts[number], count):
            number = first
            continue
        end = next((n for n in range(first, len(lines)) if counts[n] != count), len(lines))
        # A title above a line of years; where all lines end in years, they are rows.
        if (
            first + 1 < end
            and _are_years(lines[first], count)
            and not _are_years(lines[first + 1], count)
        ):
            number = first
            continue
        rows += _named_rows(lines[number], lines[first:end], count)
        number = end  # each line is of one table
    return rows


def _lines(text: str) -> Iterator[_Line]:
    start = 0
    for line in text.split("\n"):
        words = [] if _BARS.search(line) else list(_WORD.finditer(text, start, start + len(line)))
        yield words if len(words) <= _MOST_WORDS else []
        start += len(line) + 1


def _count_numbers(line: _Line) -> int:
    """Return how many numbers a line ends in, without its first word."""
    return sum(1 for _ in takewhile(lambda w: _NUMBER.fullmatch(w[0]), reversed(line[1:])))


def _may_be_names(line: _Line, numbers: int, count: int) -> bool:
    """Return whether a line above ``count`` numbers names columns: no prose, but maybe years."""
    if len(line) < count or len(line) < _LEAST_NUMBERS:
        return False
    words = [word[0].lower() for word in line]
    if numbers:
        return numbers == count and _are_years(line, count)
    is_prose = line[-1][0][-1] in ".,:;?!" or STOP_WORDS.intersection(words)
    return not is_prose and len(set(words)) == len(words)


def _are_years(line: _Line, count: int) -> bool:
    """Return whether the last words of a line are years."""
    return all(_YEAR.fullmatch(word[0]) for word in line[-count:])


def _named_rows(names: _Line, block: Sequence[_Line], count: int) -> list[TableRow]:
    """Return the rows of a block; none where what names them does not fit its names."""
    num_labels = len(names) - count
    if len(block) < _LEAST_ROWS or (
        num_labels > 1 and any(len(line) != len(names) for line in block)
    ):
        return []
    return [TableRow(tuple(_cells(names, line, count))) for line in block]


def _cells(names: _Line, line: _Line, count: int) -> Iterator[Cell]:
    num_labels = len(names) - count
    if num_labels > 1:
        labels = [(names[n][0], line[n].start(), line[n].end()) for n in range(num_labels)]
    else:
        label = names[0][0] if num_labels else ""
        labels = [(label, line[0].start(), line[-count - 1].end())]
    for name, start, end in labels:
        yield Cell(name, line[0].string[start:end], start, end)
    for column, number in zip(names[-count:], line[-count:], strict=True):
        text = _NOTE.sub("", number[0])
        yield Cell(_NOTE.sub("", column[0]), text, number.start(), number.start() + len(text))
