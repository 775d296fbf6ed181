"""What readers keep of a document's structure: hidden and struck-out text, merged cells, notes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from drt_engine.documents import Source
from drt_engine.documents.base import Block
from drt_engine.documents.registry import find_format
from drt_engine.documents.structure.column_names import ColumnNames, header_names
from drt_engine.documents.structure.footnotes import note_nodes
from tests.engine.documents.helpers import joined, read
from tests.engine.documents.makers import Text, column, make_docx, make_page_pdf, table
from tests.tables import each_row

PAGE = """<html><head><style>
/* .kept {display: none} */ .gone, #x {display:none} p.old { visibility : hidden }
@media print { p { display: none } }
.back {display:none} .back {display:block}
</style></head><body><p class="gone">A</p><p id=x>B</p><p class="new old">C</p>
<p style="color:red;display:none">D</p><p hidden>E</p><p aria-hidden="true">F</p>
<p class="back">kept one</p><p class="kept">kept two</p>
<div class="old">kept three</div></body></html>"""


def test_what_a_style_hides_is_no_text(tmp_path: Path) -> None:
    document, blocks = read(tmp_path / "a.html", PAGE)
    assert joined(blocks) == "kept one\n\nkept two\n\nkept three\n"
    assert document.skipped == ("6 hidden words (the page does not show them)",)


def test_a_page_that_hides_most_of_itself_is_read(tmp_path: Path) -> None:
    page = "<style>.tab{display:none}</style><p>Menu</p>" + '<p class="tab">The fee is 9.</p>' * 5
    assert "The fee is 9." in joined(read(tmp_path / "a.html", f"<html><body>{page}")[1])


def test_struck_out_text_is_marked(tmp_path: Path) -> None:
    for name, text in (
        ("a.html", "<html><body><p>It costs <del>640</del> 590 <s>crowns</s>.</p></body></html>"),
        ("a.md", "It costs ~~640~~ 590 ~~crowns~~.\n"),
    ):
        _, blocks = read(tmp_path / name, text)
        (block,) = blocks
        struck = [block.text[n.start : n.end] for n in block.nodes if n.kind == "struck"]
        assert block.text == "It costs ~~640~~ 590 ~~crowns~~.\n"
        assert struck == ["~~640~~", "~~crowns~~"]


def test_notes_beside_the_main_text_are_read(tmp_path: Path) -> None:
    page = (
        '<html><body><p>Text.</p><aside epub:type="footnote"><p>A note.</p></aside></body></html>'
    )
    assert joined(read(tmp_path / "a.html", page)[1]) == "Text.\n\nA note.\n"


@each_row(
    ("rows", "names"),
    [
        ([["Item", "Price"], ["Lamp", "3"]], ["Item", "Price"]),
        (
            [["Item", "2024", "", "2025", ""], ["", "Q1", "Q2", "Q1", "Q2"], ["Lamp", *"1234"]],
            ["Item", "2024 Q1", "2024 Q2", "2025 Q1", "2025 Q2"],
        ),
        (
            [["Item", "2024", "2024"], ["Item", "Q1", "Q2"], ["Lamp", "1", "2"]],
            ["Item", "2024 Q1", "2024 Q2"],
        ),
        ([["2025-02-01", "Dues", "-4"], ["2025-02-03", "Salary", "9"]], []),
        ([["Name", "Town"], ["Ada", ""], ["Bo", "Oslo"]], ["Name", "Town"]),
    ],
)
def test_names_of_columns_in_one_row_or_two(rows: list[list[str]], names: list[str]) -> None:
    assert header_names(rows)[0] == names


@each_row(
    ("content", "name"),
    [
        (b"%PDF-1.4\n", "pdf"),
        (b"{\\rtf1\\ansi x}", "rtf"),
        (b'<?xml version="1.0"?><rss version="2.0"/>', "feed"),
        (b"WEBVTT\n\n00:00.000 --> 00:01.000\nx\n", "subtitles"),
        (b"plain words\n", "text"),
    ],
)
def test_first_bytes_tell_a_file_that_is_named_wrongly(
    tmp_path: Path, content: bytes, name: str
) -> None:
    for suffix in (".txt", ".xml"):
        (tmp_path / f"a{suffix}").write_bytes(content)
        found = find_format(Source.from_path(tmp_path / f"a{suffix}"))
        assert found is not None and found.name == name


def cells(rows: list[list[str | None]], x: tuple[int, ...] = (72, 200, 300, 400)) -> list[Text]:
    return [
        Text(x[column], 700 - 20 * number, cell)
        for number, row in enumerate(rows)
        for column, cell in enumerate(row)
        if cell is not None
    ]


def pdf_text(folder: Path, pages: list[list[Text]]) -> str:
    pytest.importorskip("pypdfium2")
    return joined(read(folder / "a.pdf", make_page_pdf(pages))[1])


def test_blank_cells_of_a_pdf_keep_their_place(tmp_path: Path) -> None:
    page = cells(
        [
            ["Item", "Small", "Medium", "Large"],
            ["Jar", "4.10", "5.20", "6.90"],
            ["Basket", None, "11.00", None],
            [None, "1.00", "2.00", "3.00"],
        ]
    )
    assert pdf_text(tmp_path, [page]).split("\n")[:4] == [
        "Item | Small | Medium | Large",
        "Jar | 4.10 | 5.20 | 6.90",
        "Basket | | 11.00 | |",
        "| | 1.00 | 2.00 | 3.00",
    ]


def test_columns_of_prose_are_no_table(tmp_path: Path) -> None:
    left = "The ice came early that year and with it the bears"
    right = "so that nobody went out alone for the path was long"
    rows: list[list[str | None]] = [[left, right]] * 3
    assert "|" not in pdf_text(tmp_path, [cells(rows, (40, 330))])


def test_raised_digits_are_notes_or_powers(tmp_path: Path) -> None:
    page = [
        Text(72, 700, "It cost 450", 12),
        Text(127.8, 705, "3", 7),
        Text(72, 650, "It holds 3 x 10", 12),
        Text(147.0, 655, "6", 7),
        Text(72, 600, "In all 4503 crowns", 12),
    ]
    lines = [line for line in pdf_text(tmp_path, [page]).split("\n") if line]
    assert lines == ["It cost 450[3]", "It holds 3 x 10\u2076", "In all 4503 crowns"]


def test_a_column_is_read_from_its_top_whatever_the_order_of_its_content(tmp_path: Path) -> None:
    page = [Text(72, 700, "One"), Text(72, 600, "Three"), Text(72, 686, "Two")]
    assert pdf_text(tmp_path, [page]).split() == ["One", "Two", "Three"]


def test_values_that_change_from_page_to_page_are_no_running_lines(tmp_path: Path) -> None:
    verdicts = ["approved", "refused", "approved", "approved", "refused", "refused", "approved"]
    pages = [
        [
            Text(72, 760, f"Permit no. {301 + number}"),
            *[Text(72, 600 - 14 * n, f"Words of page {number}, line {n}.") for n in range(5)],
            Text(72, 30, f"Decision: {verdict}"),
        ]
        for number, verdict in enumerate(verdicts)
    ]
    text = pdf_text(tmp_path, pages)
    assert [text.count(f"Permit no. {301 + n}") for n in range(7)] == [1] * 7
    assert text.count("Decision:") == 7


def test_values_that_change_from_page_to_page_by_turns_do_not_run(tmp_path: Path) -> None:
    pages = [
        column(
            72, 760, [f"Permit no. {301 + n}", f"Decision: {verdict}", "Fee: 25 crowns"], pitch=30
        )
        for n, verdict in enumerate(["approved", "refused", "approved", "refused", "approved"])
    ]
    text = pdf_text(tmp_path, pages)
    assert text.count("Decision: approved") == 3 and text.count("Decision: refused") == 2


def rows_of(blocks: Sequence[Block]) -> list[tuple[str, str]]:
    return [
        (block.text[node.start : node.end], node.header)
        for block in blocks
        for node in block.nodes
        if node.kind == "row"
    ]


def test_rows_of_a_pdf_have_the_names_above_them(tmp_path: Path) -> None:
    table = [["Item", "Small", "Large"], ["Jar", "4.10", "6.90"], ["Basket", "", "11.00"]]
    page = [
        Text(72 + 90 * at, 700 - 14 * number, cell)
        for number, row in enumerate(table)
        for at, cell in enumerate(row)
        if cell
    ]
    _, blocks = read(tmp_path / "a.pdf", make_page_pdf([page]))
    names = "Item | Small | Large"
    assert rows_of(blocks) == [
        (names, ""),
        ("Jar | 4.10 | 6.90", names),
        ("Basket | | 11.00", names),
    ]


def test_prose_beside_marks_or_numbers_is_no_table(tmp_path: Path) -> None:
    prose = [
        "Three years ago a group of us wrote a paper on practices",
        "that are good for all who compute, and these took it far",
        "further than we had thought at first. Since then we have",
        "seen that many begin elsewhere.",
    ]
    for sign, texts in (("+", ["a <- 1", "b <- 2", "c <- 3", "d <- 4"]), ("7", prose)):
        page = [
            text
            for n, line in enumerate(texts)
            for text in (Text(72, 700 - 12 * n, sign), Text(100, 700 - 12 * n, line))
        ]
        _, blocks = read(tmp_path / "a.pdf", make_page_pdf([page]))
        assert rows_of(blocks) == []


def test_rows_of_word_and_html_tables_have_the_names_above_them(tmp_path: Path) -> None:
    cells = [["Room", "Keeper"], ["Attic", "Wilma"], ["Cellar", "Ossian"]]
    html = "".join(f"<tr><td>{'<td>'.join(row)}</tr>" for row in cells)
    for name, content in (
        ("a.html", f"<html><body><table>{html}</table></body></html>"),
        ("a.docx", make_docx(table(cells))),
    ):
        _, blocks = read(tmp_path / name, content)
        assert rows_of(blocks) == [
            ("Room | Keeper", ""),
            ("Attic | Wilma", "Room | Keeper"),
            ("Cellar | Ossian", "Room | Keeper"),
        ]


@each_row(
    ("rows", "headers"),
    [
        ([["Item", "2024", "2024"], ["Item", "Q1", "Q2"], ["Lamp", "1", "2"]], ["", "", ""]),
        ([["A", "B"], ["1", "2", "3"]], ["", ""]),  # not below the names
        ([["1990", "4"], ["1991", "5"]], ["", ""]),
        ([["|", "-- a.md"], ["|", "-- b.md"]], ["", ""]),
    ],
)
def test_rows_without_names_above_them(rows: list[list[str]], headers: list[str]) -> None:
    columns = ColumnNames()
    assert [columns.see(row) for row in rows] == headers


def test_a_note_has_the_sentence_that_refers_to_it() -> None:
    text = "It rang.[1] The bell cost 450[2] crowns, the clock 1200[10] crowns."
    notes = "[2] Paid by the parish.\nIn May.\n[10] Paid by Melrose.\n[11] Nobody.\n"
    found = [(notes[n.start : n.end], n.header) for n in note_nodes(notes, text)]
    assert found == [
        ("[2] Paid by the parish.\nIn May.", "The bell cost 450"),
        ("[10] Paid by Melrose.", "The bell cost 450[2] crowns, the clock 1200"),
    ]


def test_what_is_printed_on_a_page_is_kept(tmp_path: Path) -> None:
    pages = [[Text(72, 700, f"Words of page {n}.")] for n in range(3)]
    labels = "/PageLabels << /Nums [0 << /S /r >> 2 << /S /D /St 3 >>] >>"
    data = make_page_pdf(pages).replace(b"/Type /Catalog", f"/Type /Catalog {labels}".encode())
    _, blocks = read(tmp_path / "a.pdf", data)
    places = [[n.place for n in block.nodes if n.kind == "page"] for block in blocks]
    assert places == [["i"], ["ii"], []]  # 3 is the third page's own number


MARKDOWN_TABLE = """# Keepers

| Room | Keeper
|:-----|-------:|
| Attic | Wilma |
| Cellar \\| shed | Ossian |

```
| no | table |
|----|-------|
| in | code  |
```

Either a | b, or c.
"""


def test_rows_of_a_markdown_table(tmp_path: Path) -> None:
    _, blocks = read(tmp_path / "a.md", MARKDOWN_TABLE)
    assert rows_of(blocks) == [
        ("| Room | Keeper", ""),
        ("| Attic | Wilma |", "Room | Keeper"),
        ("| Cellar \\| shed | Ossian |", ""),
    ]
    assert joined(blocks) == MARKDOWN_TABLE
