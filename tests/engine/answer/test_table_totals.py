"""Answers over several rows of a table, and none where a word belongs to nothing in it."""

from __future__ import annotations

import pytest

from drt_engine.answer.tables.extremes import compare
from drt_engine.answer.tables.totals import total
from drt_engine.answer.tables.values import Table, tables_of
from drt_engine.text.table_rows import table_rows

FIRMS = """\
company: Delta Media | sector: Mining | founded: 1901 | staff: 85 | joined: 2001-04-01
company: Acorn Foods | sector: Mining | founded: 1955 | staff: 1,210 | joined: 1999-05-06
company: Lumen Energy | sector: Energy | founded: 1888 | staff: 940 | joined: 2010-01-01
"""
HUTS = """\
| Hut | Altitude (m) | Beds | Winter room | Opened | Price per night (EUR) | Valley |
| --- | ---: | ---: | --- | ---: | ---: | --- |
| Adlerblick | 2,140 | 64 | yes | 1898 | 18 | Grau |
| Birkenhaus | 1,480 | 40 | no | 1926 | 14 | Grau |
| Eisgrat | 2,875 | 92 | yes | 1911 | 22 | Hohl |
| Gamsalm | 1,720 | 24 | no | 1987 | 12 | Hohl |
| Murmelhof | 1,610 | 24 | no | 1963 | 13 | Weiss |
"""
RACE = """\
place: 1 | runner: Ann Lee | club: Iten | country: Kenya | finish_time: 2:14:08
place: 2 | runner: Bea Moss | club: Leeds | country: Kenya | finish_time: 2:15:42
place: 3 | runner: Cy Orr | club: Iten | country: Sweden | finish_time: 2:16:19
"""


def table(text: str) -> Table:
    (only,) = tables_of(table_rows(text))
    return only


def never(_: str, __: str) -> float:
    return 0.0


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which has more staff, Delta or Lumen?", ("Lumen Energy", "940", "85")),
        ("Which has fewer employees, Acorn Foods or Delta Media?", ("Delta Media", "85", "1,210")),
        ("Which joined later, Acorn or Lumen?", ("Lumen Energy", "2010-01-01", "1999-05-06")),
        ("Which has more staff, Delta or Unheard?", None),
        ("Which has more charm, Delta or Lumen?", None),
        ("Which is it, Delta or Lumen?", None),
        ("Which has more staff, Delta or Delta?", None),
    ],
)
def test_which_of_two_rows(question: str, expected: tuple[str, ...] | None) -> None:
    result = compare(question, table(FIRMS), never)
    assert (result and tuple(cell.text for cell in result.cells)) == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("How many companies are listed?", "3"),
        ("How many companies are in mining?", "2"),
        ("How many companies are in the energy sector?", "1"),
        ("What is the total staff of all companies?", "2235"),
        ("average staff", "745"),
        ("How many companies closed in mining?", None),
        ("How many people work in mining?", None),
        ("How many companies are there in Hull?", None),
        ("How many staff does Delta Media have?", None),
        ("total staff in mining", "1295"),
        ("Which company has the most staff?", "Acorn Foods"),
        ("Which company in mining has the fewest employees?", "Delta Media"),
        ("How many companies joined after 2000?", "2"),
        ("How many companies have at least 940 employees?", "2"),
        ("Which companies are in mining?", "Delta Media, Acorn Foods"),
        ("Which company has the most and the fewest staff?", None),
        ("Which companies closed in mining?", None),
        ("What is the total sector?", None),
    ],
)
def test_counts_sums_and_means(question: str, expected: str | None) -> None:
    result = total(question, table(FIRMS), never)
    assert (result and result.text) == expected
    assert result is None or all(FIRMS[c.start : c.end] == c.text for c in result.cells)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which hut is the highest?", "Eisgrat"),
        ("What is the cheapest hut?", "Gamsalm"),
        ("Which hut is the oldest?", "Adlerblick"),
        ("Which hut without a winter room is the most expensive?", "Birkenhaus"),
        ("Which hut has the fewest beds?", None),  # a tie
        ("the two highest huts", "Eisgrat, Adlerblick"),
        ("How many huts have a winter room?", "2"),
        ("How many huts have no winter room?", "3"),
        ("How many huts are higher than 1,700 m?", "3"),
        ("How many huts were opened before 1920?", "2"),
        ("How many beds do the huts have altogether?", "244"),
        ("average price per night", "15.8"),
        ("How many beds are there in the huts of the Hohl valley altogether?", "116"),
        ("How many beds does Eisgrat have?", None),  # which is looked up
        ("How many valleys are there?", "3"),
        ("How much higher is Eisgrat than Birkenhaus?", "1395"),
        ("What is the difference in beds between Adlerblick and Gamsalm?", "40"),
        ("Which huts are in the Hohl valley?", "Eisgrat, Gamsalm"),
        ("Which huts burnt in the Hohl valley?", None),
        ("Which huts are there?", None),
    ],
)
def test_conditions_extremes_differences_and_lists(question: str, expected: str | None) -> None:
    result = total(question, table(HUTS), never)
    assert (result and result.text) == expected
    assert result is None or all(HUTS[c.start : c.end] == c.text for c in result.cells)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Who won the marathon?", "Ann Lee"),
        ("Who came third?", "Cy Orr"),
        ("Who was last?", None),
        ("Who came last?", "Cy Orr"),
        ("Who had the fastest finish time?", "Ann Lee"),
        ("Which runners are from Kenya?", "Ann Lee, Bea Moss"),
        ("Who won the lottery?", None),
    ],
)
def test_rows_behind_a_rank_are_named_by_their_text(question: str, expected: str | None) -> None:
    result = total(question, table(RACE), never, context={"marathon"})
    assert (result and result.text) == expected
    assert compare("Who was faster, Lee or Orr?", table(RACE), never) is not None


