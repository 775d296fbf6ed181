"""A cell answers where one row and one column clearly fit, and nothing does otherwise."""

from __future__ import annotations

import pytest

from drt_engine.answer.tables.lookup import look_up, number_of, stem
from drt_engine.text.table_rows import TableRow, table_rows

FIRMS = """\
company: Delta Media | Founded: 1901 | head_office: Port Calder | staff: 85 | claims_85_99: 3
company: Acorn Foods | Founded: 1955 | head_office: New Oban | staff: 1,210 | claims_85_99: 12
company: Lumen (Energy) | Founded: 1888 | head_office: Fort Mora | staff: 940 | claims_85_99: 40
company: A. O. Finch | Founded: 2004 | head_office: Great Holm | staff: 12 | claims_85_99: 9
"""
YEARS = """\
country | year | gdp | exports
Japan | 2009 | 5.2 | 0.6
Japan | 2010 | 5.7 | 0.8
Kenya | 2010 | 0.04 | 0.01
"""
MEANINGS = {("headquarters", "office"): 0.5, ("employees", "staff"): 0.7, ("set", "founded"): 0.4}


def similarity(word: str, other: str) -> float:
    return MEANINGS.get((word, other), MEANINGS.get((other, word), 0.0))


def answer(question: str, table: str = FIRMS) -> str | None:
    found = look_up(question, table_rows(table), similarity)
    return None if found is None else found.cell.text


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("When was Lumen founded?", "1888"),
        ("headquarters of Acorn Foods", "New Oban"),
        ("How many employees does A. O. Finch have?", "12"),
        ("Acorn Foods claims 1985-1999", "12"),
        ("founding year of Delta Media", "1901"),
        ("Which company has its head office in Fort Mora?", "Lumen (Energy)"),
        ("Which company has a staff of 85?", "Delta Media"),
        ("Which company has the most staff?", "Acorn Foods"),
        ("the fewest claims 85 99", "Delta Media"),
    ],
)
def test_the_cell_that_was_asked_for(question: str, expected: str) -> None:
    assert answer(question) == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which firm had 40 claims?", "Lumen (Energy)"),  # a row, whatever it is called
        ("When was Acorn Foods established?", "1955"),  # another word for the column
        ("How many workers does Delta Media employ?", "85"),
    ],
)
def test_words_for_the_same_column(question: str, expected: str) -> None:
    assert answer(question) == expected


def test_two_keys_name_a_row_together() -> None:
    assert answer("What was the GDP of Japan in 2010?", YEARS) == "5.7"
    assert answer("exports of Kenya in 2010", YEARS) == "0.01"


@pytest.mark.parametrize(
    "question",
    [
        "Who is the chief executive of Lumen?",  # no such column
        "When was Delta Foods founded?",  # no such row
        "When was it founded?",  # no row at all
        "Did Lumen move its head office?",  # a judgement
        "Lumen",  # no column
        "",
        "the of and",
        "Which company has the most and the fewest staff?",
        "Which company of Port Calder has the most staff?",  # some of the rows
    ],
)
def test_nothing_where_it_is_not_clear(question: str) -> None:
    assert answer(question) is None


def test_words_of_any_alphabet_name_a_row() -> None:
    table = "город | Founded\nЗюрих | 1218\nZürich Süd | 1893\nОдесса | 1794\n"
    assert answer("When was Зюрих founded?", table) == "1218"
    assert answer("When was Zürich Süd founded?", table) == "1893"


def test_a_tie_is_no_answer() -> None:
    assert answer("What was the GDP of Japan?", YEARS) is None
    tied = "name: Ann | wins: 4\nname: Bea | wins: 4\nname: Cy | wins: 2\n"
    assert answer("Who has the most wins?", tied) is None
    assert answer("Who has the fewest wins?", tied) == "Cy"


def test_one_row_is_no_table() -> None:
    rows: list[TableRow] = table_rows("name: Ann | wins: 4\n")
    assert look_up("How many wins does Ann have?", rows, similarity) is None


def test_numbers_and_stems() -> None:
    assert number_of("$1,234.5") == 1234.5
    assert number_of("-7") == -7
    assert number_of(".5") == 0.5
    assert number_of("none") != number_of("none")
    assert stem("founded") == stem("founding") == "found"
    assert stem("is") == "is"
