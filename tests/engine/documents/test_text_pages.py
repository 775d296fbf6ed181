"""Plain text that is printed in pages, as RFCs are, and what the first lines say of it."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from drt_engine.documents.readers.paged_text import without_page_breaks
from tests.engine.documents.helpers import joined, read
from tests.tables import each_row

MEMO = """


Harbour Working Group                                           A. Quist
Internet-Draft                                         Lamp Company, Inc.
Intended status: Informational                             T-J. de Lind
Expires: March 3, 2021                                             Hull
                                                      September 1, 2020


                     Lamps on Piers and their Oil
                      draft-quist-pier-lamps-02

Abstract

   A lamp burns oil until it is empty, and then it has to be
   filled by



Quist & Lind              Expires March 3, 2021                  [Page 1]
\f
Internet-Draft               Pier Lamps                    September 2020


   the keeper.



Quist & Lind              Expires March 3, 2021                  [Page 2]
\f
Internet-Draft               Pier Lamps                    September 2020


1.  Oil

   Oil is sold in cans [Page 7 of the price list].
"""


def test_a_paragraph_goes_on_over_a_break_between_pages(tmp_path: Path) -> None:
    document, blocks = read(tmp_path / "a.txt", MEMO)
    text = joined(blocks)
    assert "   filled by\n   the keeper.\n\n1.  Oil\n" in text
    assert "[Page 1]" not in text and "Pier Lamps" not in text and "\f" not in text
    assert "[Page 7 of the price list]" in text
    assert document.skipped == ("15 lines of page heads and feet (they are on every page)",)
    (oil,) = (block for block in blocks if "1.  Oil" in block.text)
    assert oil.section == "1. Oil"
    start = oil.origin_at(0)
    assert start is not None and MEMO[start:].startswith("1.  Oil")
    assert oil.line == MEMO[:start].count("\n") + 1


def test_the_two_columns_above_a_memo(tmp_path: Path) -> None:
    document, _ = read(tmp_path / "a.txt", MEMO)
    assert document.title == "Lamps on Piers and their Oil"
    assert document.author == "A. Quist, T-J. de Lind"
    assert document.date == "2020-09-01"


@each_row(
    ("name", "text", "title", "author", "date"),
    [
        (
            "a.adoc",
            "= Pier Rules\nAda Quist <ada@pier.example>\nv1.3, 2013-08-07: lamps\n\nOil.\n",
            *("Pier Rules", "Ada Quist", "2013-08-07"),
        ),
        (
            "a.adoc",
            "Pier Rules\n==========\nThe Keepers <keepers@pier.example>\n\nOil.\n",
            *("Pier Rules", "The Keepers", ""),
        ),
        ("a.adoc", "= Pier Rules\n\nAda <ada@pier.example> has oil.\n", "Pier Rules", "", ""),
        ("a.txt", "Internet-Draft is a word.\n\nOil.\n", "a.txt", "", ""),
    ],
)
def test_the_lines_below_a_title(
    tmp_path: Path, name: str, text: str, title: str, author: str, date: str
) -> None:
    document, _ = read(tmp_path / name, text)
    assert (document.title, document.author, document.date) == (title, author, date)


def test_further_entries_of_a_table_of_contents_have_no_leader(tmp_path: Path) -> None:
    contents = (
        "   1. Oil . . . . . . 2\n     1.1.  The Registry of the Keepers of all Lamps   3\n"
        "     1.2.  Initial Values of the Registry of\n           Keepers . . . . . 4\n"
    )
    document, blocks = read(tmp_path / "a.txt", f"Start.\n\n{contents}\n1. Oil\n\nIt burns.\n")
    assert joined(blocks) == "Start.\n\n1. Oil\n\nIt burns.\n"
    assert document.skipped[0].startswith("4 lines of a table of contents")


PIECES = st.sampled_from(
    [
        "text goes on",
        "It ends.",
        "",
        "",
        "\f",
        "Quist   May 2020   [Page 3]",
        "RFC 1   Oil   May 2020",
    ]
)


@settings(deadline=None, max_examples=100)  # a busy machine is no failure
@given(st.lists(PIECES, max_size=30))
def test_no_line_is_lost_or_moved(lines: list[str]) -> None:
    given_lines = [f"{line}\n" for line in lines]
    pieces = list(without_page_breaks(given_lines))
    assert "".join(piece.passed_over + piece.text for piece in pieces) == "".join(given_lines)
    if not any("[Page 3]" in line for line in lines):
        assert not any(piece.passed_over for piece in pieces)


def test_hostile_lines_take_no_time() -> None:
    lines = [" " * 200_000 + "\n", "a" + " " * 100_000 + "]\n", "[Page 1]" * 50_000 + "\n"]
    assert [piece.text for piece in without_page_breaks(lines)] == lines
