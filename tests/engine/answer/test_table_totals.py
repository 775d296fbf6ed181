"""Answers over several rows of a table, and none where a word belongs to nothing in it."""

from __future__ import annotations

import pytest

from drt_engine.answer.tables.totals import compare, total
from drt_engine.text.table_rows import table_rows

FIRMS = """\
company: Delta Media | sector: Mining | founded: 1901 | staff: 85 | joined: 2001-04-01
company: Acorn Foods | sector: Mining | founded: 1955 | staff: 1,210 | joined: 1999-05-06
company: Lumen Energy | sector: Energy | founded: 1888 | staff: 940 | joined: 2010-01-01
"""
ROWS = table_rows(FIRMS)


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
    result = compare(question, ROWS, never)
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
        ("total staff in mining", None),
        ("What is the total sector?", None),
    ],
)
def test_counts_sums_and_means(question: str, expected: str | None) -> None:
    result = total(question, ROWS, never)
    assert (result and result.text) == expected
    assert result is None or all(FIRMS[c.start : c.end] == c.text for c in result.cells)
