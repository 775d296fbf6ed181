"""Dates at the end of time, before it, and none at all: text for a reader, never an error."""

from __future__ import annotations

import datetime
import io
from pathlib import Path

import openpyxl
import pytest

from drt_engine.documents.base import date_of
from drt_engine.errors import ConfigError
from drt_engine.retrieval.filters import Filters
from tests.engine.documents.helpers import joined, make_pdf, read
from tests.engine.documents.makers import make_docx, paragraph
from tests.tables import each_row

DATES = (
    *("9998-12-31", "9999-12-31T23:59:59Z", "10000-01-01", "-1", "-0001-01-01", "0000-00-00"),
    *("99999999999999999999-01-01", "D:99991231235959+99'99'", "2024-02-30", "31 December 9999"),
    *("Fri, 31 Dec 99999 25:61:61 +9999", "Mon, 0 Jan 0000 00:00:00 -9999", "٩٩٩٨-١٢-٣١", "nan"),
)
MANY = each_row("date", DATES)


@MANY
def test_a_date_is_a_day_or_what_was_written(date: str) -> None:
    assert date_of(date) == date or datetime.date.fromisoformat(date_of(date)[:8] + "01")


@MANY
@each_row(
    ("name", "text"),
    [
        ("a.md", "---\ntitle: T\ndate: {}\n---\n\nThe key is blue.\n"),
        ("a.rst", "T\n=\n\n:Date: {}\n\nThe key is blue.\n"),
        (
            "a.tex",
            "\\documentclass{{article}}\\title{{T}}\\date{{{}}}"
            "\\begin{{document}}\\maketitle The key is blue.\\end{{document}}",
        ),
        ("a.html", '<title>T</title><meta name=date content="{}"><p>The key is blue.</p>'),
        ("a.eml", "From: a@b.org\nSubject: T\nDate: {}\n\nThe key is blue.\n"),
        (
            "a.rss",
            "<rss version='2.0'><channel><title>T</title><item><title>One</title>"
            "<pubDate>{}</pubDate><description>The key is blue.</description></item></channel>"
            "</rss>",
        ),
        ("a.csv", "day,key\n{},The key is blue.\n{},red\n"),
    ],
)
def test_a_text_with_a_date(tmp_path: Path, name: str, text: str, date: str) -> None:
    document, blocks = read(tmp_path / name, text.format(date, date))
    assert "The key is blue." in joined(blocks) and "\n" not in document.date


@MANY
def test_an_archive_with_a_date(tmp_path: Path, date: str) -> None:
    core = (
        '<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/'
        'core-properties" xmlns:dcterms="http://purl.org/dc/terms/" xmlns:xsi="http://www.w3.org/'
        f'2001/XMLSchema-instance"><dcterms:created xsi:type="dcterms:W3CDTF">{date}'
        "</dcterms:created></cp:coreProperties>"
    )
    files = {
        "a.docx": make_docx(paragraph("The key is blue."), {"docProps/core.xml": core}),
        "a.pdf": make_pdf([["The key is blue."]]).replace(
            b"/Title ()", f"/ModDate ({date})".encode()
        ),
    }
    for name, data in files.items():
        _, blocks = read(tmp_path / name, data)
        assert "The key is blue." in joined(blocks)


@pytest.mark.filterwarnings("ignore:Cell A2 is marked as a date")  # of openpyxl, in its process
@each_row("number", [-1, 0, 2_958_465, 2_958_466, 10**9, 1e300])
def test_a_day_of_a_sheet(tmp_path: Path, number: float) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(["day", "key"])
    sheet.append([number, "The key is blue."])
    sheet["A2"].number_format = "yyyy-mm-dd"
    data = io.BytesIO()
    book.save(data)
    _, blocks = read(tmp_path / "a.xlsx", data.getvalue())
    assert "The key is blue." in joined(blocks)


@each_row("since", ["9999", "9998-12", "0001", "9999-12-31"])
def test_the_ends_of_the_calendar_are_days(since: str) -> None:
    assert Filters(since=since).since == since


@each_row("since", ["0000", "10000", "-1", "9998-13", "٩٩٩٨", "2024-02-30", "99980"])
def test_no_day_of_the_calendar_is_one_sentence(since: str) -> None:
    with pytest.raises(ConfigError, match="expected YYYY, YYYY-MM or YYYY-MM-DD") as caught:
        Filters(since=since)
    assert "\n" not in str(caught.value)
