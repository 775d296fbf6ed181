"""Plain text: headings, tables of contents and titles, and places that lead back to the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.documents.helpers import joined, read, section_at
from tests.tables import each_row

NEWS = """Lamp 0.37 (2022-08-21)
=======================

Library
-------

Fix the wick.

Lamp 0.36
=========

Words.
"""
BOOK = """Title: The Lamp
Author: Ann Lee

Release date: March 15, 2006  [eBook #17]

PART ONE

CHAPTER IV.

Of Oil and Rope

The bears came.

CHAPTER V. THE SNOW

Snow fell.
"""
STANDARD = """3.1.  Terminology

Terms are used.

3.1.1 More of them

More terms.

4. Security

NAME
       lamp - burns oil

SEE ALSO
       oil(1)
"""


def test_underlined_lines_are_sections(tmp_path: Path) -> None:
    document, blocks = read(tmp_path / "NEWS.txt", NEWS)
    assert joined(blocks) == NEWS and document.title == "NEWS.txt"
    assert section_at(blocks, "wick") == "Lamp 0.37 (2022-08-21) > Library"
    assert section_at(blocks, "Words.") == "Lamp 0.36"


def test_chapters_are_sections_and_fields_the_title(tmp_path: Path) -> None:
    document, blocks = read(tmp_path / "a.txt", BOOK)
    assert (document.title, document.author, document.date) == ("The Lamp", "Ann Lee", "2006-03-15")
    assert section_at(blocks, "bears") == "PART ONE > CHAPTER IV. Of Oil and Rope"
    assert section_at(blocks, "Snow fell.") == "PART ONE > CHAPTER V. THE SNOW"


def test_numbers_and_capitals_are_sections(tmp_path: Path) -> None:
    _, blocks = read(tmp_path / "rfc.txt", STANDARD)
    assert joined(blocks) == STANDARD
    for needle, section in (
        ("Terms are", "3.1. Terminology"),
        ("More terms.", "3.1. Terminology > 3.1.1 More of them"),
        ("burns oil", "NAME"),
        ("oil(1)", "SEE ALSO"),
    ):
        assert section_at(blocks, needle) == section


def test_roman_numbers_are_sections_where_they_count(tmp_path: Path) -> None:
    chapters = (
        "I. Lamps\n\nBurn.\n\nII. Bells\n\n1. Of brass\n\nRing.\n\nX. Ann\n\nIV. Oil\n\nDrips.\n"
    )
    _, blocks = read(tmp_path / "a.txt", chapters)
    assert section_at(blocks, "Burn.") == "I. Lamps"
    assert section_at(blocks, "Ring.") == "II. Bells > 1. Of brass"
    assert section_at(blocks, "X. Ann") == "II. Bells > 1. Of brass"
    assert section_at(blocks, "Drips.") == "IV. Oil"


@each_row(
    "text",
    [
        "1. This is the first thing of all.\n",
        "The Lamp is bright\nand warm.\n",
        "WARNING: do not open\nthe door.\n",
        "USA\n",
        "*** START ***\n",
        "name  price\nlamp  ----\n",
        "Chapter and verse\n",
        "-----\n",
        "x" * 200 + "\n====\n",
        "C. Darwin\n",
        "V. Woolf\n",
        "IIX. Lamps\n",
        "LAMP_OIL_*\n",
        "FLAGS=-DLAMP\n",
    ],
)
def test_what_is_no_heading(tmp_path: Path, text: str) -> None:
    _, blocks = read(tmp_path / "a.txt", f"Start.\n\n{text}\nEnd.\n")
    assert {block.section for block in blocks} == {None}


def test_a_sign_above_a_paragraph_begins_no_section(tmp_path: Path) -> None:
    text = "LAMPS\n\nBurn.\n\nNOTE:\n\nThey are hot.\n\nWARNING\n\nDo not touch.\n"
    _, blocks = read(tmp_path / "a.txt", text)
    assert {block.section for block in blocks} == {"LAMPS"}


def test_other_files_than_prose_have_no_headings(tmp_path: Path) -> None:
    for name in ("a.log", "a.yaml"):
        document, blocks = read(tmp_path / name, BOOK)
        assert {block.section for block in blocks} == {None} and document.title == name
    _, blocks = read(tmp_path / "a.org", "* Lamps\n\n** Oil\n\nBurns.\n")
    assert section_at(blocks, "Burns.") == "Lamps > Oil"


def test_a_first_line_says_that_stars_are_headings(tmp_path: Path) -> None:
    head, body = "Pier NEWS   -*- outline -*-", "\n\n* Release 2.1\n\n** Fixes\n\nOil burns.\n"
    document, blocks = read(tmp_path / "NEWS", head + body)
    assert section_at(blocks, "Oil burns.") == "Release 2.1 > Fixes"
    assert document.title == "Pier NEWS"
    _, blocks = read(tmp_path / "NEWS", "Pier NEWS" + body)
    assert section_at(blocks, "Oil burns.") is None


def test_a_title_in_capitals_or_in_the_middle(tmp_path: Path) -> None:
    assert read(tmp_path / "a.txt", "          A Lease\n\nWords.\n")[0].title == "A Lease"
    lines = ("A Lease", "Version 2, May 2020", "http://a.b/lease")
    several = "\n".join(["", *(line.center(60).rstrip() for line in lines), "", "Words.", ""])
    assert read(tmp_path / "a.txt", several)[0].title == "A Lease Version 2, May 2020"
    indented = "          A Lease\n          of a house and of all that is in it\n\nWords.\n"
    assert read(tmp_path / "a.txt", indented)[0].title == "a.txt"  # not in the middle
    endless = "          A Lease\n" * 5 + "\nWords.\n"
    assert read(tmp_path / "a.txt", endless)[0].title == "a.txt"
    assert read(tmp_path / "a.txt", "THE LEASE OF IT\n\nWords.\n")[0].title == "THE LEASE OF IT"
    assert read(tmp_path / "a.txt", "The lease\n\nWords.\n")[0].title == "a.txt"


CONTENTS = "1 Lamps ........ 3\n2 Oil ........ 5\n\n3 Rope . . . . . . 9\n"


def test_tables_of_contents_are_passed_over_and_lines_still_count(tmp_path: Path) -> None:
    text = f"Start.\n{CONTENTS}Wait ....... 5\nno table.\n\nEnd ..... 7\n"
    document, blocks = read(tmp_path / "a.txt", text)
    assert joined(blocks) == "Start.\nno table.\n\nEnd ..... 7\n"
    lines = text.split("\n")
    for block in blocks:
        start = block.origin_at(0)
        assert start is not None and text[start:].startswith(block.text)
        assert block.line is not None and block.text.startswith(lines[block.line - 1])
    assert document.skipped == (
        "4 lines of a table of contents (the sections are read where they are)",
    )


LINES = st.sampled_from(["A B C D", "CHAPTER I", "===", "", "x ...... 3", "text", "1.2 Aa", "  y"])


@pytest.mark.thorough
@settings(deadline=None, max_examples=80)  # a busy machine is no failure
@given(st.lists(LINES, min_size=1), st.booleans())
def test_every_block_is_a_piece_of_the_file(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], ends: bool
) -> None:
    text = "\n".join(["start", *lines]) + "\n" * ends
    document, blocks = read(tmp_path_factory.getbasetemp() / "mix.txt", text)
    position = 0
    for block in blocks:
        start = block.origin_at(0)
        assert start is not None and start >= position and text[start:].startswith(block.text)
        position = start + len(block.text)
    assert document.skipped or joined(blocks) == text


@each_row(
    ("text", "title"),
    [
        (
            "Release notes 2.28\n==================\n\nChanges\n-------\n\nMany.\n",
            "Release notes 2.28",
        ),
        ("0.2 (May)\n=========\n\nNew.\n\n0.1 (April)\n===========\n\nOld.\n", "a.txt"),
        ("The Salt Road\n\nby Helena Marsh\n\nIt was night.\n", "The Salt Road"),
        ("It was night.\n\nBy noon it rained.\n", "a.txt"),
    ],
)
def test_titles_by_underline_and_author(tmp_path: Path, text: str, title: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text(text)
    assert read(path)[0].title == title
