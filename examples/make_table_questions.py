"""Make tables and questions for their cells, to teach the reader: no hands, exact evidence.

`python examples/make_table_questions.py OUT --tables 2000 --seed 1` writes OUT-docs.jsonl and
OUT-qa.jsonl in the project's schema of questions. Each table is invented: its rows have names,
places, numbers, dates and codes drawn at random under column names as people write them, and is
laid out as drt's own CSV reader, Markdown or plain text would have it. Each question asks for one
cell by its row, or for the row by one cell; some ask for a row or a column that is not there.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from drt_engine.documents.readers.table import row_blocks


def listed(words: str) -> list[str]:
    """Return words that commas separate."""
    return words.split(", ")


FIRST = listed(
    "Ada, Bela, Carlos, Dina, Edgar, Fatima, Goran, Hanna, Ivo, Jana, Kofi, Lena, Marta, "
    "Nils, Olga, Pavel"
)
LAST = listed(
    "Adler, Brandt, Costa, Dvorak, Eklund, Ferri, Gupta, Haas, Ito, Jansen, Kovac, Lund, "
    "Moreau, Novak"
)
PLACE_HEADS = listed(
    "North, South, East, West, Upper, Lower, New, Old, Great, Little, Saint, Fort, Port, Mount"
)
PLACE_TAILS = listed(
    "Ashby, Bergen, Calder, Dover, Elm, Farrow, Garth, Holm, Inver, Jura, Kirk, Lorne, Mora, "
    "Nairn, Oban, Perth"
)
FIRM_HEADS = listed(
    "Acorn, Beacon, Cobalt, Delta, Ember, Falcon, Granite, Harbor, Indigo, Juniper, Keystone, "
    "Lumen, Meridian, Nimbus, Orchard, Pioneer, Quartz, Raven, Summit, Tidal, Umber, Vertex, "
    "Willow, Zephyr"
)
FIRM_TAILS = listed(
    "Group, Holdings, Industries, Systems, Foods, Energy, Labs, Logistics, Airlines, "
    "Bank, Motors, Media"
)
THINGS = listed(
    "anchor, basket, candle, desk, easel, flask, globe, hammer, inkwell, jacket, kettle, "
    "lantern, mirror, needle, oar, pillow, quilt, ribbon, saddle, teapot, umbrella, vase, "
    "whistle, yoke"
)
COLORS = listed(
    "amber, blue, crimson, green, grey, indigo, ivory, olive, red, silver, teal, violet, white"
)
CATEGORIES = listed(
    "Agriculture, Banking, Chemicals, Construction, Education, Energy, Fishing, Health Care, "
    "Insurance, Mining, Real Estate, Retail, Shipping, Software, Telecommunications, Tourism, "
    "Utilities, Water"
)
MONTHS = listed(
    "January, February, March, April, May, June, July, August, September, October, November, "
    "December"
)


def person(chance: random.Random) -> str:
    return f"{chance.choice(FIRST)} {chance.choice(LAST)}"


def place(chance: random.Random) -> str:
    return f"{chance.choice(PLACE_HEADS)} {chance.choice(PLACE_TAILS)}"


def town(chance: random.Random) -> str:
    return f"{place(chance)}, {chance.choice(PLACE_TAILS)}shire"


def firm(chance: random.Random) -> str:
    tail = chance.choice(FIRM_TAILS)
    return f"{chance.choice(FIRM_HEADS)} {tail}"


def product(chance: random.Random) -> str:
    return f"{chance.choice(COLORS)} {chance.choice(THINGS)}"


def code(chance: random.Random) -> str:
    letters = "".join(chance.choice("ABCDEFGHJKLMNPRSTUVWXYZ") for _ in range(chance.randint(2, 4)))
    return letters if chance.random() < 0.5 else f"{letters}-{chance.randint(10, 999)}"


def number(low: int, high: int) -> Callable[[random.Random], str]:
    def draw(chance: random.Random) -> str:
        value = int(low * (high / low) ** chance.random())
        return f"{value:,}" if chance.random() < 0.3 else str(value)

    return draw


def decimal(chance: random.Random) -> str:
    return f"{chance.uniform(0.1, 99):.{chance.randint(1, 2)}f}"


def money(chance: random.Random) -> str:
    return f"{chance.choice(['$', '€', '£', ''])}{chance.uniform(1, 900):.2f}"


def percent(chance: random.Random) -> str:
    return f"{chance.uniform(0, 100):.1f}%"


def year(chance: random.Random) -> str:
    return str(chance.randint(1820, 2024))


def date(chance: random.Random) -> str:
    y, m, d = chance.randint(1950, 2024), chance.randint(1, 12), chance.randint(1, 28)
    return chance.choice([f"{y}-{m:02}-{d:02}", f"{d} {MONTHS[m - 1]} {y}", f"{m}/{d}/{y}"])


def category(chance: random.Random) -> str:
    return chance.choice(CATEGORIES)


def clock(chance: random.Random) -> str:
    return f"{chance.randint(0, 23):02}:{chance.choice(['00', '15', '30', '45'])}"


@dataclass(frozen=True)
class Column:
    """A kind of cell: how such columns are named, and how its cell is asked for by a row ``{}``."""

    names: tuple[str, ...]
    cell: Callable[[random.Random], str]
    questions: tuple[str, ...]


def _column(names: str, cell: Callable[[random.Random], str], questions: str) -> Column:
    return Column(tuple(names.split("|")), cell, tuple(questions.split("|")))


KEYS = {
    "firm": _column("company|name|Company|organisation|Firm|supplier", firm, ""),
    "person": _column("name|Name|employee|player|member|Author|contact", person, ""),
    "place": _column("city|City|town|station|Location|port|municipality|region", place, ""),
    "product": _column("item|product|Article|Name|goods|Description", product, ""),
}
COLUMNS: dict[str, tuple[Column, ...]] = {
    "firm": (
        _column(
            "Headquarters|hq_town|HQ|head office|seat",
            town,
            "Where is {} based?|Where is the head office of {}?|headquarters of {}|"
            "In which town does {} have its seat?|Where does {} sit?",
        ),
        _column(
            "Founded|year_founded|founded_in|established|Est.",
            year,
            "When was {} founded?|founding year of {}|In what year was {} set up?|"
            "How old is {}, by its year of establishment?|since when does {} exist",
        ),
        _column(
            "CEO|chief_executive|managing director|head",
            person,
            "Who runs {}?|Who is the chief executive of {}?|boss of {}|Who leads {}?",
        ),
        _column(
            "Sector|NACE sector|industry|branch|line of business",
            category,
            "Which sector does {} belong to?|What industry is {} in?|{} sector|"
            "What kind of business is {}?",
        ),
        _column(
            "employees|num_employees|staff|headcount",
            number(20, 90_000),
            "How many people work for {}?|How many employees does {} have?|{} headcount|"
            "staff of {}",
        ),
        _column(
            "revenue_musd|Revenue (millions)|turnover|sales",
            number(3, 90_000),
            "What is the revenue of {}?|How much did {} sell?|turnover of {}|{} sales",
        ),
        _column(
            "Symbol|ticker|code|abbr",
            code,
            "ticker of {}|What is the symbol of {}?|Which abbreviation stands for {}?|"
            "Under which code is {} listed?",
        ),
        _column(
            "listed_on|admitted|joined|member since",
            date,
            "When did {} join?|When was {} admitted?|date {} was listed|"
            "Since when has {} been a member?",
        ),
        _column(
            "claims_1990_95|outages 2001-2010|inspections|complaints_total",
            number(1, 90),
            "How many {c} did {} have?|{} {c}|What number of {c} is given for {}?",
        ),
        _column(
            "registration no|filing no|vat_number|licence",
            number(10_000, 9_000_000),
            "{c} of {}|What is the {c} of {}?|Which {c} belongs to {}?",
        ),
    ),
    "person": (
        _column(
            "birthplace|born in|home town|place_of_birth",
            place,
            "Where was {} born?|Where does {} come from?|birthplace of {}|home town of {}",
        ),
        _column(
            "date_of_birth|born|birthday|DOB",
            date,
            "When was {} born?|birthday of {}|What is the date of birth of {}?|{} born when",
        ),
        _column(
            "salary|monthly pay|annual_salary",
            number(900, 90_000),
            "How much does {} earn?|salary of {}|What is {} paid?|pay of {}",
        ),
        _column(
            "department|team|unit|Division",
            category,
            "Which department is {} in?|In what team does {} work?|{} department",
        ),
        _column(
            "room|desk|office_no",
            code,
            "Which room does {} have?|Where does {} sit?|room of {}|{c} of {}",
        ),
        _column(
            "goals|points|score|wins",
            number(1, 400),
            "How many {c} does {} have?|{} {c}|{c} of {}|What is the number of {c} of {}?",
        ),
        _column(
            "phone|extension|telephone",
            number(1000, 99_999),
            "phone number of {}|How can {} be called?|{} {c}|At which number is {} reached?",
        ),
        _column(
            "manager|supervisor|reports to",
            person,
            "Who is the boss of {}?|Whom does {} report to?|Who supervises {}?|{} {c}",
        ),
        _column(
            "user|login|handle",
            code,
            "{c} of {}|What is the {c} of {}?|Under which {c} is {} known?",
        ),
    ),
    "place": (
        _column(
            "population|inhabitants|pop_2020|residents",
            number(200, 9_000_000),
            "How many people live in {}?|population of {}|What is the population of {}?|"
            "How many inhabitants does {} have?",
        ),
        _column(
            "elevation_m|altitude|height (m)",
            number(2, 4_000),
            "How high does {} lie?|elevation of {}|What is the altitude of {}?|{} {c}",
        ),
        _column(
            "mayor|governor|head of council",
            person,
            "Who is the mayor of {}?|Who governs {}?|{c} of {}|Who heads {}?",
        ),
        _column(
            "rainfall_mm|annual rain|precipitation",
            number(100, 4_000),
            "How much does it rain in {}?|rainfall of {}|What is the {c} of {}?|{} {c}",
        ),
        _column(
            "first_train|opens|opening time|departure",
            clock,
            "When does {} open?|{c} of {}|At what time is the {c} for {}?|{} {c}",
        ),
        _column(
            "gdp_bn_usd|GDP (bn)|income per head",
            decimal,
            "What is the GDP of {}?|{c} of {}|{} {c}|How large is the economy of {}?",
        ),
        _column(
            "area_km2|surface|size",
            number(3, 90_000),
            "How large is {}?|area of {}|What is the {c} of {}?|How big is {}?",
        ),
        _column(
            "unemployment|turnout|share of forest",
            percent,
            "{c} of {}|What is the {c} in {}?|How high is {c} in {}?",
        ),
    ),
    "product": (
        _column(
            "price|unit_price|cost|retail price",
            money,
            "How much is the {}?|What does the {} cost?|price of the {}|How expensive is the {}?",
        ),
        _column(
            "stock|qty|in stock|quantity_on_hand",
            number(1, 5_000),
            "How many of the {} are left?|stock of {}|How many {} are there?|{} {c}",
        ),
        _column(
            "supplier|manufacturer|made_by|vendor",
            firm,
            "Who makes the {}?|Who supplies the {}?|Which firm delivers the {}?|maker of the {}",
        ),
        _column(
            "weight_kg|weight|mass (g)",
            decimal,
            "How heavy is the {}?|weight of the {}|What does the {} weigh?|{} {c}",
        ),
        _column(
            "SKU|article_no|id|order number",
            code,
            "{c} of the {}|What is the {c} of the {}?|Which {c} has the {}?",
        ),
        _column(
            "shelf|aisle|bin",
            code,
            "Where is the {} kept?|Which {c} holds the {}?|{c} for the {}",
        ),
        _column(
            "discount|rating|share returned",
            percent,
            "What is the {c} of the {}?|{c} on the {}|How high is the {c} of the {}?",
        ),
        _column(
            "last_order|delivered|available from",
            date,
            "When was the {} last ordered or delivered?|{c} of the {}|{} {c} date",
        ),
    ),
}
BY_CELL = (
    "Which {key} has {column} {cell}?",
    "{key} with {column} {cell}",
    "Whose {column} is {cell}?",
    "Which {key} is listed with {cell}?",
)


@dataclass(frozen=True)
class Table:
    """Names of the columns, the first of which is the key, and rows of cells."""

    key: str
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def make_table(chance: random.Random) -> Table:
    """Draw a table of 2 to 8 columns and 4 to 40 rows whose keys differ."""
    kind = chance.choice(list(KEYS))
    count = chance.randint(1, min(7, len(COLUMNS[kind])))
    columns = tuple(chance.sample(COLUMNS[kind], count))
    keys: list[str] = []
    for _ in range(chance.randint(4, 40)):
        key = KEYS[kind].cell(chance)
        if key not in keys:
            keys.append(key)
    names = (chance.choice(KEYS[kind].names), *(chance.choice(c.names) for c in columns))
    rows = tuple((key, *(column.cell(chance) for column in columns)) for key in keys)
    return Table(kind, columns, names, rows)


def spoken(name: str) -> str:
    """Return a column's name as people say it: abbreviations stay."""
    return name if name.isupper() else name.replace("_", " ").lower()


