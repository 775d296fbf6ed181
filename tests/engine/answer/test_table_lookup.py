"""A cell answers where one row and one column clearly fit, and nothing does otherwise."""

from __future__ import annotations

import pytest

from drt_engine.answer.tables.lookup import look_up
from drt_engine.answer.tables.values import comparable, number_of, tables_of
from drt_engine.answer.tables.wording import stem
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
BUILDS = """\
target | tests | notes
arm-unknown-gnu | yes | 32-bit kernel of 4.1 or later, without a loader
arm-unknown-musl | no | 32-bit kernel of 3.2, with a loader of its own
x86-unknown-gnu | yes | Windows 10 and later
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
    ],
)
def test_the_cell_that_was_asked_for(question: str, expected: str) -> None:
    assert answer(question) == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (
            "Which kernel does arm-unknown-musl need?",
            "32-bit kernel of 3.2, with a loader of its own",
        ),
        ("Which kernel does arm-unknown need?", None),  # two rows
        ("Which compiler does arm-unknown-musl need?", None),
        ("Which kernel does x86-unknown-gnu need?", None),
    ],
)
def test_the_text_of_a_row_that_is_named_in_full(question: str, expected: str | None) -> None:
    assert answer(question, BUILDS) == expected


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


def test_a_text_with_some_words_of_a_question_names_no_row() -> None:
    table = (
        "key | purpose\nlamp | Sets the lamps of the quay (lit ones only) by their colour or by the"
        " type of oil that is burnt in them, whichever of these is named first\nwick | Trims it\n"
    )
    assert answer("oil type of lit lamps", table) is None
    assert answer("Which key trims it?", table) == "wick"


def test_a_range_is_no_amount() -> None:
    table = "ids | purpose | group\n5…99 | container slots | a\n200 | dynamic slots | b\n"
    assert answer("How many ids are dynamic slots?", table) == "200"
    assert answer("How many ids are container slots?", table) is None
    assert answer("Which ids are container slots?", table) == "5…99"


def test_words_of_any_alphabet_name_a_row() -> None:
    table = "город | Founded\nЗюрих | 1218\nZürich Süd | 1893\nОдесса | 1794\n"
    assert answer("When was Зюрих founded?", table) == "1218"
    assert answer("When was Zürich Süd founded?", table) == "1893"


def test_a_tie_is_no_answer() -> None:
    assert answer("What was the GDP of Japan?", YEARS) is None
    tied = "name: Ann | wins: 4\nname: Bea | wins: 4\nname: Cy | wins: 2\n"
    assert answer("Who has 4 wins?", tied) is None
    assert answer("Who has 2 wins?", tied) == "Cy"


def test_one_row_is_no_table() -> None:
    rows: list[TableRow] = table_rows("name: Ann | wins: 4\n")
    assert look_up("How many wins does Ann have?", rows, similarity) is None


def test_numbers_and_stems() -> None:
    assert number_of("$1,234.5") == 1234.5
    assert number_of("-7") == -7
    assert number_of(".5") == 0.5
    assert number_of("none") != number_of("none")
    assert comparable("2:05:30") == 125.5
    assert comparable("2020-03-01") == 20200301
    assert comparable("\u20ac 4.20") == comparable("4.20 kg") == 4.2
    assert comparable("T001") != comparable("T001")
    assert stem("founded") == stem("founding") == "found"
    assert stem("is") == "is"
    assert stem("dropped") == stem("dropping") == "drop"
    assert (stem("added"), stem("called"), stem("odd")) == ("add", "call", "odd")
    for one, several in (("name", "names"), ("earthquake", "earthquakes"), ("price", "prices")):
        assert stem(one) == stem(several)
    assert stem("rate") != stem("rats")


MAY = """\
| Month | Rain (mm) | Rainy days | Max temp |
| --- | ---: | ---: | ---: |
| April | 66.0 | 12 | 22.8 |
| May | 49.5 | 9 | 29.1 |
| June | 71.2 | 11 | 34.7 |
"""


def test_a_month_that_is_a_stop_word_and_an_extreme_that_is_a_column() -> None:
    assert answer("How much rain fell in May?", MAY) == "49.5"
    assert answer("highest temperature in May", MAY) == "29.1"
    assert answer("rainy days in May", MAY) == "9"
    assert answer("Who measured the rain in May?", MAY) is None


def test_rows_with_other_columns_are_another_table() -> None:
    both = table_rows(MAY + "\n| Hut | Beds |\n| --- | --- |\n| Alm | 4 |\n| Kar | 9 |\n")
    assert [len(table.rows) for table in tables_of(both)] == [3, 2]


@pytest.mark.parametrize(
    "question",
    [
        "Which company does not have its head office in Fort Mora?",
        "Which company other than Delta Media has a staff of 85?",
        "Which company hasn't a staff of 85?",
    ],
)
def test_rows_that_are_not_meant_answer_nothing(question: str) -> None:
    assert answer(question) is None


def test_a_number_of_days_beside_dates_is_no_time() -> None:
    table = (
        "name: Ann Lee | start_date: 1/2/77 | end_date: 9/3/77 | length: 245 | departure_day: 247\n"
        "name: Ben Orr | start_date: 2/2/77 | end_date: 8/3/78 | length: 345 | departure_day: 447\n"
    )
    assert answer("When did Ann Lee leave?", table) == "9/3/77"
    assert answer("When did Ben Orr start?", table) == "2/2/77"


def test_what_measures_is_no_text() -> None:
    rows = table_rows(
        "".join(
            f"country: {name} | income: {n} | region: america\n"
            for n, name in enumerate(("Brazil", "Chile", "Peru"), 5000)
        )
    )

    def similarity(word: str, other_word: str) -> float:
        return 0.8 if {word, other_word} == {"area", "region"} else 0.0

    assert look_up("What is the area of Brazil?", rows, similarity) is None
    answer = look_up("Which area is Brazil in?", rows, similarity)
    assert answer is not None and answer.cell.text == "america"


def test_a_whole_name_is_meant_and_not_a_longer_one() -> None:
    rows = table_rows(
        "".join(
            f"Name: {name} | Weight: {n}\n"
            for n, name in enumerate(
                ("rebel", "rebel sst", "rebel sst (sw)", "torino", "satellite custom"), 3000
            )
        )
    )
    for question, expected in (
        ("weight of the rebel sst", "3001"),
        ("weight of the rebel sst (sw)", "3002"),
    ):
        answer = look_up(question, rows, lambda *_: 0.0)
        assert answer is not None and answer.cell.text == expected


def test_what_is_counted_is_what_a_column_is_called() -> None:
    rows = table_rows(
        "".join(
            f"state: {name} | hurricanes: {n}\n" for n, name in enumerate(("Ohio", "Maine"), 21)
        )
    )

    def similarity(word: str, other_word: str) -> float:
        return 0.9 if {word, other_word} == {"tornadoes", "hurricanes"} else 0.0

    assert look_up("How many tornadoes has Ohio had?", rows, similarity) is None
    answer = look_up("How many hurricanes has Ohio had?", rows, similarity)
    assert answer is not None and answer.cell.text == "21"
