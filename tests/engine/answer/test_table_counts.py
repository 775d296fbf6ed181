"""Rows that are counted and listed by a value; numbers that are not clear."""

from __future__ import annotations

import re
from pathlib import Path

from drt_engine.answer.ask import ask
from drt_engine.answer.options import AskOptions
from drt_engine.answer.tables.totals import total
from tests.engine.answer.made_tables import table
from tests.model_folder import library, read_text, runtime
from tests.tables import each_row

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


@each_row(
    ("question", "expected"),
    [
        ("How many companies are in the Health Care sector?", "2"),
        ("How many firms are in Energy?", "8"),
        ("How many rows are there?", "11"),  # "are" is no ARES
        ("How many companies are there?", "11"),
        ("Which companies are in Oil?", "EX"),
        ("List the companies in Health Care.", "ARES, DE"),
        # Near misses: a word belongs to nothing, or a number may be two things.
        ("How many companies were founded before 1900?", None),  # is 1881/1894
        ("How many companies were founded in 1999?", None),  # is 1999 (1869)
        ("Which company was founded first?", None),
        ("How many companies were founded in Texas?", None),
        ("How many companies have a factory in Texas?", None),
        ("How many companies are not in Oil?", None),
        ("How many people are in Health Care?", None),
        ("How many companies are in Utah?", None),
    ],
)
def test_rows_are_counted_by_what_their_columns_have(question: str, expected: str | None) -> None:
    result = total(question, table(FIRMS), context=frozenset(("companies", "firms")))
    assert (result and result.text) == expected


def test_numbers_without_remarks_are_compared() -> None:
    firms = re.sub(r"Founded: (\d{4}).*", r"Founded: \1", FIRMS)
    for question, expected in (
        ("How many companies were founded before 1900?", "3"),
        ("How many companies were founded after 1990?", "3"),
        ("How many companies were founded in 1999?", "2"),
        ("Which company was founded first?", "EX"),
    ):
        result = total(question, table(firms), context=frozenset(("companies", "company")))
        assert (result and result.text) == expected


def test_of_many_rows_it_is_said_how_many_more_there_are(tmp_path: Path) -> None:
    with library(tmp_path / "library") as opened:
        lines = FIRMS.replace(" | ", "\t").split("\n")
        values = ["\t".join(p.split(": ")[1] for p in li.split("\t")) for li in lines if li]
        text = "\n".join(["symbol\tSecurity\tSector\tOffice\tFounded", *values, ""])
        read_text(opened, tmp_path, name="firms.tsv", text=text)
        result = ask(runtime(), opened, "How many rows are there?", AskOptions())
    assert result.text == "11"
    assert [c.more_items for c in result.citations] == [0, 0, 0, 0, 6]


AIRPORTS = """\
code: ROW | city: Roswell | state: NM | country: USA
code: MAN | city: Manning | state: ND | country: USA
code: MNY | city: Many | state: LA | country: USA
code: ABC | city: Albuquerque | state: NM | country: USA
"""


@each_row(
    ("question", "expected"),
    [
        ("How many airports are listed?", "4"),
        ("Count the airports in NM.", "2"),  # and no countries
        ("How many rows have the state NM?", "2"),
        ("How many airports are in Roswell?", "1"),
        ("How many countries are there?", "1"),
        ("Which airports are in Many?", "MNY"),
    ],
)
def test_words_of_asking_are_no_values(question: str, expected: str) -> None:
    result = total(question, table(AIRPORTS), context=["airports"])
    assert result is not None and result.text == expected
