"""What readers keep of a document's structure: hidden and struck-out text, merged cells, notes."""

from __future__ import annotations

from pathlib import Path

import pytest

from drt_engine.documents import Source
from drt_engine.documents.readers.table import header_names
from drt_engine.documents.registry import find_format
from tests.engine.documents.helpers import joined, read
from tests.engine.documents.makers import Text, make_page_pdf

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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