def test_a_question_of_many_options_takes_no_time() -> None:
    assert compare(f"Which has more staff, {'a or ' * 4_000}, b?", table(FIRMS), never) is None


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        # A negation turns the rows around: known of columns of yes and no, and of limits.
        ("Which huts are not in Grau?", None),
        ("How many huts are outside or in Grau and not in Hohl?", None),
        ("Which huts are neither in Grau nor in Hohl?", None),
        ("Which huts other than those in Hohl have a winter room?", None),
        ("How many huts don't have a winter room?", "3"),
        ("Which huts do not have a winter room?", "Birkenhaus, Gamsalm, Murmelhof"),
        ("How many huts have no more than 40 beds?", "3"),
        ("How many huts are not above 1720 m in altitude?", "3"),
        # One of two columns is enough.
        ("How many huts are in Grau or have a winter room?", None),
        ("How many huts are in Grau or Weiss?", "3"),
        # Numbers that belong to nothing restrict rows in a way that is not understood.
        ("How many huts have 24 beds?", "2"),
        ("How many huts have 20 beds?", None),
        ("How many huts have twenty beds or two beds?", None),
        ("How many huts have between 20 and 50 beds?", None),
        ("How many huts opened in 1950?", None),
        ("How many huts opened from 1900 to 1950?", None),
        ("Which two huts have the most beds?", "Eisgrat, Adlerblick"),
        ("Which hut with 3 beds is the highest?", None),
        # A place in the order.
        ("What is the second highest hut?", "Adlerblick"),
        ("Which hut has the third most beds?", "Birkenhaus"),
        ("Which hut has the fourth most beds?", None),  # two have as many
        ("Which hut is the first and the second highest?", None),
    ],
)
def test_what_restricts_rows_in_another_way(question: str, expected: str | None) -> None:
    answer = total(question, table(HUTS), never)
    assert (answer and answer.text) == expected
