"""Answers over several rows of a table, and none where a word belongs to nothing in it."""

from __future__ import annotations

from drt_engine.answer.tables.extremes import compare
from drt_engine.answer.tables.totals import total
from drt_engine.answer.tables.values import tables_of
from drt_engine.text.table_rows import table_rows
from tests.engine.answer.made_tables import table
from tests.tables import each_row

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


@each_row(
    ("question", "expected"),
    [
        ("Which has more staff, Delta or Lumen?", ("Lumen Energy", "940", "85")),
        ("Which has fewer staff, Acorn Foods or Delta Media?", ("Delta Media", "85", "1,210")),
        ("Which joined later, Acorn or Lumen?", ("Lumen Energy", "2010-01-01", "1999-05-06")),
        ("Does Delta Media or Lumen Energy have more staff?", ("Lumen Energy", "940", "85")),
        ("Did Acorn or Lumen join later?", ("Lumen Energy", "2010-01-01", "1999-05-06")),
        ("Does Delta or Unheard have more staff?", None),
        ("Does Delta or Lumen have staff?", None),
        ("Which has more staff, Delta or Unheard?", None),
        ("Which has more charm, Delta or Lumen?", None),
        ("Which is it, Delta or Lumen?", None),
        ("Which has more staff, Delta or Delta?", None),
    ],
)
def test_which_of_two_rows(question: str, expected: tuple[str, ...] | None) -> None:
    result = compare(question, table(FIRMS))
    assert (result and tuple(cell.text for cell in result.cells)) == expected


@each_row(
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
        ("Which company in mining has the fewest staff?", "Delta Media"),
        ("Which place has the most staff?", "Acorn Foods"),
        ("Which boat has the most staff?", None),
        ("How many companies joined after 2000?", "2"),
        ("How many companies have at least 940 staff?", "2"),
        ("Which companies are in mining?", "Delta Media, Acorn Foods"),
        ("Which company has the most and the fewest staff?", None),
        ("Which companies closed in mining?", None),
        ("What is the total sector?", None),
    ],
)
def test_counts_sums_and_means(question: str, expected: str | None) -> None:
    result = total(question, table(FIRMS))
    assert (result and result.text) == expected
    assert result is None or all(FIRMS[c.start : c.end] == c.text for c in result.cells)


