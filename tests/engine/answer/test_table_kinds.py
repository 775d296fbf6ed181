"""Tables as people have them: decimal commas, months as columns, prices, marks, near misses."""

from __future__ import annotations

import pytest

from drt_engine.answer.tables.lookup import look_up
from drt_engine.answer.tables.totals import total
from drt_engine.answer.tables.values import comparable, is_price, tables_of
from drt_engine.answer.tables.verdicts import verdict_of
from drt_engine.answer.tables.wording import similar
from drt_engine.text.table_rows import table_rows

TOWNS = """\
Town: Altdorf | Residents: 12.450 | Area: 34,6 | Mayor: Petra Lang
Town: Birkenau | Residents: 9.870 | Area: 41,25 | Mayor: Jonas Weber
Town: Cronheim | Residents: 1.205 | Area: 8,75 | Mayor: Ute Fischer
"""
RAIN = """\
Station | Jan | Feb | May | Jun
Bergen | 190 | 152 | 106 | 132
Oslo | 49 | 36 | 53 | 65
Bodo | 86 | 64 | 46 | 54
"""
ORDERS = """\
Order ID | Customer | Product | Size | Unit price | Ordered
1001 | Miller, Anna | Canvas tent | large | 249.00 | 2024-03-02
1002 | Okafor, Ben | Sleeping bag | medium | 89.50 | 2024-03-09
1003 | Dupont, Claire | Canvas tent | small | 179.00 | 2024-04-01
1004 | Larsen, Ida | Water filter | small | 54.75 | 2024-05-20
"""
ROOMS = """\
Room           Beds   Per night   Breakfast
Single small     1     54 EUR     included
Single large     1     68 EUR     included
Suite            4    180 EUR     9 EUR extra
Dormitory bed    1     22 EUR     6 EUR extra
"""
MACHINES = """\
| Machine | Maker | Bought | Supervisor | In service | Accidents_85_99 | Accidents_00_14 |
|---|---|---|---|:---:|---|---|
| Lathe | Emco | 2009 | Greta | \u2705 | 3 | 0 |
| Band saw | Metabo | 2015 | Paul | \u2705 | 0 | 2 |
| Pillar drill | Optimum | 2012 | Tom | \u274c | 1 | 1 |
"""
STAFF = """\
Employee: Ana Ruiz | Start date: 2018-05-01 | Salary: 61000 | E-mail: ana@ex.org | Office: 4.12
Employee: Bo Lin | Start date: 2020-09-15 | Salary: 48500 | E-mail: bo@ex.org | Office: 4.13
Employee: Eli Voss | Start date: 2015-07-20 | Salary: 73000 | E-mail: eli@ex.org | Office: 0.07
"""
MEDALS = """\
Nation | Summer | Summer | Winter | Winter
Nation | Gold | Silver | Gold | Silver
Ruritania | 11 | 7 | 3 | 0
Borduria | 0 | 1 | 8 | 2
"""
YEARS = """\
city: Lima | year: 2019 | avg_temp: 19.2 | rainy_days: 12
city: Lima | year: 2020 | avg_temp: 19.5 | rainy_days: 10
city: Quito | year: 2019 | avg_temp: 14.4 | rainy_days: 151
city: Quito | year: 2020 | avg_temp: 14.1 | rainy_days: 160
"""


RELEASES = """\
version | codename | created | release
7 | Wheezy | 2011-02-06 | 2013-05-04
8 | Jessie | 2013-05-04 | 2015-04-26
9 | Stretch | 2015-04-26 | 2017-06-17
"""


def never(word: str, other: str) -> float:
    return 0.0


def alike(word: str, other: str) -> float:
    """Take months and metals for alike, as word embeddings do."""
    return 0.9


def answer(question: str, text: str, context: str = "") -> str | None:
    """Return what is computed, else the cell that is looked up."""
    (table,) = tables_of(table_rows(text))
    computed = total(question, table, never, context=set(context.split()))
    if computed is not None:
        return computed.text
    cell = look_up(question, table.rows, never, context=set(context.split()))
    return None if cell is None else cell.cell.text


@pytest.mark.parametrize(
    ("question", "text", "expected"),
    [
        ("Which town has the largest area?", TOWNS, "Birkenau"),
        ("Which town has the smallest area?", TOWNS, "Cronheim"),
        ("Which town has the most residents?", TOWNS, "Altdorf"),
        ("total of residents", TOWNS, "23525"),
        ("What is the total area?", TOWNS, "84.6"),
        ("Which towns have more than 30 area?", TOWNS, "Altdorf, Birkenau"),
    ],
)
def test_numbers_with_a_decimal_comma(question: str, text: str, expected: str) -> None:
    assert answer(question, text) == expected


def test_a_table_of_releases() -> None:
    assert answer("When was Debian 7 created?", RELEASES, "debian") == "2011-02-06"
    assert answer("When was Ubuntu 7 created?", RELEASES, "debian") is None
    assert answer("How many versions were released before 2016?", RELEASES) == "2"
    assert answer("Which release has the version 8?", RELEASES) != "2015-04-26"


def test_months_are_the_columns_that_are_named_short() -> None:
    (table,) = tables_of(table_rows(RAIN))
    for month, expected in (("January", "49"), ("May", "53"), ("June", "65"), ("August", None)):
        cell = look_up(f"rainfall in Oslo in {month}", table.rows, alike)
        assert (cell and cell.cell.text) == expected
    assert answer("Which station had the most rain in January?", RAIN, "rainfall") == "Bergen"
    assert answer("Which station had the most snow in January?", RAIN, "rainfall") is None


