"""A number of a table is no answer where something else of its row is asked for."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from drt_engine.answer.citations import cite
from drt_engine.answer.documents import DocumentRows
from drt_engine.answer.result import Draft
from drt_engine.answer.tables.attributes import asks_for_attribute, is_of_other_attribute
from drt_engine.answer.tables.quoted_cells import without_other_columns
from drt_engine.text.table_rows import table_rows
from tests.model_folder import library, read_text, runtime

CREW = """\
# Crew

What each member earns.

| Post | Crowns a month |
| --- | ---: |
| Pilot | 1,950 |
| Radio operator | 1,240 |
| Frequency keeper | 300 |
"""
ROWS = table_rows(CREW)


def unlike(_: str, __: str) -> float:
    return 0.0


@pytest.mark.parametrize(
    ("question", "is_other"),
    [
        ("What is the radio's password?", True),
        ("What's the radio operator's phone number?", True),
        ("What is the name of the radio operator?", True),
        ("name of the radio operator", True),
        ("How old is the radio operator?", True),
        ("Who is the radio operator?", True),
        ("What is the radio operator's wage per month?", False),
        ("the radio operator's pay", False),
        ("What is the number of crowns of the radio operator?", False),
        ("What is the monthly rate of the radio operator?", False),
        ("What does the radio operator get?", False),
        ("How much does the radio operator cost?", False),
        ("What's the total?", False),
    ],
)
def test_what_is_asked_is_like_the_column_or_what_the_table_is_called(
    question: str, is_other: bool
) -> None:
    row = ROWS[1]
    number = row.cells[1:]
    pay = frozenset({"earns"})
    assert is_of_other_attribute(question, number, row, unlike, lead=pay) is is_other


def test_a_word_of_the_row_is_what_is_asked_and_words_are_no_numbers() -> None:
    keeper = ROWS[2]
    asked = "What is the frequency of the keeper?"
    assert not is_of_other_attribute(asked, keeper.cells[1:], keeper, unlike)
    assert not is_of_other_attribute("What is the pilot's name?", keeper.cells[:1], keeper, unlike)
    assert not is_of_other_attribute("What is the pilot's name?", [], keeper, unlike)
    alike = "What is the keeper's lunar period?"
    assert is_of_other_attribute(alike, keeper.cells[1:], keeper, unlike)
    assert not is_of_other_attribute(alike, keeper.cells[1:], keeper, lambda *_: 0.4)


def test_heights_and_ages_have_columns_of_their_own() -> None:
    (row, _) = table_rows("name: Ox | Height: 24 | Built: 1900\nname: Ur | Height: 9 | Built: 1\n")
    _, height, built = row.cells
    assert not is_of_other_attribute("How tall is Ox?", [height], row, unlike)
    assert not is_of_other_attribute("How old is Ox?", [built], row, unlike)
    assert is_of_other_attribute("How old is Ox?", [height], row, unlike)
    assert is_of_other_attribute("How heavy is Ox?", [height], row, unlike)


def test_a_column_without_a_name_may_be_anything() -> None:
    (row, *_) = table_rows("x | 7\nOx | 24\nUr | 30\n")
    assert not is_of_other_attribute("What is the ox's name?", row.cells[1:], row, unlike)


@pytest.mark.parametrize(
    ("quote", "question", "is_kept"),
    [
        ("1,240", "What is the radio's password?", False),
        ("1,240", "What is the radio operator's pay?", True),
        ("| Pilot | 1,950 |", "What is the pilot's name?", False),
        ("| Pilot | 1,950 |", "Who is the pilot?", False),
        ("| Pilot | 1,950 |", "Who gets 1,950?", True),
        ("Pilot", "Whose pay is 1,950?", True),
        ("What each member earns.", "What is the pilot's name?", True),
    ],
)
def test_a_quote_of_another_column_is_none(
    tmp_path: Path, quote: str, question: str, is_kept: bool
) -> None:
    with library(tmp_path / "library") as opened:
        read_text(opened, tmp_path, name="crew.md", text=CREW)
        (document,) = opened.documents()
        start = CREW.index(quote)
        citation = cite(opened, document, start, start + len(quote), 1.0)
        draft = Draft(quote, True, 0.9, (citation,), likely=True)
        result = without_other_columns(runtime(), opened, DocumentRows(opened), question, draft)
    assert (result.found, result.text) == (is_kept, quote if is_kept else "")
    if not is_kept:
        assert (result.likely, result.confidence) == (False, 0.1)


@pytest.mark.parametrize("part", ["a's ", "the of ", "word ", "what's ", "' ", "-", " "])
def test_long_questions_take_no_time(part: str) -> None:
    began = time.monotonic()
    asks_for_attribute(part * 20_000)
    asks_for_attribute("what is the " + part * 20_000)
    assert time.monotonic() - began < 5  # noqa: PLR2004