def lay_out(table: Table, chance: random.Random) -> tuple[str, dict[tuple[int, int], int]]:
    """Return the text of a table, and where each cell (row, column) begins in it."""
    layout = chance.choice(["fields", "fields", "fields", "bars", "markdown", "spaces"])
    text, places = "", {}
    if layout != "fields":
        separator = {"bars": " | ", "markdown": " | ", "spaces": "  "}[layout]
        edge = "| " if layout == "markdown" else ""
        text = edge + separator.join(table.names) + edge[::-1] + "\n"
        if layout == "markdown":
            text += "|" + "---|" * len(table.names) + "\n"
    for number, row in enumerate(table.rows):
        if layout == "fields":
            fields = list(zip(table.names, row, strict=True))
            line = "".join(block.text for block in row_blocks(fields, number + 2))
            position = 0
            for column, (name, cell) in enumerate(fields):
                position = line.index(f"{name}: {cell}", position) + len(name) + 2
                places[number, column] = len(text) + position
        else:
            line = edge
            for column, cell in enumerate(row):
                line += separator if column else ""
                places[number, column] = len(text) + len(line)
                line += cell
            line += edge[::-1] + "\n"
        text += line
    return text, places


def question_for(table: Table, row: Sequence[str], column: int, chance: random.Random) -> str:
    """Ask for a cell by the row's key."""
    form = chance.choice(table.columns[column - 1].questions)
    key = row[0]
    if table.key != "product" and len(key.split()) > 1 and chance.random() < 0.15:
        unique = sum(key.split()[0] in other[0] for other in table.rows) == 1
        key = key.split()[0] if unique else key
    return form.replace("{c}", spoken(table.names[column])).replace("{}", key)


