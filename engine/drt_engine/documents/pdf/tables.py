"""Tables of a page: rows of cells whose boxes are in the same columns.

Works on boxes alone. A cell that is blank keeps its place, so that no value moves below another
name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from drt_engine.documents.pdf.layout import Region, same_row
from drt_engine.documents.pdf.lines import Line

_FEWEST_ROWS = 3
_FEWEST_COLUMNS = 2
_FARTHEST_ROW = 3.0  # in heights of a line, from one row to the next
_LONGEST_CELL = 40  # characters on average; more is prose in columns
_LONGEST_PAIR = 25  # of two columns, unless most values are numbers
_CROSSING = 1.0  # points that boxes of two columns may share
_FILLED = 0.8  # of a column's width, by the lines of prose in it

_Row = list[int]  # numbers of a region's lines
_Column = tuple[float, float]


@dataclass(frozen=True)
class Table:
    """Rows of a region: the number of its line in each column, None for a blank cell."""

    rows: tuple[tuple[int | None, ...], ...]

    @property
    def first(self) -> int:
        """The region's first line that is a cell."""
        return next(cell for cell in self.rows[0] if cell is not None)

    @property
    def last(self) -> int:
        """The region's last line that is a cell."""
        return max(cell for cell in self.rows[-1] if cell is not None)


def find_tables(region: Region) -> list[Table]:
    """Return the tables of a region, in order."""
    tables: list[Table] = []
    for run in _runs(region):
        if len(run) < _FEWEST_ROWS or _mean_cell(region, run) > _LONGEST_CELL:
            continue  # columns of prose, or lines beside their numbers
        # A line above or below may be wider than a column, such as names of several.
        candidates = (run, run[1:], run[:-1], run[1:-1], run[2:])
        table = next(filter(None, (_table(region, rows) for rows in candidates)), None)
        if table is not None:
            tables.append(table)
    return tables


def _mean_cell(region: Region, rows: Sequence[_Row]) -> float:
    return fmean(len(region[number].text) for row in rows for number in row)


def _runs(region: Region) -> Iterator[list[_Row]]:
    """Yield rows of several cells that are close below each other."""
    rows: list[_Row] = []
    for number, line in enumerate(region):
        if number and same_row(region[number - 1], line):
            rows[-1].append(number)
        else:
            rows.append([number])
    run: list[_Row] = []
    for row in rows:
        is_wide = len(row) >= _FEWEST_COLUMNS
        if run and not (is_wide and _is_below(region[run[-1][0]], region[row[0]])):
            yield run
            run = []
        if is_wide:
            run.append(row)
    yield run


def _is_below(upper: Line, lower: Line) -> bool:
    return 0 < upper.middle - lower.middle <= _FARTHEST_ROW * max(upper.height, lower.height)


def _table(region: Region, rows: Sequence[_Row]) -> Table | None:
    """Return a table of some rows; None where their cells are in no columns, or are prose."""
    if len(rows) < _FEWEST_ROWS:
        return None
    columns = _columns([region[number] for row in rows for number in row])
    if len(columns) < max(_FEWEST_COLUMNS, *map(len, rows)):
        return None
    placed = [_placed(region, row, columns) for row in rows]
    longest = _LONGEST_CELL
    if len(columns) == _FEWEST_COLUMNS:
        numbers = sum(any(map(str.isdigit, region[row[-1]].text)) for row in rows)
        longest = _LONGEST_CELL if 2 * numbers >= len(rows) else _LONGEST_PAIR
    if any(row is None for row in placed) or _mean_cell(region, rows) > longest:
        return None
    if any(
        _is_no_column(region, _by_column(placed, n), column) for n, column in enumerate(columns)
    ):
        return None
    full = sum(len(row) >= len(columns) - 1 for row in rows)
    if 2 * full < len(rows):
        return None
    return Table(tuple(row for row in placed if row is not None))


def _by_column(rows: Sequence[tuple[int | None, ...] | None], column: int) -> list[int]:
    """Return the lines that are in a column."""
    cells = [row[column] for row in rows if row is not None]
    return [cell for cell in cells if cell is not None]


def _is_no_column(region: Region, cells: Sequence[int], column: _Column) -> bool:
    """Return whether the lines of a column are long and fill it, as those of a paragraph do.

    So are those beside a column of marks alone: code at a prompt, a tree of files.
    """
    lines = [region[number] for number in cells]
    if not any(character.isalnum() for line in lines for character in line.text):
        return True
    width = column[1] - column[0]
    return (
        fmean(len(line.text) for line in lines) > _LONGEST_CELL
        and fmean(line.x1 - line.x0 for line in lines) >= _FILLED * width
    )


def _columns(cells: Sequence[Line]) -> list[_Column]:
    """Return the places that no cell reaches beyond, from left to right."""
    columns: list[_Column] = []
    for x0, x1 in sorted((cell.x0, cell.x1) for cell in cells):
        if columns and x0 < columns[-1][1] - _CROSSING:
            columns[-1] = (columns[-1][0], max(columns[-1][1], x1))
        else:
            columns.append((x0, x1))
    return columns


def _placed(region: Region, row: _Row, columns: Sequence[_Column]) -> tuple[int | None, ...] | None:
    """Return a row's cells by column; None where two are in one."""
    cells: list[int | None] = [None] * len(columns)
    for number in row:
        at = next(n for n, (x0, x1) in enumerate(columns) if x0 <= region[number].x0 <= x1)
        if cells[at] is not None:
            return None
        cells[at] = number
    return tuple(cells)


def cell_separators(table: Table) -> dict[int, tuple[str, str]]:
    """Return what is written before and behind the line of each cell.

    Outer bars part nothing: a row whose first or last cell is blank has one more.
    """
    marks: dict[int, tuple[str, str]] = {}
    for row in table.rows:
        filled = [column for column, cell in enumerate(row) if cell is not None]
        for before, column in pairwise([-1, *filled]):
            lead = " |" * (column - before) + " " if before >= 0 else "| " * (column + bool(column))
            blank = len(row) - 1 - column if column == filled[-1] else 0
            marks[_cell(row, column)] = (lead, " |" * (blank + bool(blank)))
    return marks


def _cell(row: Sequence[int | None], column: int) -> int:
    number = row[column]
    assert number is not None
    return number
