"""Tables of numbers that single spaces part: their rows, and what looks like one and is none."""

from __future__ import annotations

import time

import pytest

from drt_engine.answer.tables.lookup import look_up
from drt_engine.answer.tables.number_rows import NUMBER_LINES, number_rows
from drt_engine.answer.tables.values import tables_of

PRICES = """\
Prices of the week, as printed:

OAK ELM
2021-03-01 10 12
2021-03-02 11 13

The next week was quiet.
"""
SPEEDS = """\
Table 2: Speeds
Engine Wheels Slow[1] Fast[2]
Otter IV 4 2.08 1.16,[3]
Adder 6 2.91 1.68
"""


def cells(text: str) -> list[list[tuple[str, str]]]:
    return [[(cell.column, cell.text) for cell in row.cells] for row in number_rows(text)]


def test_the_first_column_may_have_no_name() -> None:
    assert NUMBER_LINES.search(PRICES)
    assert cells(PRICES) == [
        [("", "2021-03-01"), ("OAK", "10"), ("ELM", "12")],
        [("", "2021-03-02"), ("OAK", "11"), ("ELM", "13")],
    ]
    for row in number_rows(PRICES):
        assert all(PRICES[cell.start : cell.end] == cell.text for cell in row.cells)


def test_a_name_of_several_words_and_marks_of_notes() -> None:
    assert cells(SPEEDS)[0] == [
        ("Engine", "Otter IV"), ("Wheels", "4"), ("Slow", "2.08"), ("Fast", "1.16"),
    ]  # fmt: skip


def test_years_name_columns_and_text_columns_have_a_word_each() -> None:
    assert cells("Fruit 2019 2020\nPears 3 5\nPlums 4 1")[1] == [
        ("Fruit", "Plums"), ("2019", "4"), ("2020", "1"),
    ]  # fmt: skip
    text = "Kind Site N=2 N=3\nA north 1 2\nB south 3 4"
    assert cells(text)[1][:2] == [("Kind", "B"), ("Site", "south")]
    assert cells(text.replace("B south", "B far south")) == []


@pytest.mark.parametrize(
    "text",
    [
        "It was sold in the\nyear 1901 1902\nand 1903 1904\n",  # prose
        "OAK ELM\n2021-03-01 10 12\n",  # one row
        "OAK ELM ASH FIR YEW\nday 10 12\nnight 11 13\n",  # more names than columns
        "OAK OAK\nday 10 12\nnight 11 13\n",
        "Trees:\nday 10 12\nnight 11 13\n",
        "OAK | ELM\nday | 10 12\nnight | 11 13\n",  # has separators
        "10 12\n11 13\n14 15\n",
    ],
)
def test_what_is_no_table_of_numbers(text: str) -> None:
    assert cells(text) == []


def test_an_empty_cell_ends_the_table() -> None:
    text = "OAK ELM\nday 10 12\nnight 11 13\ndusk 14\ndawn 15 16\n"
    assert [row[0][1] for row in cells(text)] == ["day", "night"]


def test_a_date_names_its_row_and_no_other() -> None:
    (table,) = tables_of(number_rows(PRICES))
    for question, expected in (
        ("OAK value on 2021-03-02", "11"),
        ("What was the price of ELM on 2021-03-01?", "12"),
        ("OAK value on 2021-03-03", None),
    ):
        answer = look_up(question, table.rows, lambda _, __: 0.0)
        assert (answer and answer.cell.text) == expected, question


def test_another_number_behind_a_name_is_another_row() -> None:
    text = "Kind Site N=2 N=3\nLamp-64 north 1 2\nLamp-128 north 5 6\nLamp-128 south 3 4\n"
    (table,) = tables_of(number_rows(text))
    for question, expected in (
        ("N=3 of Lamp-128 at the south", "4"),
        ("improvement of Lamp-64 at the south", None),
    ):
        answer = look_up(question, table.rows, lambda _, __: 0.0)
        assert (answer and answer.cell.text) == expected, question


@pytest.mark.thorough
def test_long_texts_take_no_time() -> None:
    for text in ("a 1 2\n" * 50_000, " 1" * 200_000, "x" + " 1" * 100_000, "a b\n" * 100_000):
        began = time.perf_counter()
        NUMBER_LINES.search(text)
        number_rows(text)
        assert time.perf_counter() - began < 5


def test_lines_that_all_end_in_years_are_rows_of_one_table() -> None:
    lives = "".join(f"Keeper{n} 19{n % 90 + 10} 20{n % 90 + 10}\n" for n in range(2_000))
    rows = cells("Name Born Died\n" + lives)
    assert len(rows) == 2_000
    assert rows[1] == [("Name", "Keeper1"), ("Born", "1911"), ("Died", "2011")]


def test_years_below_a_title_name_the_columns() -> None:
    text = "Catch by boat\nBoat 2019 2020\nAurora 12 15\nCorona 9 11\n"
    assert cells(text)[0] == [("Boat", "Aurora"), ("2019", "12"), ("2020", "15")]
    assert len(cells(text)) == 2
