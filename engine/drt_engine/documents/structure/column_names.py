"""Names of a table's columns: whether its first row, or first two, give them.

Knows cells as text, and no format.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from drt_engine.documents.base import one_line

_LONGEST_NAME = 80
_LONGEST_ABOVE = 40  # of a name in running text, where a first row may as well be a row
_LONGEST_HEADER = 400  # characters of all names that are kept with a row
_NAME_ROWS = 2  # of names, at most
_NUMBER = re.compile(r"[-+]?[\d.,]*\d[\d.,]*\s*%?")


def is_number(cell: str) -> bool:
    """Return whether a cell holds a number and nothing else."""
    return _NUMBER.fullmatch(cell.strip()) is not None


def is_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row names columns: short, all different, no numbers, rows follow.

    Columns at the end that are empty need no name.
    """
    if len(rows) < 2 or not rows[0]:
        return False
    width = max((n for row in rows for n, cell in enumerate(row, 1) if cell.strip()), default=0)
    first = [cell.strip() for cell in rows[0][:width]]  # without columns that are empty
    named = [cell for cell in first if cell]
    return (
        len(named) >= max(1, len(first) - 1)
        and len(set(named)) == len(named)
        and all(len(cell) <= _LONGEST_NAME and not is_number(cell) for cell in named)
    )


def header_names(rows: Sequence[Sequence[str]]) -> tuple[list[str], int]:
    """Return the names of the columns, and how many of the first rows give them; 0 for none.

    Of two rows, the first has names above several columns each: "2024" above "Q1" and "Q2" gives
    "2024 Q1" and "2024 Q2". A column that goes on from one row to the other has its name once.
    """
    if len(rows) > _NAME_ROWS:
        names = _names_of_two(*(list(map(one_line, row)) for row in rows[:_NAME_ROWS]))
        if names and is_header([names, *rows[_NAME_ROWS:]]) and any(map(is_number, rows[2])):
            return names, _NAME_ROWS
    return ([one_line(cell) for cell in rows[0]], 1) if is_header(rows) else ([], 0)


def _names_of_two(upper: Sequence[str], lower: Sequence[str]) -> list[str]:
    """Return what two rows of names give together; nothing unless the upper one spans columns."""
    width = max(len(upper), len(lower))
    above = [*upper, *[""] * (width - len(upper))]
    below = [*lower, *[""] * (width - len(lower))]
    spans = any(not name or name == last for last, name in pairwise(above)) and bool(above[0])
    if not spans or any(map(is_number, below)) or sum(map(bool, below)) < _NAME_ROWS:
        return []
    names: list[str] = []
    last = ""
    for high, low in zip(above, below, strict=True):
        last = high or (last if low else "")
        names.append(low if low == last or not last else f"{last} {low}".strip())
    return names if len({name for name in names if name}) == len(names) else []


def _may_name(cell: str) -> bool:
    """Return whether a cell of running text may be a name, or blank above the names of rows."""
    return not cell or (len(cell) <= _LONGEST_ABOVE and any(map(str.isalpha, cell)))


class ColumnNames:
    """Names of the columns of a table whose rows pass one by one."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._rows = 0

    def see(self, cells: Sequence[str]) -> str:
        """Take the next row; return the names above its cells, as a row, "" where it has none."""
        self._rows += 1
        cells = [one_line(cell) for cell in cells]
        if self._rows == 1:
            self._names = cells if len(cells) > 1 and all(map(_may_name, cells)) else []
            return ""
        if self._rows == _NAME_ROWS and (both := _names_of_two(self._names, cells)):
            self._names = both
            return ""
        if len(cells) != len(self._names) or not is_header([self._names, cells]):
            return ""
        header = " | ".join(self._names)
        return header if len(header) <= _LONGEST_HEADER else ""
