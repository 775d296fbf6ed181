"""Values in lists of names, and none where the question says more than the list."""

from __future__ import annotations

import pytest

from drt_engine.answer.lists.key_lists import key_rows, keyed_cell, keyed_names
from drt_engine.answer.tables.records import lacks_column

RELEASES = """\
Title: Python releases
Topic: Release
Status: Active

People

- Mac installers: Ned Deily
- Windows installers: Steve Dower
- Documentation: the docs team

Bugfix releases

- 3.10.1: Monday, 2021-12-06
- 3.10.11: Wednesday, 2023-04-05
  (Final regular release)
- 3.10.2: Friday, 2022-01-14
"""
SERVICES = """\
# Ports of network services

tcpmux\t\t1/tcp\t\t\t# multiplexer
echo\t\t7/tcp
echo\t\t7/udp
ssh\t\t22/tcp
smtp\t\t25/tcp\t\tmail

# Others
postgresql\t5432/tcp\tpostgres
"""
CODES = "".join(
    f"{code}:{number}:{name}\n"
    for code, number, name in (
        *(("CHF", "756", "Swiss franc"), ("CZK", "203", "Czech koruna"), ("DKK", "208", "Krone")),
        *(("HUF", "348", "Forint"), ("PLN", "985", "Zloty")),
    )
)


PIECES = """\
The kind of piece is encoded as follows

black pawn     0
white pawn     1
black queen    8
black king    10

white can castle long     1

castling moves

white short   e1h1
white long    e1a1
black short   e8h8
black long    e8a8
"""


@pytest.mark.parametrize(
    ("question", "text", "expected"),
    [
        ("Who builds the Mac installers?", RELEASES, "Ned Deily"),
        ("When was 3.10.2 released?", RELEASES, "Friday, 2022-01-14"),
        ("date of release 3.10.11", RELEASES, "Wednesday, 2023-04-05"),
        ("Which port does ssh use?", SERVICES, "22/tcp"),
        ("port of postgres", SERVICES, "postgresql\t5432/tcp\tpostgres"),
        ("Which service has port 25?", SERVICES, "smtp\t\t25/tcp\t\tmail"),
        ("What is on port 22?", SERVICES, "ssh\t\t22/tcp"),
        ("Which currency is number 348?", CODES, None),  # no word says what a currency is
        ("Which name has number 348?", CODES, "HUF:348:Forint"),
        ("What does PLN stand for?", CODES, "PLN:985:Zloty"),
        ("code of the Swiss franc", CODES, "CHF:756:Swiss franc"),
        ("number of the black king piece", PIECES, "10"),
        ("Which move encodes castling long for black?", PIECES, "e8a8"),
        ("number of the king", PIECES, None),
        ("What is the worth of the black queen?", PIECES, None),
        ("the black king piece", PIECES.replace("king  ", "king      "), None),  # not aligned
        # Nobody is named, the value is no date, or the question says more.
        ("Who does the documentation?", RELEASES, None),
        ("When were the Mac installers released?", RELEASES, None),
        ("Who paid and built the Mac installers?", RELEASES, None),
        ("What was new in 3.10.2?", RELEASES, None),
        ("When was 3.10.3 released?", RELEASES, None),
        ("Why was 3.10.2 released?", RELEASES, None),
        ("Which port does minecraft use?", SERVICES, None),
        ("What is the history of ssh?", SERVICES, None),
        ("Which port is not ssh?", SERVICES, None),
        ("Which port does echo use?", SERVICES, None),  # two lines
        ("What is the exchange rate of the Swiss franc?", CODES, None),
        ("code of the franc", CODES, None),
        ("Swiss franc", "CHF:756:Swiss franc\nCZK:203:Czech koruna\n", None),
        ("Which port does smtp use?", "smtp: 25\nssh: 22\n", None),
    ],
)
def test_values(question: str, text: str, expected: str | None) -> None:
    cell = keyed_cell(question, text)
    assert (cell and cell.text) == expected
    assert cell is None or text[cell.start : cell.end] == cell.text


def test_context_of_the_document_explains_a_word() -> None:
    question = "Which releases of Python are 3.10.2?"
    text = RELEASES.replace("Python ", "")
    assert keyed_cell(question, text) is None
    assert keyed_cell(question, text, {"python"}) is not None


