"""The number that a cell holds, and the columns of a table whose cells can be compared.

Knows text alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from drt_engine.text.table_rows import Cell, TableRow

_NUMBER = re.compile(r"[-+\u2212]?(?:\d[\d,]*)?\.?\d+")
# What may stand around the number of a cell: a currency, a unit, a mark of approximation.
_BEFORE = re.compile(r"\W*(?:[A-Za-z]{1,3}(?:[$\u20ac\u00a3]|\s)\s*)?")
_AFTER = re.compile(r"\W*(?:[A-Za-z\u00b5]{1,8}[\u00b2\u00b3./]?[A-Za-z]{0,3})?\W*")
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_MONTH = (
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
    r"(?:uary|ruary|ch|il|e|y|ust|t|tember|ober|ember)?\.?"
)
# "5 March 2024", "Mar 5, 2024", "March 2024", "5 March"
_NAMED_DATE = re.compile(
    rf"(?i)(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\.?[ -])?(?P<month>{_MONTH})"
    r"(?:[ -](?P<after>\d{1,2})(?:st|nd|rd|th)?(?!\d))?(?:,?[ -](?P<year>\d{4}))?"
)
# "34,6" and "1.234,56" have a decimal comma, "34.6" and "1,234.56" a point, "1.234" may be either.
_DECIMAL_COMMA = re.compile(r"\D*(?:\d{1,3}(?:\.\d{3})+,\d+|\d+,(?:\d{1,2}|\d{4,}))\D*")
_DECIMAL_POINT = re.compile(r"\D*(?:\d{1,3}(?:,\d{3})+\.\d+|\d*\.(?:\d{1,2}|\d{4,}))\D*")
_CLOCK = re.compile(r"(\d{1,3}):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?")
_TRUE, _FALSE = (
    frozenset({"yes", "true", "y", "x", "\u2713", "\u2714", "\u2705", "\u2611", "\u2714\ufe0f"}),
    frozenset(
        {"no", "false", "n", "-", "\u2013", "\u2717", "\u2718", "\u274c", "\u2715", "\u2610"}
    ),
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_APART = 80  # characters between rows of two tables
_FEWEST_GROUPED, _GROUPED = 10, 0.25  # rows, and values for each of them, of a column of groups
_FILLED = 0.8  # of a column's cells that are numbers, for a column of numbers


def number_of(text: str) -> float:
    """Return the number in a cell, ``nan`` where there is none: "$1,234.5" is 1234.5."""
    match = _NUMBER.search(text)
    return float(match[0].replace(",", "").replace("\u2212", "-")) if match else math.nan


def comparable(text: str) -> float:
    """Return what a cell is ordered by: a number, a date, or a time; ``nan`` for other text.

    Dates are the number that their digits are, times are in minutes.
    """
    text = text.strip()
    if match := _DATE.fullmatch(text):
        return float("".join(match.groups()))
    if match := _CLOCK.fullmatch(text):
        first, second, third = (float(part or 0) for part in match.groups())
        return first * 60 + second + third / 60
    if match := _NAMED_DATE.fullmatch(text):
        return _named_date(match)
    match = _NUMBER.search(text)
    if match is None:
        return math.nan
    before, after = text[: match.start()], text[match.end() :]
    return number_of(text) if _BEFORE.fullmatch(before) and _AFTER.fullmatch(after) else math.nan


def _named_date(match: re.Match[str]) -> float:
    """Return the number that the digits of a date would be, ``nan`` for a month alone."""
    day, year = match["day"] or match["after"], match["year"]
    if not day and not year:
        return math.nan
    month = _MONTHS.index(match["month"][:3].lower()) + 1
    return float(int(year or 0) * 10_000 + month * 100 + int(day or 0))


def with_decimal_point(text: str) -> str:
    """Return a number that is written with a decimal comma as one with a decimal point."""
    return text.replace(".", "").replace(",", ".")


def is_amount(text: str) -> bool:
    """Return whether a cell can be added up: a number, not a date or a time."""
    text = text.strip()
    is_time = _DATE.fullmatch(text) or _CLOCK.fullmatch(text) or _NAMED_DATE.fullmatch(text)
    return not is_time and not math.isnan(comparable(text))


def truth_of(text: str) -> bool | None:
    """Return what a cell of a column of yes and no says; None for other text."""
    word = text.strip().lower()
    return True if word in _TRUE else False if word in _FALSE else None


@dataclass(frozen=True)
class Table:
    """Rows that follow each other and have columns in common."""

    rows: tuple[TableRow, ...]

    @cached_property
    def columns(self) -> dict[str, list[tuple[Cell, TableRow]]]:
        """The cells of each column with their rows."""
        columns: dict[str, list[tuple[Cell, TableRow]]] = {}
        for row in sorted(self.rows, key=lambda row: -len(row.cells)):
            for cell in row.cells:
                columns.setdefault(cell.column, [])
        for row in self.rows:
            for cell in row.cells:
                columns[cell.column].append((cell, row))
        return columns

    @cached_property
    def _comma_columns(self) -> frozenset[str]:
        """The columns whose numbers have a decimal comma, and points between thousands.

        Where some column has one and none a decimal point, the whole table is written so.
        """
        commas, points = (
            {
                name
                for name, cells in self.columns.items()
                if any(form.fullmatch(cell.text) for cell, _ in cells)
            }
            for form in (_DECIMAL_COMMA, _DECIMAL_POINT)
        )
        return frozenset(self.columns if commas and not points else commas - points)

    def value(self, cell: Cell) -> float:
        """Return what a cell is ordered by, as ``comparable``, with its column's decimal mark."""
        text = cell.text
        has_comma = cell.column in self._comma_columns and is_amount(text)
        return comparable(with_decimal_point(text) if has_comma else text)

    @cached_property
    def ordered(self) -> tuple[str, ...]:
        """The columns by which rows can be ordered."""
        return tuple(
            name
            for name, cells in self.columns.items()
            if sum(not math.isnan(self.value(cell)) for cell, _ in cells) >= _FILLED * len(cells)
        )

    def has_unclear_numbers(self, name: str) -> bool:
        """Return whether a cell of a column has digits and no one value: "1881/1894"."""
        return any(
            math.isnan(self.value(cell)) and any(map(str.isdigit, cell.text))
            for cell, _ in self.columns[name]
        )

    @cached_property
    def boolean(self) -> tuple[str, ...]:
        """The columns of yes and no."""
        return tuple(
            name
            for name, cells in self.columns.items()
            if all(truth_of(cell.text) is not None for cell, _ in cells)
        )

    def truth(self, cell: Cell) -> bool | None:
        """Return what a cell says in a column of yes and no; None in others."""
        return truth_of(cell.text) if cell.column in self.boolean else None

    @cached_property
    def name_column(self) -> str:
        """The column that names the rows: the first, or the first that is text behind others.

        That is behind numbers, or a column with the same few values again and again.
        """
        first = next(iter(self.columns))
        is_text = first not in self.ordered or any(
            any(map(str.isalpha, cell.text)) for cell, _ in self.columns[first]
        )
        if is_text and not self.groups_rows(first):
            return first
        for name, cells in self.columns.items():
            texts = {cell.text for cell, _ in cells}
            if name not in self.ordered and len(texts) > _FILLED * len(self.rows):
                return name
        return first

    def groups_rows(self, name: str) -> bool:
        """Return whether a column groups the rows by a few values, and names none of them."""
        texts = {cell.text for cell, _ in self.columns[name]}
        return len(self.rows) >= _FEWEST_GROUPED and len(texts) < _GROUPED * len(self.rows)


def tables_of(rows: Sequence[TableRow]) -> list[Table]:
    """Return rows, in the order of their text, as tables: most columns in common.

    Half of them is enough for rows below each other, but not for another table further on.
    """
    groups: list[list[TableRow]] = []
    columns: set[str] = set()
    for row in rows:
        names = {cell.column for cell in row.cells}
        common = 2 * len(names & columns) - len(names)
        is_apart = bool(groups) and row.start - groups[-1][-1].end > _APART
        if not groups or common < 0 or (common == 0 and is_apart):
            groups.append([])
            columns = set()
        groups[-1].append(row)
        columns |= names
    return [Table(tuple(group)) for group in groups]
