"""Rows of tables in a text: cells, their columns and their places."""

from __future__ import annotations

from drt_engine.text.table_rows import table_rows
from tests.tables import each_row

RECORDS = """\
ship: Petrel | berth: 7 | master: A. Voss
ship: Gannet | berth: 12 | master: B. Lind
"""
MARKDOWN = """\
Berths in use:

| ship | berth | master |
|------|:-----:|--------|
| Petrel | 7 | A. Voss |
| Gannet | 12 | B. Lind |

Nothing else is moored.
"""
BARS = "ship | berth | master\nPetrel | 7 | A. Voss\nGannet | 12 | B. Lind\n"


@each_row("text", [RECORDS, MARKDOWN, BARS], ids=["records", "markdown", "bars"])
def test_rows_have_the_names_of_their_columns_and_their_places(text: str) -> None:
    rows = table_rows(text)
    values = [[(cell.column, cell.text) for cell in row.cells] for row in rows]
    assert values == [
        [("ship", "Petrel"), ("berth", "7"), ("master", "A. Voss")],
        [("ship", "Gannet"), ("berth", "12"), ("master", "B. Lind")],
    ]
    for row in rows:
        assert all(text[cell.start : cell.end] == cell.text for cell in row.cells)
        assert text[row.start : row.end].startswith(row.cells[0].text)


def test_two_tables_have_headers_of_their_own() -> None:
    text = BARS + "\nPrices follow.\n\nitem | price\nrope | 3\noar | 9\n"
    assert [row.cells[0].column for row in table_rows(text)] == ["ship", "ship", "item", "item"]


@each_row(
    "text",
    [
        "",
        "Home | About | Contact\n",
        "The harbour: a history\nOf ships and men.\n",
        "a | b\nc | d\n",  # a header with one row may as well be two lines of a menu
        "a || b\n",
        "|||\n|---|\n",
    ],
)
def test_lines_that_are_no_table(text: str) -> None:
    assert table_rows(text) == []


def test_a_value_may_hold_a_colon_and_a_field_may_be_empty() -> None:
    (row,) = table_rows("ship: Petrel | sails: 07:30 | note:  | port: Oban: north quay\n")
    assert [(cell.column, cell.text) for cell in row.cells] == [
        ("ship", "Petrel"),
        ("sails", "07:30"),
        ("port", "Oban: north quay"),
    ]


def test_of_a_part_of_a_text_only_records_are_rows() -> None:
    assert len(table_rows(RECORDS + "\n" + BARS, whole=False)) == 2


def test_grids_and_empty_cells() -> None:
    grid = (
        "+-----+------+\n| Who | What |\n+=====+======+\n| Ann | oars |\n+-----+------+\n"
        "| Bo  | mast |\n|     | sail |\n+-----+------+\n| Cy  |      |\n+-----+------+\n"
    )
    rows = [[(cell.column, cell.text) for cell in row.cells] for row in table_rows(grid)]
    assert rows == [
        [("Who", "Ann"), ("What", "oars")],
        [("Who", "Bo"), ("What", "mast")],
        [("Who", "Cy")],
    ]


def test_fields_between_colons_under_a_comment() -> None:
    text = "# code:number:name\n" + "".join(f"A{n}:{n:03}:Coin {n}\n" for n in range(6))
    rows = table_rows(text)
    assert len(rows) == 6 and [cell.column for cell in rows[2].cells] == ["code", "number", "name"]
    assert all(text[cell.start : cell.end] == cell.text for row in rows for cell in row.cells)
    assert table_rows("at 10:30:00 we left\n" * 9) == []  # clocks
    assert table_rows("root:x:0\n" * 9) == []  # no header


PORTS = """\
Ports of call, as of May.  Prose may have two spaces.

Port         Country   Ships  Since
Oban         Scotland     12  1901
New Haven    USA           7  1955
Port Calder  Wales            2004
"""
RULED = "name      age\n--------  ---\nAnn Lee    31\nBo         44\n           45\nCy          9\n"


def test_columns_that_spaces_align() -> None:
    rows = table_rows(PORTS)
    values = [[(cell.column, cell.text) for cell in row.cells] for row in rows]
    assert values[1] == [
        ("Port", "New Haven"), ("Country", "USA"), ("Ships", "7"), ("Since", "1955")
    ]  # fmt: skip
    assert values[2] == [("Port", "Port Calder"), ("Country", "Wales"), ("Since", "2004")]
    assert all(PORTS[cell.start : cell.end] == cell.text for row in rows for cell in row.cells)
    ruled = [[cell.text for cell in row.cells] for row in table_rows(RULED)]
    assert ruled == [["Ann Lee", "31"], ["Bo", "44"], ["Cy", "9"]]
    (first, *_) = table_rows("a    b\n==== ====\nx y  1\nz    2\nw    3\n==== ====\n")
    assert [(cell.column, cell.text) for cell in first.cells] == [("a", "x y"), ("b", "1")]
    psql = " name | age\n------+-----\n Ann  |  31\n Bo   |  44\n"
    assert [row.cells[1].text for row in table_rows(psql)] == ["31", "44"]


@each_row(
    "text",
    [
        "int   a   = 1;\nfloat b   = 2;\nlong  c   = 3;\nchar  d   = 4;\n",  # code
        "-h  --help   this\n-v  --verb   more\n-q  --quiet  less\n-x  --xx     less\n",
        "alpha   the first\nbeta    the second\ngamma   the third\ndelta   the fourth\n",
        "One ends.  Two begins.\nThree  goes on. Four\nfive  six.  Seven 7.\nEight  nine.\n",
        "Port   Ships\nOban      12\n",  # a row alone
    ],
)
def test_aligned_lines_that_are_no_table(text: str) -> None:
    assert table_rows(text) == []


def test_names_in_two_rows() -> None:
    text = "N | Summer | Summer\nN | Gold | Silver\nRuritania | 1 | 2\nBorduria | 3 | 4\n"
    rows = [[(cell.column, cell.text) for cell in row.cells] for row in table_rows(text)]
    assert rows == [
        [("N", "Ruritania"), ("Summer Gold", "1"), ("Summer Silver", "2")],
        [("N", "Borduria"), ("Summer Gold", "3"), ("Summer Silver", "4")],
    ]
    # Rows of words below a header with a name twice are rows.
    text = "Name | Phone | Phone\nAnn | home | work\nBo | home | none\nCy | none | work\n"
    assert [row.cells[0].text for row in table_rows(text)] == ["Ann", "Bo", "Cy"]
