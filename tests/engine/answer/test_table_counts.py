"""Rows that are counted and listed by a value, a part of one, or a number with a remark."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from drt_engine.answer.ask import ask
from drt_engine.answer.options import AskOptions
from drt_engine.answer.tables.conditions import scope_of, tokens_of
from drt_engine.answer.tables.lookup import look_up
from drt_engine.answer.tables.totals import total
from drt_engine.answer.tables.values import without_remark
from drt_engine.text.table_rows import table_rows
from tests.engine.answer.made_tables import never, table
from tests.model_folder import library, read_text, runtime

FIRMS = """\
symbol: ARES | Security: Ares Mills | Sector: Health Care | Office: Austin, Texas | Founded: 1999
symbol: BN | Security: Bona First | Sector: Energy | Office: Dallas, Texas | Founded: 1999 (1869)
symbol: CO | Security: Cobb | Sector: Energy | Office: Seattle, Washington | Founded: 1888
symbol: DE | Security: Dell | Sector: Health Care | Office: Washington, D.C. | Founded: 1904
symbol: EX | Security: Texas Salt | Sector: Oil | Office: Bly, Ohio; Dallas, Texas | Founded: 1784
symbol: FI | Security: FirstLamp | Sector: Energy | Office: Boise, Idaho | Founded: 1997
symbol: GO | Security: Goole | Sector: Energy | Office: Cork, Ireland | Founded: 1950
symbol: HI | Security: Hill | Sector: Energy | Office: Cork, Ireland | Founded: 1881/1894 (1980)
symbol: IN | Security: Ink | Sector: Energy | Office: Cork, Ireland | Founded: 1960
symbol: JO | Security: Jot | Sector: Energy | Office: Lyon, France | Founded: 1961
symbol: KA | Security: Kay | Sector: Energy | Office: Lyon, France | Founded: 1962
"""


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("How many companies are in the Health Care sector?", "2"),
        ("How many companies have their office in Texas?", "3"),
        ("How many firms are in Texas?", "3"),
        ("How many firms have an office in Dallas, Texas?", "1"),
        ("How many firms are in Ireland?", "3"),
        ("How many companies were founded before 1900?", "3"),
        ("How many companies were founded after 1990?", "3"),
        ("How many companies were founded in 1999?", "2"),
        ("How many rows are there?", "11"),  # "are" is no ARES
        ("How many companies are there?", "11"),
        ("Which companies were founded in 1999?", "Ares Mills, Bona First"),
        ("List the companies founded in 1999.", "Ares Mills, Bona First"),
        ("Which company was founded first?", "Texas Salt"),
        # Near misses: a word belongs to nothing, or a part or a number may be two things.
        ("How many companies were founded before 1890?", None),  # is 1881/1894
        ("How many companies were founded in Texas?", None),
        ("How many companies have a factory in Texas?", None),
        ("How many companies moved to Texas?", None),
        ("How many companies are not in Texas?", None),
        ("How many companies have their office in Washington?", None),
        ("How many people are in Health Care?", None),
        ("How many companies are in Utah?", None),
    ],
)
def test_rows_are_counted_by_what_their_columns_have(question: str, expected: str | None) -> None:
    result = total(question, table(FIRMS), never)
    assert (result and result.text) == expected


def test_what_may_be_earlier_than_the_first_decides_nothing() -> None:
    text = FIRMS.replace("1881/1894", "1781/1894")
    assert total("Which company was founded first?", table(text), never) is None
    assert without_remark("2013 (1888)") == "2013"
    assert without_remark("(1888)") == "(1888)"


def test_a_word_that_orders_rows_names_none() -> None:
    rows = table(FIRMS).rows
    assert look_up("Which firm opened first?", rows, never) is None
    answer = look_up("When was FirstLamp founded?", rows, never)
    assert answer is not None and answer.cell.text == "1997"
    places = table_rows("prize: first | winner: Ann\nprize: second | winner: Bo\n")
    prize = look_up("Who is the winner of the first prize?", places, never)
    assert prize is not None and prize.cell.text == "Ann"


def test_of_many_rows_it_is_said_how_many_more_there_are(tmp_path: Path) -> None:
    with library(tmp_path / "library") as opened:
        lines = FIRMS.replace(" | ", "\t").split("\n")
        values = ["\t".join(p.split(": ")[1] for p in li.split("\t")) for li in lines if li]
        text = "\n".join(["symbol\tSecurity\tSector\tOffice\tFounded", *values, ""])
        read_text(opened, tmp_path, name="firms.tsv", text=text)
        result = ask(runtime(), opened, "How many rows are there?", AskOptions())
    assert result.text == "11"
    assert [c.more_items for c in result.citations] == [0, 0, 0, 0, 6]


@pytest.mark.thorough
def test_many_parts_take_no_time() -> None:
    text = "".join(f"name: n{n} | office: {'a, ' * 30}Texas{n}\n" for n in range(500))
    began = time.monotonic()
    scope_of(tokens_of("How many are in " + "Texas Town " * 30), table(text), never)
    assert time.monotonic() - began < 5  # noqa: PLR2004
