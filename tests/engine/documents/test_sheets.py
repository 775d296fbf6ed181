"""Workbooks: rows with their column names, sheets as sections, and what is wrong with a file."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from drt_engine.documents import Source, open_document
from drt_engine.errors import EmptyDocument, MissingExtra, UnreadableDocument
from tests.engine.documents.helpers import read, sections
from tests.engine.documents.makers import make_zip
from tests.tables import each_row

GDP: list[list[Any]] = [
    ["Gross domestic product"],
    ["country", "capital", "gdp_trillion", "share", "updated"],
    ["Japan", "Tokyo", 5.759, 0.0705, date(2010, 4, 1)],
    ["France", None, 2.643, 0.033, datetime(2011, 1, 2, 9, 30)],
    [],
    ["Kenya", "Nairobi", 40, None, None],
    [],
    ["city", "people"],
    ["Rome", 2800000],
    ["Oban", 8500],
]
READ = """\
Gross domestic product

country | capital | gdp_trillion | share | updated
country: Japan | capital: Tokyo | gdp_trillion: 5.76 | share: 7.05% | updated: 2010-04-01
country: France | gdp_trillion: 2.643 | share: 3% | updated: 2011-01-02 09:30:00

country: Kenya | capital: Nairobi | gdp_trillion: 40

city | people
city: Rome | people: 2800000
city: Oban | people: 8500"""


def workbook(rows: Sequence[Sequence[Any]], **formats: str) -> bytes:
    """A workbook of one sheet with these rows, a hidden one, and one of remarks."""
    library = pytest.importorskip("openpyxl")
    book = library.Workbook()
    sheet = book.active
    sheet.title = "GDP"
    for row in rows:
        sheet.append(row)
    for place, number_format in formats.items():
        sheet[place].number_format = number_format
    hidden = book.create_sheet("secret")
    hidden.append(["salary", 12])
    hidden.sheet_state = "hidden"
    if rows:
        book.create_sheet("Remarks").append(["All sums\nare estimates", True, 1 / 3])
    book.properties.creator, book.properties.created = "Ann Lee", datetime(2024, 3, 5)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def test_rows_have_their_column_names_and_sheets_are_sections(tmp_path: Path) -> None:
    formats = {"C3": "#,##0.00", "D3": "0.00%", "D4": "0%"}
    document, blocks = read(tmp_path / "a.xlsx", workbook(GDP, **formats))
    assert sections(blocks) == [
        ("GDP", READ),
        ("Remarks", "All sums\nare estimates\nTRUE | 0.333333333333333"),
    ]
    assert (document.title, document.author, document.date) == ("a.xlsx", "Ann Lee", "2024-03-05")
    assert document.skipped == ("sheet (hidden)",)


@pytest.mark.thorough
def test_a_confined_process_reads_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    _, blocks = read(path, workbook(GDP))
    with open_document(Source.from_path(path)) as document:
        assert list(document.blocks) == blocks


def bomb() -> bytes:
    return make_zip({"xl/workbook.xml": b" " * 24_000_000})


@pytest.mark.thorough
@each_row(
    ("content", "sentence"),
    [
        (b"\xd0\xcf\x11\xe0" + b"\0" * 600, "in Excel's old format; save it as an .xlsx"),
        (b"no zip at all", "is not a whole Excel file"),
        (make_zip({"other.xml": "<x/>"}), "holds no workbook"),
        (make_zip({"xl/workbook.xml": "<workbook/>"}), "is not a whole Excel file"),
        (make_zip({"xl/workbook.xml": '<!DOCTYPE x [<!ENTITY a "ha">]><x>&a;</x>'}), "entities"),
        (bomb, "unpacks to far too much"),
    ],
)
def test_a_sentence_for_each_damage(
    content: bytes | Callable[[], bytes], sentence: str, tmp_path: Path
) -> None:
    pytest.importorskip("openpyxl")
    content = content() if callable(content) else content
    with pytest.raises(UnreadableDocument, match=sentence):
        read(tmp_path / "a.xlsx", content)


def test_empty_cut_short_and_without_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = workbook([])
    with pytest.raises(EmptyDocument):
        read(tmp_path / "a.xlsx", content)
    with pytest.raises(UnreadableDocument):
        read(tmp_path / "a.xlsx", content[: len(content) // 2])
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtra, match=r'pip install "drt-assistant\[sheets\]"'):
        read(tmp_path / "a.xlsx", content)
