"""Title, author and date that documents give of themselves, and the grammar of what was skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from drt_engine.documents import Source, open_document
from drt_engine.documents.base import Notes, date_of
from drt_engine.documents.metadata import header_fields, names_section, opening_title, yaml_fields
from tests.engine.documents.helpers import joined, read
from tests.engine.documents.makers import make_docx, make_epub, paragraph
from tests.tables import each_row

PEP = """PEP: 8
Title: Style Guide for
 Python Code
Author: Guido van Rossum <guido@python.org>,
        Barry Warsaw <barry@python.org>
Status: Active
Created: 05-Jul-2001

Abstract
========

Words.
"""
RST_BELOW = "The Book\n========\n\n:Author: Ann Lee\n:Date: 2024-03-01\n\nWords.\n"
FRONT = """---
title: "The: Book"
# a comment
author:
  - name: Ann Lee
  - Jo Hallbeck
date: March 5, 2021
tags: [a, b]
---
# First
"""
LETTER = "From: Ann <a@b.org>\nTo: Jo\nSubject: Oil\nDate: Tue, 5 Mar 2024 10:00:00 +0100\n\nHi.\n"


@each_row(
    ("name", "text", "expected"),
    [
        (
            "pep.rst",
            PEP,
            (
                "Style Guide for Python Code",
                "Guido van Rossum <guido@python.org>, Barry Warsaw <barry@python.org>",
                "2001-07-05",
            ),
        ),
        ("b.rst", RST_BELOW, ("The Book", "Ann Lee", "2024-03-01")),
        ("c.rst", "Note: this is\ntext.\n", ("c.rst", "", "")),
        ("changes.rst", "Version 1.2.0\n-------------\n\nNew.\n", ("changes.rst", "", "")),
        ("news.md", "# 1.2.0 (2024-03-05)\n\nNew.\n", ("news.md", "", "")),
        ("guide.md", "# 3.0 Migration guide\n\nNew.\n", ("3.0 Migration guide", "", "")),
        ("a.md", FRONT, ("The: Book", "Ann Lee, Jo Hallbeck", "2021-03-05")),
        ("a.eml", LETTER, ("Oil", "Ann <a@b.org>", "2024-03-05")),
    ],
)
def test_text_files_give_title_author_and_date(
    tmp_path: Path, name: str, text: str, expected: tuple[str, str, str]
) -> None:
    document, _ = read(tmp_path / name, text)
    assert (document.title, document.author, document.date) == expected


def test_a_book_names_all_its_authors(tmp_path: Path) -> None:
    authors = "<dc:creator>Ann Lee</dc:creator><dc:creator>Jo</dc:creator>"
    extra = f"{authors}<dc:date>2008-05-20</dc:date>"
    full = make_epub({"a.xhtml": "<p>Words.</p>"}, title=f"Cold</dc:title>{extra}<dc:title>Two")
    document, _ = read(tmp_path / "a.epub", full)
    assert (document.title, document.author) == ("Cold", "Ann Lee, Jo")
    assert document.date == "2008-05-20"


def test_the_child_process_passes_author_and_date_on(tmp_path: Path) -> None:
    (tmp_path / "a.eml").write_text(LETTER)
    with open_document(Source.from_path(tmp_path / "a.eml")) as document:
        assert (document.author, document.date) == ("Ann <a@b.org>", "2024-03-05")


@each_row(
    ("written", "date"),
    [
        ("D:20150319120000+01'00'", "2015-03-19"),
        ("2015-03-19T10:00:00Z", "2015-03-19"),
        ("13-Jun-2001", "2001-06-13"),
        ("January 20th, 2023", "2023-01-20"),
        ("Spring 1999", "Spring 1999"),
        ("2015-19-03", "2015-19-03"),
        ("12345678901", "12345678901"),
        ("", ""),
    ],
)
def test_dates(written: str, date: str) -> None:
    assert date_of(written) == date


def test_front_matter_of_other_forms() -> None:
    text = 'title: >-\n  Two\n  lines\nauthors: ["Lee, A", Jo]\nempty:\nx: y # why\n'
    assert yaml_fields(text) == {
        "title": "Two lines", "authors": "\"Lee, A\", Jo", "empty": "", "x": "y",
    }  # fmt: skip
    assert header_fields(["Title: A", "no field"]) == {"title": "A"}


def test_notes_are_english() -> None:
    notes = Notes()
    for what in (
        "header or footer", "header or footer line", "end of a result", "picture in a result",
        "attachment map.png", "part of type image/png", "text/a.xhtml", "entry", "image",
    ):  # fmt: skip
        notes.skip(what, "why", 2)
    assert notes.skipped == (
        "2 headers or footers (why)",
        "2 header or footer lines (why)",
        "2 ends of a result (why)",
        "2 pictures in a result (why)",
        "2 attachments map.png (why)",
        "2 parts of type image/png (why)",
        "2 times text/a.xhtml (why)",
        "2 entries (why)",
        "2 images (why)",
    )


@each_row(
    ("what", "many"),
    [
        ("attached message", "3 attached messages"),
        ("attachment minutes of May.pdf", "3 attachments minutes of May.pdf"),
        ("description of a picture", "3 descriptions of a picture"),
        ("empty file in an archive", "3 empty files in an archive"),
        ("end of Subject", "3 ends of Subject"),
        ("fence of a directive", "3 fences of a directive"),
        ("file intro", "3 files intro"),
        ("further header called To", "3 further headers called To"),
        ("hidden word", "3 hidden words"),
        ("image file", "3 image files"),
        ("line after the end of the document", "3 lines after the end of the document"),
        ("line around the parts", "3 lines around the parts"),
        ("line of a table of contents", "3 lines of a table of contents"),
        ("line of words in a figure", "3 lines of words in a figure"),
        ("other header", "3 other headers"),
        ("symbol of a picture font", "3 symbols of a picture font"),
        ("word around the main part", "3 words around the main part"),
        ("word in buttons or fields", "3 words in buttons or fields"),
    ],
)
def test_notes_of_one_and_of_many(what: str, many: str) -> None:
    notes = Notes()
    notes.skip(what, "why")
    assert notes.skipped == (f"{what} (why)",)
    notes.skip(what, "why", 2)
    assert notes.skipped == (f"{many} (why)",)


COMMENTS = "<w:comments SPACE>{}</w:comments>"


@pytest.mark.parametrize(
    ("inside", "skipped"),
    [
        ("", ()),
        (
            '<w:comment w:id="0"><w:p/></w:comment><w:comment w:id="1"/>',
            ("2 comments (beside the running text)",),
        ),
    ],
)
def test_only_comments_that_are_there_are_noted(
    tmp_path: Path, inside: str, skipped: tuple[str, ...]
) -> None:
    parts = {"comments.xml": COMMENTS.format(inside), "header1.xml": "<w:hdr SPACE><w:p/></w:hdr>"}
    document, _ = read(tmp_path / "a.docx", make_docx(paragraph("Words."), parts))
    assert document.skipped == skipped


@each_row(
    ("text", "title"),
    [
        ("Manual for\n\nLamps and Oil\n\nversion 1\n", "Manual for Lamps and Oil"),
        ("Manual of lamps\n\n1990\n", "Manual of lamps"),
        ("It was dark. The lamps were out.\n", ""),
        ("x" * 200, ""),
        ("", ""),
    ],
)
def test_a_title_without_a_style(text: str, title: str) -> None:
    assert opening_title(text) == title


@each_row(
    ("heading", "expected"),
    [
        *(("1 Introduction", True), ("2.1. Lamps", True), ("II Lamps", True), ("iv) Oil", True)),
        *(("Introduction", True), ("I have lamps", False), ("Civic lamps", False)),
        *(("Introduction to lamps", False), ("1984", False)),
    ],
)
def test_headings_of_sections(heading: str, expected: bool) -> None:
    assert names_section(heading) is expected


def test_a_title_of_several_paragraphs_is_one(tmp_path: Path) -> None:
    lines = [paragraph(text, style="Title") for text in ("", "The Long", "Title")]
    body = "".join([*lines, paragraph("Words."), paragraph("Later", style="Title")])
    assert read(tmp_path / "a.docx", make_docx(body))[0].title == "The Long Title"


def test_tables_of_contents_of_word_are_not_text(tmp_path: Path) -> None:
    style = '<w:style w:styleId="T1"><w:name w:val="toc 1"/></w:style>'
    body = paragraph("Camp 3", style="T1") + paragraph("Camp", style="H1") + paragraph("Words.")
    styles = f'<w:styles SPACE>{style}<w:style w:styleId="H1"><w:name w:val="heading 1"/></w:style>'
    document, blocks = read(
        tmp_path / "a.docx", make_docx(body, {"styles.xml": f"{styles}</w:styles>"})
    )
    assert joined(blocks) == "Camp\n\nWords.\n"
    assert document.skipped == (
        "line of a table of contents (the sections are read where they are)",
    )


def test_tick_boxes_are_parted_and_signs_of_picture_fonts_read(tmp_path: Path) -> None:
    def run(inner: str) -> str:
        return f"<w:r>{inner}</w:r>"

    box = '<w:ffData><w:checkBox><w:default w:val="{}"/></w:checkBox></w:ffData>'
    body = (
        "<w:p>"
        + "".join(
            [
                run("<w:t>\u2610Yes\u2612No</w:t>"),
                run('<w:sym w:font="Wingdings" w:char="F0FE"/>') + run("<w:t>Maybe</w:t>"),
                run(box.format(1)) + run("<w:t>Never</w:t>") + run(box.format(0)),
                run('<w:sym w:font="Odd" w:char="F0FE"/>'),
            ]
        )
        + "</w:p>"
    )
    document, blocks = read(tmp_path / "a.docx", make_docx(body))
    assert joined(blocks) == "\u2610 Yes \u2612 No \u2611 Maybe \u2612 Never \u2610\n"
    assert document.skipped == ("symbol of a picture font (without a name)",)


def test_tick_boxes_of_content_controls_are_read_once(tmp_path: Path) -> None:
    def control(ticked: int, content: str) -> str:
        return (
            '<w:sdt><w:sdtPr><w14:checkbox xmlns:w14="http://schemas.microsoft.com/office/word/2010/'
            f'wordml"><w14:checked w14:val="{ticked}"/><w14:checkedState w14:val="2612"/>'
            "</w14:checkbox></w:sdtPr>"
            f"<w:sdtContent><w:r>{content}</w:r></w:sdtContent></w:sdt>"
        )

    written = control(1, "<w:t>\u2612</w:t>") + "<w:r><w:t> Agree</w:t></w:r>"
    drawn = (
        control(0, '<w:sym w:font="MS Gothic" w:char="2610"/>') + "<w:r><w:t> Object</w:t></w:r>"
    )
    document, blocks = read(
        tmp_path / "a.docx", make_docx(f"<w:p>{written}</w:p><w:p>{drawn}</w:p>")
    )
    assert joined(blocks) == "\u2612 Agree\n\n\u2610 Object\n"
    assert document.skipped == ()