def test_words_that_tables_tell_apart_are_not_alike() -> None:
    assert similar("gold", "silver", alike) == 0.0
    assert similar("minimum", "highest", alike) == 0.0
    assert similar("close", "closes", never) == 0.97
    assert similar("opens", "closes", alike) == 0.0
    assert similar("supervises", "supervisor", never) == similar("maker", "makes", never) == 0.9


@pytest.mark.parametrize(
    ("question", "text", "expected"),
    [
        ("How much does the large tent cost?", ORDERS, "249.00"),
        ("How much does the small tent cost?", ORDERS, "179.00"),
        ("What does the medium tent cost?", ORDERS, None),  # the sleeping bag is medium
        ("What does the tent of the Sleeping Club cost?", ORDERS, None),
        ("unit price of the paper filter", ORDERS, None),
        ("Who ordered the water filter?", ORDERS, "Larsen, Ida"),  # and not order 1004
        ("How many orders were made after 2024-03-09?", ORDERS, "2"),
        ("How much is the suite?", ROOMS, "180 EUR"),
        ("price of the large single", ROOMS, "68 EUR"),
        ("How much is the double room?", ROOMS, None),
        ("Which room is the cheapest?", ROOMS, "Dormitory bed"),
        ("Who supervises the band saw?", MACHINES, "Paul"),
        ("Who makes the lathe?", MACHINES, "Emco"),
        ("Who owns the lathe?", MACHINES, None),
        ("accidents of the lathe in the earlier period", MACHINES, "3"),
        ("accidents with the band saw after 2000", MACHINES, "2"),
        ("accidents of the pillar drill", MACHINES, None),  # of one of two periods
        ("Which machines are out of service?", MACHINES, "Pillar drill"),
        ("Who joined first?", STAFF, "Eli Voss"),
        ("Who joined last?", STAFF, "Bo Lin"),
        ("Who left first?", STAFF, None),
        ("Bo Lin email", STAFF, "bo@ex.org"),
        ("Where does Eli Voss sit?", STAFF, "0.07"),
        ("Where was Eli Voss born?", STAFF, None),
        ("How many gold medals did Borduria win in winter?", MEDALS, "8"),
        ("How many silver medals did Ruritania win in summer?", MEDALS, "7"),
        ("In which year did Quito have the most rainy days?", YEARS, "2020"),
        ("Which city had the most rainy days in 2019?", YEARS, "Quito"),
        ("How many rainy days did Quito have in 2018?", YEARS, None),
    ],
)
def test_what_people_ask_of_tables(question: str, text: str, expected: str | None) -> None:
    assert answer(question, text) == expected


@pytest.mark.parametrize(
    ("question", "expected", "cell"),
    [
        ("Is the lathe in service?", True, "\u2705"),
        ("Is the pillar drill in service?", False, "\u274c"),
        ("Did the band saw have any accident before 2000?", False, "0"),
        ("Did the band saw have any accident since 2000?", True, "2"),
    ],
)
def test_yes_and_no(question: str, expected: bool, cell: str) -> None:
    (table,) = tables_of(table_rows(MACHINES))
    verdict = verdict_of(question, table, never)
    assert verdict is not None
    assert (verdict.is_yes, verdict.cell.text) == (expected, cell)


STAGES = """\
Stage | New features | Vulnerability & Bug Fixes | End announced
Active | \u2705 | \u2705 | \u274c
Sunsetting | \u274c | \u2705 | \u2705
Archived | \u274c | \u274c | \u2705
"""


def test_yes_by_a_part_of_a_long_name() -> None:
    (table,) = tables_of(table_rows(STAGES))
    verdict = verdict_of("Does a sunsetting project still get bug fixes?", table, never)
    assert verdict is not None and verdict.is_yes
    assert verdict_of("Does a sunsetting project still have a vulnerability?", table, never) is None


@pytest.mark.parametrize(
    "question",
    [
        "Is the compressor in service?",  # no such row
        "Is the lathe in service in Berlin?",
        "Is the lathe expensive?",
        "Is the lathe not in service?",
        "Is the lathe or the band saw in service?",
        "Did the band saw have any accident?",  # in one of two periods
        "Which machines are in service?",
    ],
)
def test_neither_yes_nor_no_where_that_is_not_clear(question: str) -> None:
    (table,) = tables_of(table_rows(MACHINES))
    assert verdict_of(question, table, never) is None


def test_dates_with_the_name_of_a_month_are_ordered() -> None:
    dates = ["5 March 1999", "Mar 6, 1999", "2 April 1999", "January 2000", "3 Jan 2000"]
    numbers = [comparable(date) for date in dates]
    assert numbers == sorted(numbers) and numbers[0] == 19990305
    assert comparable("Jan 5") < comparable("12 Feb")
    assert comparable("May") != comparable("May")  # a month alone is no number


def test_amounts_of_money() -> None:
    assert all(map(is_price, ["$4,200", "54 EUR", "\u00a3 12.50", "12,- \u20ac"]))
    assert not any(map(is_price, ["9 EUR extra", "4200", "EUR", "5 km"]))
