"""Tables as people have them: decimal commas, prices, marks, dates, several forms of a word."""

from __future__ import annotations

from drt_engine.answer.tables.totals import total
from drt_engine.answer.tables.values import comparable, number_of
from drt_engine.answer.tables.wording import similar
from drt_engine.text.words import stem
from tests.engine.answer.made_tables import table
from tests.tables import each_row

TOWNS = """\
Town: Altdorf | Residents: 12.450 | Area: 34,6 | Mayor: Petra Lang
Town: Birkenau | Residents: 9.870 | Area: 41,25 | Mayor: Jonas Weber
Town: Cronheim | Residents: 1.205 | Area: 8,75 | Mayor: Ute Fischer
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
YEARS = """\
city: Lima | year: 2019 | avg_temp: 19.2 | rainy_days: 12
city: Lima | year: 2020 | avg_temp: 19.5 | rainy_days: 10
city: Quito | year: 2019 | avg_temp: 14.4 | rainy_days: 151
city: Quito | year: 2020 | avg_temp: 14.1 | rainy_days: 160
"""


def answer(question: str, text: str) -> str | None:
    computed = total(question, table(text))
    return computed and computed.text


@each_row(
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


@each_row(
    ("question", "text", "expected"),
    [
        ("How many orders were made after 2024-03-09?", ORDERS, "2"),
        ("How many orders of a canvas tent are there?", ORDERS, "2"),
        ("What is the total unit price?", ORDERS, "572.25"),
        ("How many beds are there altogether?", ROOMS, "7"),
        ("Which machines are out of service?", MACHINES, "Pillar drill"),
        ("How many machines are in service?", MACHINES, "2"),
        ("What is the average salary?", STAFF, "60833.33333"),
        ("Which employee has the highest salary?", STAFF, "Eli Voss"),
        ("Who left first?", STAFF, None),
        ("Which city had the most rainy days in 2019?", YEARS, "Quito"),
        ("How many rainy days did Quito have in 2018?", YEARS, None),
    ],
)
def test_what_people_ask_of_tables(question: str, text: str, expected: str | None) -> None:
    assert answer(question, text) == expected


def test_dates_with_the_name_of_a_month_are_ordered() -> None:
    dates = ["5 March 1999", "Mar 6, 1999", "2 April 1999", "January 2000", "3 Jan 2000"]
    numbers = [comparable(date) for date in dates]
    assert numbers == sorted(numbers) and numbers[0] == 19990305
    assert comparable("Jan 5") < comparable("12 Feb")
    assert comparable("May") != comparable("May")  # a month alone is no number


def test_numbers_of_cells() -> None:
    assert number_of("$1,234.5") == 1234.5
    assert number_of("-7") == -7
    assert number_of(".5") == 0.5
    assert number_of("none") != number_of("none")
    assert comparable("2:05:30") == 125.5
    assert comparable("2020-03-01") == 20200301
    assert comparable("\u20ac 4.20") == comparable("4.20 kg") == 4.2
    assert comparable("T001") != comparable("T001")


def test_forms_of_a_word_are_alike() -> None:
    assert stem("founded") == stem("founding") == "found"
    assert stem("is") == "is"
    assert stem("dropped") == stem("dropping") == "drop"
    assert (stem("added"), stem("called"), stem("odd")) == ("add", "call", "odd")
    for one, several in (("name", "names"), ("earthquake", "earthquakes"), ("price", "prices")):
        assert stem(one) == stem(several)
    assert stem("rate") != stem("rats")
    assert similar("staff", "staff") == 1.0 and similar("close", "closes") == 0.97
    assert similar("temp", "temperature") == 0.9 and similar("gold", "silver") == 0.0
