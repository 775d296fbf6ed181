"""Reads workbooks (.xlsx) through the extra ``sheets`` (openpyxl): rows as a CSV table's, by sheet.

A sheet is a section. Its values are those that were stored with it, as they are shown; formulas are
not computed, hidden sheets are left out. A row of names at the head of a table names the cells
below it, also where another table follows after an empty row.
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from itertools import chain, groupby, islice
from typing import Any
from xml.etree.ElementTree import ParseError

from drt_engine.documents.base import Block, Notes, OpenDocument, Source, one_line, regroup
from drt_engine.documents.encodings import empty
from drt_engine.documents.readers.table import row_blocks
from drt_engine.documents.structure.column_names import header_names, is_number
from drt_engine.documents.xml import Handler, parse
from drt_engine.documents.zips import DAMAGE, SafeZip
from drt_engine.errors import UnreadableDocument

MEDIA = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_WORKBOOK = "xl/workbook.xml"
_OLD_EXCEL = b"\xd0\xcf\x11\xe0"
# What openpyxl was seen to raise for files that are damaged.
_FAULTS = (*DAMAGE, ParseError, KeyError, TypeError, AttributeError, AssertionError)
_DIGITS = 15  # of a number, as many as spreadsheets keep
_NO_DIGITS = re.compile(r'"[^"]*"|\[[^\]]{0,255}\]|\\.')  # parts of a number's format in words
_DECIMALS = re.compile(r"[0#?,]+(?:\.([0#?]+))?")
_TABLE_HEAD = 6  # rows among which a table's names are searched for

Row = Sequence[str]
# Merged cells by the number of their first row: first and last column, last row.
Merged = dict[int, list[tuple[int, int, int]]]
_RANGE = re.compile(r"([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})")
_MOST_MERGED = 100_000
_MOST_FILLED = 256  # columns that a merged cell may fill
_LONGEST_FILL = 60  # characters; a longer cell is text, which nobody reads twice


@contextmanager
def _workbook(source: Source) -> Iterator[tuple[Any, dict[str, Merged]]]:
    """Open a file as openpyxl's workbook, with its merged cells by part.

    Raises UnreadableDocument for what is none.
    """
    library = importlib.import_module("openpyxl")
    merged = _check_parts(source)
    with source.open() as file:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of styles and drawings that it does not know
                workbook = library.load_workbook(file, read_only=True, data_only=True)
            yield workbook, merged
            workbook.close()
        except _FAULTS as error:
            reason = one_line(str(error)).rstrip(".").lower() or type(error).__name__
            raise UnreadableDocument(
                f"{source.name} is not a whole Excel file ({reason}); get or export it again."
            ) from error


class _MergedCells(Handler):
    """Collects the ranges of merged cells of a sheet, by their first row."""

    def __init__(self) -> None:
        self.ranges: Merged = {}
        self._count = 0

    def start(self, name: str, attributes: dict[str, str], _namespace: str, /) -> None:
        """Take a range, \"A2:A4\"."""
        match = _RANGE.fullmatch(attributes.get("ref", "")) if name == "mergeCell" else None
        if match and self._count < _MOST_MERGED:
            first, top, last, bottom = (
                _column(match[1]),
                int(match[2]),
                _column(match[3]),
                int(match[4]),
            )
            self.ranges.setdefault(top, []).append((first, last, bottom))
            self._count += 1


def _column(letters: str) -> int:
    """Return the number of a column, \"A\" being 0."""
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1


def _check_parts(source: Source) -> dict[str, Merged]:
    """Read the parts once, since openpyxl trusts the sizes and the XML of a file.

    Returns the merged cells of each part, which openpyxl's streaming does not know.
    """
    with source.open() as file:
        if file.read(4) == _OLD_EXCEL:
            raise UnreadableDocument(
                f"{source.name} is protected by a password or in Excel's old format; "
                "save it as an .xlsx file without a password."
            )
    with SafeZip(source, "Excel") as archive:
        if _WORKBOOK not in archive:
            raise UnreadableDocument(
                f"{source.name} holds no workbook (no {_WORKBOOK}); get or export it again."
            )
        merged: dict[str, Merged] = {}
        for name in archive.members:
            if name.endswith((".xml", ".rels")):
                handler = _MergedCells()
                for _ in parse(archive.pieces(name), handler, source.name):
                    pass
                merged[name] = handler.ranges
        return merged


def _shown(cell: Any) -> str:
    """Return a cell as its sheet shows it, dates in ISO 8601 and thousands without a separator."""
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | float):
        return _number(value, str(cell.number_format or "").partition(";")[0])
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ")
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value).replace("\r\n", "\n").replace("\r", "\n").replace("\0", "").strip()


