"""Reads old and open spreadsheets (.xls, .ods) through the extra ``calamine`` (python-calamine)."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from typing import Any

from drt_engine.documents.base import Block, Notes, OpenDocument, Source, one_line, regroup
from drt_engine.documents.encodings import empty
from drt_engine.documents.readers.sheets import Merged, Row, filled, sheet_blocks
from drt_engine.documents.zips import SafeZip
from drt_engine.errors import UnreadableDocument

_OLD_EXCEL = b"\xd0\xcf\x11\xe0"
_ODS = b"mimetypeapplication/vnd.oasis.opendocument.spreadsheet"
_MOST_BYTES = 64 << 20
_DIGITS = 15


def _workbook(source: Source) -> Any:
    library = importlib.import_module("python_calamine")
    with source.open() as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise UnreadableDocument(
            f"{source.name} is a spreadsheet of more than {_MOST_BYTES >> 20} MB; "
            "save it as .xlsx or .csv to have it read."
        )
    if not data.startswith(_OLD_EXCEL):
        with SafeZip(source, "OpenDocument") as archive:  # which knows bombs
            for name in archive.members:
                for _ in archive.pieces(name):
                    pass
    try:
        return library.CalamineWorkbook.from_filelike(_file(data))
    except (library.CalamineError, OSError, ValueError) as error:
        reason = one_line(str(error)).rstrip(".").lower() or type(error).__name__
        raise UnreadableDocument(
            f"{source.name} is not a whole spreadsheet ({reason}); get or export it again."
        ) from error


def _file(data: bytes) -> Any:
    return importlib.import_module("io").BytesIO(data)


def _shown(value: Any) -> str:
    """Return a cell as text, dates in ISO 8601."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return f"{value:.{_DIGITS}g}"
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    return str(value).replace("\r\n", "\n").replace("\r", "\n").replace("\0", "").strip()


def _rows(sheet: Any) -> Iterator[Row]:
    for cells in sheet.to_python(skip_empty_area=False):
        row = [_shown(cell) for cell in cells]
        while row and not row[-1]:
            row.pop()
        yield row


def _merged(sheet: Any) -> Merged:
    merged: Merged = {}
    for (top, first), (bottom, last) in sheet.merged_cell_ranges or ():
        merged.setdefault(top + 1, []).append((first, last, bottom + 1))
    return merged


def _pieces(source: Source, notes: Notes) -> Iterator[Block]:
    workbook = _workbook(source)
    for about in workbook.sheets_metadata:
        if str(about.visible) != "SheetVisibleEnum.Visible":
            notes.skip("sheet", "hidden")
            continue
        sheet = workbook.get_sheet_by_name(about.name)
        for block in sheet_blocks(filled(_rows(sheet), _merged(sheet))):
            yield replace(block, section=one_line(about.name))


@dataclass(frozen=True)
class OtherSheetsReader:
    """The visible sheets of an .xls or .ods workbook, row by row."""

    def recognises(self, head: bytes) -> bool:
        """Return whether a file begins as an OpenDocument spreadsheet does."""
        return head.startswith(b"PK\x03\x04") and _ODS in head[:200]

    def open(self, source: Source) -> OpenDocument:
        """Open a workbook; raise EmptyDocument where no visible cell holds anything."""
        if next(_pieces(source, Notes()), None) is None:
            raise empty(source)
        notes = Notes()
        is_ods = source.suffix in (".ods", ".ots")
        media = (
            "application/vnd.oasis.opendocument.spreadsheet"
            if is_ods
            else "application/vnd.ms-excel"
        )
        blocks = regroup(_pieces(source, notes))
        return OpenDocument(one_line(source.file_name), media, blocks, notes)