def test_rows_of_records_and_prose_are_no_lists() -> None:
    records = "name: Ann | age: 3\nname: Bea | age: 4\nname: Cy | age: 5\n"
    assert not list(key_rows(records))
    prose = "One thing: this.\nThe next line has none.\nAnother thing: that.\n"
    assert not list(key_rows(prose))
    assert len(list(key_rows(RELEASES))) == 9


ROW = "Symbol: MMM | Security: 3M | Sector: Industrials | Founded: 1902 | Chief: Ann Lee"


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Who is the auditor of 3M?", True),
        ("What colour is MMM?", True),
        ("When was 3M founded?", False),
        ("In which sector is 3M?", False),
        ("Who is chief executive of Ford?", False),
        ("What is 3M?", False),
        ("Which firm digs in Industrials?", False),  # one word behind the names
        ("What is the salary of Ann Lee of Oban?", True),
    ],
)
def test_a_row_without_a_column_of_what_is_asked(question: str, expected: bool) -> None:
    assert lacks_column(question, ROW) is expected
    assert not lacks_column(question, "3M is a company.")
    assert not lacks_column(question, f"{ROW}\n{ROW}")


COINS = """\
AAK:1:Kwacha
BBL:2:Lek
CCK:3:Kwacha
DDP:4:Peso
EEF:5:Forint
"""


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which two codes share the name Kwacha?", ["AAK", "CCK"]),
        ("What are the codes of the Kwacha?", ["AAK", "CCK"]),
        ("Which code has the Kwacha?", []),  # one
        ("Which codes have the Lek?", []),  # one row
        ("Which codes have the Kwacha and the Lek?", []),
        ("Which cities use the Kwacha?", []),
        ("", []),
    ],
)
def test_names_that_share_a_value(question: str, expected: list[str]) -> None:
    assert [cell.text for cell in keyed_names(question, COINS)] == expected


def test_one_word_may_be_unexplained_where_that_is_asked_for() -> None:
    question = "code for the Hungarian forint"
    assert keyed_cell(question, COINS) is None
    cell = keyed_cell(question, COINS, unexplained=True)
    assert cell is not None and cell.text == "EEF:5:Forint"
    assert keyed_cell("Hungarian code of the forint", COINS, unexplained=True) is None
    assert keyed_cell("code for the old Hungarian forint", COINS, unexplained=True) is None
    assert keyed_cell("code for the Zambian kwacha", COINS, unexplained=True) is None  # two


TITLED = """\
The folders of the manual are:

Folder Description
man1 Programs (optional)
man2 System calls (optional)
man6 Games of skill and
of luck (optional)

Prose Begins
with a line
that is none
of a table
"""


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which manual folder is for system calls?", "man2"),
        ("What is in man1?", "Programs (optional)"),
        ("Which folder is for calls?", None),  # not all of the name
        ("Which folder is for system calls of Ann?", None),
        ("What is Prose?", None),
    ],
)
def test_columns_that_one_space_parts_below_their_names(
    question: str, expected: str | None
) -> None:
    cell = keyed_cell(question, TITLED)
    assert (cell and cell.text) == expected


def test_aligned_columns_may_have_a_header_at_other_places() -> None:
    text = "Swing   Votes\n1.5%  224 to 273\n2.5%  208 to 273\n3.5%  179 to 273\n4.5%   99 to 273\n"
    cell = keyed_cell("What are the votes for a swing of 3.5%?", text)
    assert cell is not None and cell.text == "179 to 273"


def test_nobody_is_in_a_row_of_numbers() -> None:
    row = "sweet: Kit Kat | bar: 1 | sugar: .31 | wins: 76.7"
    assert lacks_column("Who makes Kit Kat?", row)
    assert not lacks_column("Who makes Kit Kat?", f"{row} | firm: Harbour Sweets")
    assert not lacks_column("What is Kit Kat?", row)


def test_the_sign_before_a_setting_is_no_part_of_it() -> None:
    text = "".join(f"lamp_{name}\t\t= {n}\n" for n, name in enumerate("abcdefg"))
    cell = keyed_cell("What is the value of lamp_c?", text)
    assert cell is not None and cell.text == "2" and text[cell.start : cell.end] == "2"