def questions(
    table: Table, places: dict[tuple[int, int], int], count: int, chance: random.Random
) -> list[tuple[str, list[tuple[int, str]]]]:
    """Draw questions with their answers (place, text); none for what the table does not have."""
    drawn: list[tuple[str, list[tuple[int, str]]]] = []
    for _ in range(count):
        number = chance.randrange(len(table.rows))
        row, column = table.rows[number], chance.randint(1, len(table.columns))
        what = chance.random()
        if what < 0.68:
            text = question_for(table, row, column, chance)
            drawn.append((text, [(places[number, column], row[column])]))
        elif what < 0.85:
            cells = [other[column] for other in table.rows]
            if cells.count(row[column]) == 1:
                text = chance.choice(BY_CELL).format(
                    key=table.names[0].lower(), column=spoken(table.names[column]), cell=row[column]
                )
                drawn.append((text, [(places[number, 0], row[0])]))
        elif what < 0.93:  # a row that is not there
            key = KEYS[table.key].cell(chance)
            if all(key.split()[0] not in other[0] for other in table.rows):
                drawn.append((question_for(table, (key,), column, chance), []))
        else:  # a column that is not there
            absent = [c for c in COLUMNS[table.key] if c not in table.columns]
            if absent:
                missing = chance.choice(absent)
                form = chance.choice(missing.questions)
                name = spoken(chance.choice(missing.names))
                drawn.append((form.replace("{c}", name).replace("{}", row[0]), []))
    return drawn