def _number(value: float, number_format: str) -> str:
    """Return a number with the decimals and the percent sign of its format."""
    number_format = _NO_DIGITS.sub("", number_format)
    percent = "%" in number_format
    number = value * 100 if percent else value
    decimals = _DECIMALS.search(number_format)
    if decimals and not re.search("[Ee/]", number_format):  # neither an exponent nor a fraction
        places = len(decimals[1] or "")
        if "#" not in (decimals[1] or ""):
            return f"{number:.{places}f}" + "%" * percent
        number = round(number, places)
    return (f"{number:.{_DIGITS}g}" if isinstance(number, float) else str(number)) + "%" * percent


def _rows(sheet: Any) -> Iterator[Row]:
    """Yield the rows of a sheet as text, without the empty cells at their ends."""
    sheet.reset_dimensions()  # a file may state a million empty rows
    for cells in sheet.iter_rows():
        row = [_shown(cell) for cell in cells]
        while row and not row[-1]:
            row.pop()
        yield row


def _part(sheet: Any) -> str:
    return str(getattr(sheet, "_worksheet_path", "")).lstrip("/")


def filled(rows: Iterator[Row], merged: Merged) -> Iterator[Row]:
    """Yield rows in which a merged cell has its text in all that it spans, if it is short.

    One across the whole row is a line of text.
    """
    below: dict[int, tuple[str, int]] = {}  # text and last row, by column
    for number, row in enumerate(rows, 1):
        if not below and number not in merged:
            yield row
            continue
        cells = list(row)
        for column, (text, last) in list(below.items()):
            _put(cells, column, text)
            if last <= number:
                del below[column]
        for first, last, bottom in merged.get(number, ()):
            text = cells[first] if first < len(cells) else ""
            is_line = first == 0 and sum(map(bool, cells)) == 1 and last > first
            if not text or len(text) > _LONGEST_FILL or is_line:
                continue
            for column in range(first, min(last, first + _MOST_FILLED) + 1):
                _put(cells, column, text)
                if bottom > number:
                    below[column] = (text, bottom)
        yield cells


def _put(cells: list[str], column: int, text: str) -> None:
    cells += [""] * (column + 1 - len(cells))
    cells[column] = text


def sheet_blocks(rows: Iterator[Row]) -> Iterator[Block]:
    """Yield the rows of a sheet with their column names, as those of a CSV table.

    A table goes on after an empty row, unless a row of names and then numbers begin another one.
    """
    names: Row = ()
    tables = (table for filled, table in groupby(rows, key=bool) if filled)
    for table in tables:
        head = list(islice(table, _TABLE_HEAD))
        first = next((n for n, row in enumerate(head) if sum(map(bool, row)) > 1), 0)
        for row in head[:first]:  # above the names: what the table is about
            yield Block(one_line(" ".join(row)) + "\n\n")
        head = head[first:]
        own_names, count = header_names(head)
        if count and (not names or any(map(is_number, head[count]))):
            names, head = own_names, head[count:]
            yield Block(" | ".join(names) + "\n")
        for number, row in enumerate(chain(head, table), 1):
            padded = [*names, *[""] * (len(row) - len(names))]
            yield from row_blocks(list(zip(padded, row, strict=False)), number=number)
        yield Block("\n")


def _pieces(source: Source, notes: Notes) -> Iterator[Block]:
    with _workbook(source) as (workbook, merged):
        for sheet in workbook.worksheets:
            if sheet.sheet_state != "visible":
                notes.skip("sheet", "hidden")
                continue
            for block in sheet_blocks(filled(_rows(sheet), merged.get(_part(sheet), {}))):
                yield replace(block, section=one_line(sheet.title))


@dataclass(frozen=True)
class SheetsReader:
    """The visible sheets of a workbook, row by row."""

    def recognises(self, head: bytes) -> bool:
        """Return whether a zip file begins with the parts of a workbook."""
        return head.startswith(b"PK\x03\x04") and b"xl/" in head

    def open(self, source: Source) -> OpenDocument:
        """Open a workbook; raise EmptyDocument where no visible cell holds anything."""
        with _workbook(source) as (workbook, _):
            about = workbook.properties
        if next(_pieces(source, Notes()), None) is None:
            raise empty(source)
        notes = Notes()
        return OpenDocument(
            one_line(about.title or source.file_name),
            MEDIA,
            regroup(_pieces(source, notes)),
            notes,
            one_line(about.creator or ""),
            about.created.date().isoformat() if about.created else "",
        )
