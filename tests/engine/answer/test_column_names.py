"""The line that names the columns of a table, where a question asks for them."""

from __future__ import annotations

import pytest

from drt_engine.answer.tables.column_names import asks_for_columns, names_of_columns
from drt_engine.answer.tables.values import tables_of
from drt_engine.text.table_rows import table_rows

CODES = "# Code:Number:Name\nCHF:756:Swiss franc\n" + "".join(
    f"A{n}B:{n}:Coin {n}\n" for n in range(9)
)
CREW = "keeper: Voss | watch: 2\nkeeper: Lind | watch: 3 | since: 1901\nkeeper: Osei | watch: 4\n"
MARKDOWN = "Prose.\n\n| Boat | Oars |\n| --- | --- |\n| Tern | 2 |\n| Skua | 4 |\n"


@pytest.mark.parametrize(
    ("question", "asks"),
    [
        ("Which columns are there?", True),
        ("What are the columns of the table?", True),
        ("What do the three fields on a line mean?", True),
        ("names of the columns", True),
        ("What columns does the crew table have?", True),
        ("Which columns hold the dead?", False),
        ("How many columns are there?", False),
        ("Which column does Voss lead?", False),
        ("What is in the field of vision?", False),
    ],
)
def test_questions_for_columns(question: str, asks: bool) -> None:
    assert asks_for_columns(question, {"crew"}) is asks


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (CODES, "# Code:Number:Name"),
        (CREW, "keeper: Lind | watch: 3 | since: 1901"),  # the fullest row, as none names them
        (MARKDOWN, "| Boat | Oars |"),
    ],
)
def test_the_line_of_names(text: str, line: str) -> None:
    (table,) = tables_of(table_rows(text))
    assert text[slice(*names_of_columns(text, table))] == line