def main() -> None:
    """Write documents and questions."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--tables", type=int, default=2000)
    parser.add_argument("--questions", type=int, default=8, help="for each table")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    asked = 0
    with (
        options.out.with_name(options.out.name + "-docs.jsonl").open("w", encoding="utf-8") as docs,
        options.out.with_name(options.out.name + "-qa.jsonl").open("w", encoding="utf-8") as qa,
    ):
        for number in range(options.tables):
            table = make_table(chance)
            text, places = lay_out(table, chance)
            document = {"doc_id": f"table-{number}", "title": "", "text": text}
            docs.write(json.dumps(document, ensure_ascii=False) + "\n")
            for question, answers in questions(table, places, options.questions, chance):
                evidence = [[start, start + len(answer)] for start, answer in answers]
                assert all(
                    text[a:b] == answer
                    for (a, b), (_, answer) in zip(evidence, answers, strict=True)
                )
                record = {
                    "id": f"tables/{asked}",
                    "source": "tables",
                    "license": "CC0-1.0",
                    "doc_id": document["doc_id"],
                    "question": question,
                    "answers": [answer for _, answer in answers],
                    "evidence": evidence,
                    "kind": "extractive" if answers else "unanswerable",
                    "type": "table" if answers else "none",
                }
                qa.write(json.dumps(record, ensure_ascii=False) + "\n")
                asked += 1
    print(f"{asked} questions for {options.tables} tables")


if __name__ == "__main__":
    main()