@each_row(
    ("question", "expected"),
    [
        ("Which hut is the highest?", "Eisgrat"),
        ("What is the cheapest hut?", "Gamsalm"),
        ("Which hut is the oldest?", "Adlerblick"),
        ("Which hut without a winter room is the most expensive?", "Birkenhaus"),
        ("Which hut has the fewest beds?", "Gamsalm, Murmelhof"),  # which share the place
        ("the two huts with the fewest beds", "Gamsalm, Murmelhof"),
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
    result = total(question, table(HUTS))
    assert (result and result.text) == expected
    assert result is None or all(HUTS[c.start : c.end] == c.text for c in result.cells)


@each_row(
    ("question", "expected"),
    [
        ("Who was last?", None),
        ("Who had the fastest finish time?", "Ann Lee"),
        ("Which runners are from Kenya?", "Ann Lee, Bea Moss"),
        ("Who won the lottery?", None),
    ],
)
def test_rows_behind_a_rank_are_named_by_their_text(question: str, expected: str | None) -> None:
    result = total(question, table(RACE), context={"marathon"})
    assert (result and result.text) == expected
    assert compare("Who was faster, Lee or Orr?", table(RACE)) is not None


def test_a_question_of_many_options_takes_no_time() -> None:
    assert compare(f"Which has more staff, {'a or ' * 4_000}, b?", table(FIRMS)) is None


@each_row(
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
    answer = total(question, table(HUTS))
    assert (answer and answer.text) == expected


CITIES = """\
| City | Country | Population | Area (km2) |
| --- | --- | --- | --- |
| Oslo | Norway | 709,037 | 454 |
| Bergen | Norway | 291,940 | 465 |
| Uppsala | Sweden | 177,074 | 48 |
| Odense | Denmark | 183,763 | 79 |
"""


@each_row(
    ("question", "expected"),
    [
        ("What is the population of Oslo and Bergen together?", "1000977"),
        ("total population of Oslo, Bergen and Odense", "1184740"),
        ("How much more population has Oslo than Bergen?", "417097"),
        ("difference in area between Oslo and Odense", "375"),
        ("How many rows have Norway as country?", "2"),
        ("How many cities are in Norway?", "2"),
        ("How many places are in Norway?", "2"),
        ("How many people live in Oslo and Trondheim together?", None),
        ("How many people vote in Oslo and Bergen together?", None),
        ("How many places are there in Oslo?", None),
        ("How many fjords are in Norway?", None),
    ],
)
def test_rows_that_are_named(question: str, expected: str | None) -> None:
    result = total(question, table(CITIES), context={"places"})
    assert (result and result.text) == expected


def test_another_table_with_half_of_its_columns_in_common() -> None:
    other = "| City | Mayor |\n| --- | --- |\n| Oslo | Ann |\n| Narvik | Bea |\n| Odense | Cy |\n"
    rows = table_rows(f"{CITIES}\n{'Some text about mayors. ' * 5}\n\n{other}")
    assert [len(each.rows) for each in tables_of(rows)] == [4, 3]


@each_row(
    "question",
    [
        "What is the total crew of Corona and Liv?",
        "What is the difference in crew between Corona and Liv?",
        "What is the average crew of Corona and Liv?",
    ],
)
def test_numbers_some_of_which_are_missing_have_no_sum(question: str) -> None:
    rows = ("Liv | Kiel | n/a", "Jorun | Bergen | 81", "Hilda | Hull | -", "Corona | Leith | 4")
    text = "ship | city | crew\n" + "".join(f"{row}\n" for row in rows)
    assert total(question, table(text)) is None


def test_a_column_of_groups_names_no_rows() -> None:
    names = ["Ann Lee", "Ben Orr", "Cy Moss", "Di Fell", "Ed Nash", "Flo Hart"]
    rows = [
        f"team: {team} | post: {post} | member: {first} {team}son"
        for team in ("Red", "Blue")
        for post, first in zip(
            ("chair", "clerk", "clerk", "cook", "scout", "guard"), names, strict=True
        )
    ]
    answer = total("Who was clerk of Red?", table("\n".join(rows)))
    assert answer is not None and answer.text == "Ben Orr Redson, Cy Moss Redson"


DISASTERS = "".join(
    f"Entity: {entity} | Year: {year} | Deaths: {deaths}\n"
    for entity, year, deaths in (
        *(("Flood", year, 10 + year % 7) for year in range(1950, 1957)),
        *(("Epidemic", year, 90 + year % 5) for year in range(1950, 1955)),
        ("Epidemic", 1957, 94),
    )
)


@each_row(
    ("question", "expected"),
    [
        ("How many entities are there?", "2"),  # which the first column repeats
        ("How many rows are there?", "13"),
        ("How many entities had more than 93 deaths?", "1"),
        ("Which year had the most deaths from wars?", None),
    ],
)
def test_a_column_that_groups_rows_and_years_of_extremes(
    question: str, expected: str | None
) -> None:
    result = total(question, table(DISASTERS))
    assert (result and result.text) == expected


def test_what_a_table_is_called_may_be_a_short_word() -> None:
    cars = table("".join(f"Name: {name} | Weight: {n}\n" for n, name in enumerate("abcd", 9)))
    result = total("Which car is the heaviest?", cars, context={"cars", "json"})
    assert result is not None and result.text == "d"


DAYS = "".join(
    f"date: 2012-01-{n:02} | temp_max: {high} | temp_min: {low} | weather: {weather}\n"
    for n, (high, low, weather) in enumerate(
        ((12, 5, "rain"), (9, -3, "snow"), (15, 2, "sun"), (11, 6, "snow"), (8, 1, "rain")), 1
    )
)


@each_row(
    ("question", "expected"),
    [
        ("On which day was it hottest?", "2012-01-03"),
        ("Which day was the coldest?", "2012-01-02"),
        ("How many dates had snow?", "2"),
        ("How many kinds of weather are there?", "3"),
        ("How many kinds of wind are there?", None),
    ],
)
def test_days_and_kinds(question: str, expected: str | None) -> None:
    result = total(question, table(DAYS))
    assert (result and result.text) == expected


FILMS = """\
Title: Alien | Rating: R | Score: 8.5 | Director: Ann Lee | Released: 1979 | Minutes: 117
Title: Aliens | Rating: R | Score: 8.4 | Director: Bo Ray | Released: 1986 | Minutes: 137
Title: G | Rating: R | Score: 5.0 | Director: Cy Orr | Released: 2002 | Minutes: 90
Title: Up | Rating: G | Score: 8.3 | Director: Bo Ray | Released: 2009 | Minutes: 96
Title: Down | Rating: G | Score: 4.1 | Director: Bo Ray | Released: 2011 | Minutes: 88
"""


@each_row(
    ("question", "expected"),
    [
        ("How many films are rated G?", "2"),  # not how many ratings those have
        ("How many films did Bo Ray direct?", "3"),
        ("Which films did Bo Ray direct?", "Aliens, Up, Down"),
        ("What is the longest film?", "Aliens"),
        ("What is the highest score?", "8.5"),
        ("What is the lowest score?", "4.1"),
        ("Which film has the lowest score?", "Down"),
    ],
)
def test_a_column_that_tells_the_rows_is_not_what_is_asked(question: str, expected: str) -> None:
    answer = total(question, table(FILMS), context={"films"})
    assert answer is not None and answer.text == expected


def test_the_names_of_two_rows_are_matched_by_all_their_words() -> None:
    # The names may be behind two columns of numbers.
    race = RACE.replace(" | runner", " | bib: 7 | runner")
    winner = compare("Who was faster, Bea Moss or Cy Orr?", table(race))
    assert winner is not None and winner.cells[0].text == "Bea Moss"
    # "Aliens" has a word of the name, too.
    compared = compare("Which has the higher score, Down or Alien?", table(FILMS))
    assert compared is not None and compared.cells[0].text == "Alien"
    assert compare("Which has the higher score, Down or Alie?", table(FILMS)) is None


def test_what_the_question_names_is_not_its_answer() -> None:
    rows = "\n".join(
        f"Date: {date} | Shift: {shift} | Nurse: {nurse}"
        for date, shift, nurse in (
            ("Mon 3 Mar", "Early", "Asta"),
            ("Mon 3 Mar", "Night", "Bruno"),
            ("Tue 4 Mar", "Early", "Celia"),
            ("Tue 4 Mar", "Night", "Edith"),
        )
    )
    (roster,) = tables_of(table_rows(rows))
    assert total("Who has the night shift on Tue 4 Mar?", roster) is None
