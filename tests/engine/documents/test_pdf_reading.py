"""PDF: the section that a text is in, titles, and what is on a page but no running text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from drt_engine.documents import Block
from drt_engine.documents.pdf.text import Spellings
from tests.engine.documents.helpers import joined, read, section_at
from tests.engine.documents.makers import Text, column, make_page_pdf

library = pytest.importorskip("pypdfium2")
raw = pytest.importorskip("pypdfium2.raw")

BODY = [
    "The ice came early that year and with it the bears, so that",
    "nobody went out alone, for the path to the hut was unmarked.",
    "The lamp gave out at four, and then it was dark until morning.",
]
CONTENTS = "line{} of a table of contents (the sections are read where they are)"


def blocks_of(folder: Path, pages: Sequence[Sequence[Text]], **options: object) -> list[Block]:
    content = make_page_pdf(pages, **options)  # type: ignore[arg-type]
    return read(folder / "a.pdf", content)[1]


def characters_lead_back(path: Path, blocks: Sequence[Block]) -> None:
    """Every character is the page's own, but for brackets around marks and hyphens."""
    document = library.PdfDocument(path)
    for block in blocks:
        page = document[(block.page or 0) - 1].get_textpage()
        for offset, character in enumerate(block.text):
            index = block.origin_at(offset)
            if character not in " \n[]":
                assert index is not None
                assert chr(raw.FPDFText_GetUnicode(page, index)) == character, block.text
    document.close()


def test_a_text_is_in_the_section_that_its_bookmark_points_to(tmp_path: Path) -> None:
    pages = [[
        *column(72, 700, ["Opening.", *BODY]),
        *column(72, 600, ["On Lamps", "Lamps burn oil."]),
        *column(72, 500, ["On Rope", "Rope is heavy."]),
    ]]  # fmt: skip
    named_otherwise = [(0, "First words", 712.0), (0, "Light", 612.0), (0, "Cords", 512.0)]
    blocks = blocks_of(tmp_path, pages, bookmarks=named_otherwise)
    for needle, section in (("bears", "First words"), ("burn", "Light"), ("heavy", "Cords")):
        assert section_at(blocks, needle) == section


def test_bookmarks_without_a_place_leave_a_page_to_the_first(tmp_path: Path) -> None:
    pages = [column(72, 700, BODY), column(72, 700, ["Then rope."])]
    marks = [(0, "Alpha"), (0, "Beta"), (0, "Gamma")]
    blocks = blocks_of(tmp_path, pages, bookmarks=marks)
    assert section_at(blocks, "bears") == "Alpha"
    assert section_at(blocks, "Then rope.") == "Gamma"


def test_a_chapters_label_is_in_its_chapter(tmp_path: Path) -> None:
    page = [
        *column(72, 700, BODY),
        Text(72, 600, "Chapter 3", 16),
        Text(72, 570, "The Long Winter of Our", 20),
        Text(72, 546, "Discontent", 20),
        *column(72, 500, ["Snow fell."]),
    ]
    blocks = blocks_of(tmp_path, [page], bookmarks=[(0, "The Long Winter of Our Discontent")])
    assert [(block.section, block.text.split("\n")[0]) for block in blocks] == [
        (None, BODY[0]),
        ("Chapter 3 The Long Winter of Our Discontent", "Chapter 3"),
    ]


@pytest.mark.parametrize("size", [18, 26])
def test_a_heading_over_two_lines_is_one_paragraph(tmp_path: Path, size: int) -> None:
    page = [
        *column(72, 720, BODY),
        Text(72, 640, "Best practices for budgeting and", size),
        Text(72, 640 - 1.2 * size, "overseeing", size),
        *column(72, 560, BODY),
    ]
    text = joined(blocks_of(tmp_path, [page]))
    assert "\n\nBest practices for budgeting and\noverseeing\n\nThe ice" in text


def test_headings_are_sections_where_there_are_no_bookmarks(tmp_path: Path) -> None:
    first = [
        Text(72, 740, "A Handbook", 30),
        Text(72, 680, "1. Introduction", 20),
        *column(72, 650, BODY),
        Text(72, 590, "1.1. Purpose of it", 16),
        *column(72, 560, BODY),
        Text(72, 500, "2. Lamps", 20),
        *column(72, 470, [*BODY, "5 bears"]),
    ]
    blocks = blocks_of(tmp_path, [first, column(72, 700, ["Next page."])])
    sections = [block.section for block in blocks if block.text.strip()]
    assert sections == [
        None,
        "1. Introduction",
        "1. Introduction > 1.1. Purpose of it",
        "2. Lamps",
        "2. Lamps",
    ]


def test_a_formula_with_an_exponent_is_no_heading(tmp_path: Path) -> None:
    page = [
        Text(72, 740, "A Handbook", 30),
        *column(72, 700, BODY),
        Text(72, 630, "where the power of x"),
        Text(188, 635, "n + m", 8),
        *column(72, 590, BODY),
    ]
    blocks = blocks_of(tmp_path, [page])
    assert "where the power of x" in joined(blocks)
    assert {block.section for block in blocks} == {None}


@pytest.mark.parametrize(
    ("large", "below"),
    [
        ("Identifies a control that must be included in", "Every plan."),
        ("Identifies the mechanisms", "that secure it."),
    ],
)
def test_a_part_of_a_sentence_in_large_print_is_no_heading(
    tmp_path: Path, large: str, below: str
) -> None:
    page = [
        *column(72, 720, BODY),
        Text(72, 640, large, 14),
        Text(72, 626, below),
        *column(72, 560, BODY),
    ]
    assert {block.section for block in blocks_of(tmp_path, [page])} == {None}


def test_the_title_is_what_is_printed_largest(tmp_path: Path) -> None:
    page = [
        Text(72, 700, "De-risking custom", 30),
        Text(72, 660, "technology projects", 30),
        *column(72, 600, BODY),
    ]
    more = "/Author (Ann Lee) /CreationDate (D:20150319120000Z)"
    document, _ = read(tmp_path / "a.pdf", make_page_pdf([page], title="a.docx", more=more))
    assert document.title == "De-risking custom technology projects"
    assert (document.author, document.date) == ("Ann Lee", "2015-03-19")
    like_a_file = make_page_pdf([page], title="Technology_Projects_v2", more=more)
    document, _ = read(tmp_path / "d.pdf", like_a_file)
    assert document.title == "De-risking custom technology projects"
    named = make_page_pdf([page], title="The Name")
    assert read(tmp_path / "b.pdf", named)[0].title == "The Name"
    plain = make_page_pdf([column(72, 700, BODY)])
    assert read(tmp_path / "c.pdf", plain)[0].title == "c.pdf"


def leaders(first: int, count: int) -> list[str]:
    names = [f"{first + n}. On lamps and oil number {first + n}" for n in range(count)]
    return [f"{name} {'.' * (90 - len(name))} {first + n}" for n, name in enumerate(names)]


def test_tables_of_contents_are_no_text(tmp_path: Path) -> None:
    wrapped = ["9. A name of a section that goes on over the", f"end of its line {'.' * 40} 9"]
    pages = [
        column(72, 720, ["Table of Contents", *leaders(1, 8), *wrapped]),
        column(72, 720, [*leaders(10, 2), "", "", *BODY]),
        column(72, 720, ["Wait ......... what? said the bear.", *BODY]),
    ]
    document, blocks = read(tmp_path / "a.pdf", make_page_pdf(pages))
    text = joined(blocks)
    assert "oil" not in text and "Contents" not in text and "goes on" not in text
    assert text.count("bears") == 2 and "Wait" in text
    assert document.skipped == (f"13 {CONTENTS.format('s')}",)


def test_contents_without_leaders_are_told_by_their_heading(tmp_path: Path) -> None:
    rows = [("Introduction", "2"), ("Lamps and oil", "4"), ("Rope", "4"), ("Bears", "11")]
    page = [Text(72, 740, "Contents", 20)]
    for n, (name, number) in enumerate(rows):
        page += [Text(72, 700 - 20 * n, name), Text(520, 700 - 20 * n, number)]
    prices = [line for n in range(4) for line in (
        Text(72, 700 - 20 * n, f"Item {n}"), Text(520, 700 - 20 * n, str(n))
    )]  # fmt: skip
    document, blocks = read(tmp_path / "a.pdf", make_page_pdf([page, prices]))
    assert joined(blocks) == "Item 0 | 0\nItem 1 | 1\nItem 2 | 2\nItem 3 | 3\n"
    assert [one.partition(" ")[2] for one in document.skipped] == [CONTENTS.format("s")]


def test_footnotes_come_after_the_paragraph_and_their_marks_are_in_place(tmp_path: Path) -> None:
    first = [
        Text(72, 700, "The ice came early that year."),
        Text(204, 705, "1", 6),
        Text(215, 700, "And with it the bears."),
        Text(72, 688, "Nobody went out alone, for the path"),
        Text(72, 120, "1 Earlier than in any other year of", 8),
        Text(72, 110, "that century.", 8),
    ]
    second = [*column(72, 700, ["was long and unmarked."]), *column(72, 660, ["Then snow fell."])]
    blocks = blocks_of(tmp_path, [first, second])
    assert joined(blocks) == (
        "The ice came early that year.[1] And with it the bears.\n"
        "Nobody went out alone, for the path\nwas long and unmarked.\n"
        "\n[1] Earlier than in any other year of\nthat century.\n\nThen snow fell.\n"
    )
    assert [block.page for block in blocks] == [1, 2, 1, 2]
    characters_lead_back(tmp_path / "a.pdf", blocks)


def test_small_print_without_a_mark_in_the_text_stays_where_it_is(tmp_path: Path) -> None:
    page = [*column(72, 700, BODY), Text(72, 120, "1 Small print of the printer's.", 8)]
    text = joined(blocks_of(tmp_path, [page, column(72, 700, ["Next."])]))
    assert text.endswith("1 Small print of the printer's.\nNext.\n")


@pytest.mark.parametrize("right", [False, True])
def test_printed_line_numbers_are_no_text(tmp_path: Path, right: bool) -> None:
    pages = []
    for page in range(2):
        lines = [f"{BODY[n % 3]}" for n in range(12)]
        numbers = column(540 if right else 40, 700, [str(12 * page + n + 1) for n in range(12)])
        rows = zip(numbers, column(72, 700, lines), strict=True)
        pages.append([line for row in rows for line in (reversed(row) if right else row)])
    document, blocks = read(tmp_path / "a.pdf", make_page_pdf(pages))
    assert joined(blocks) == ("\n".join(BODY * 4) + "\n") * 2
    assert document.skipped == ("24 line numbers (printed beside the text)",)
    characters_lead_back(tmp_path / "a.pdf", blocks)


def test_a_number_at_every_fifth_line_is_no_text(tmp_path: Path) -> None:
    lines = column(72, 720, [BODY[n % 3] for n in range(30)])
    numbers = column(40, 720, [str(n + 1) for n in range(30)])
    page = [
        part
        for n, (number, line) in enumerate(zip(numbers, lines, strict=True), 1)
        for part in ((number, line) if n % 5 == 0 else (line,))
    ]
    document, blocks = read(tmp_path / "a.pdf", make_page_pdf([page]))
    assert joined(blocks) == "\n".join(BODY * 10) + "\n"
    assert document.skipped == ("6 line numbers (printed beside the text)",)


def test_small_numbers_beside_the_lines_are_no_text(tmp_path: Path) -> None:
    lines = column(72, 720, [*[BODY[n % 3] for n in range(28)], "## 2016", "1990"])
    numbers = [Text(540, text.y - 1, str(n + 11), 5) for n, text in enumerate(lines)]
    del numbers[20]  # one that cannot be told from its line
    document, blocks = read(tmp_path / "a.pdf", make_page_pdf([[*lines, *numbers]]))
    assert document.skipped == ("29 line numbers (printed beside the text)",)
    assert "2016" in joined(blocks) and "1990" in joined(blocks)


def test_numbers_of_a_list_stay(tmp_path: Path) -> None:
    items = [f"{n}. Item of the list" for n in range(1, 13)]
    years = [f"In the year {1990 + n}" for n in range(12)]
    for lines in (items, years):
        assert joined(blocks_of(tmp_path, [column(72, 700, lines)])) == "\n".join(lines) + "\n"


def test_words_in_a_drawing_are_no_text(tmp_path: Path) -> None:
    axes = [Text(120 + 40 * n, 412, str(n)) for n in range(5)]
    page = [
        *column(72, 720, BODY),
        *axes,
        Text(200, 500, "left"),
        Text(200, 396, "Time"),
        Text(120, 360, "Figure 1: Lamps over time."),
        *column(72, 320, BODY),
    ]
    frame = "110 420 250 200 re S"
    document, blocks = read(tmp_path / "a.pdf", make_page_pdf([page], drawn=frame))
    text = joined(blocks)
    assert "left" not in text and "Time" not in text and "Figure 1: Lamps over time." in text
    assert text.count("bears") == 2
    assert document.skipped == ("3 lines of words in a figure (no running text)",)
    framed = [*column(120, 600, BODY), Text(120, 360, "Figure 1: A text in a frame.")]
    assert "bears" in joined(blocks_of(tmp_path, [framed], drawn="100 400 400 220 re S"))


def test_running_lines_in_parts_and_on_alternating_sides_are_left_out(tmp_path: Path) -> None:
    roman = ["i", "ii", "iii", "iv", "v", "vi", "vii", "viii"]
    pages = []
    for number, sign in enumerate(roman):
        head = Text(246, 760, "The Development Team" if number % 2 else "A FAQ")
        edge = Text(522 if number % 2 else 81, 760, sign)
        # a line in parts makes PDFium's lines of this page part at gaps
        rows = [Text(72, 500, "+"), Text(200, 500, BODY[0])] if number % 4 == 1 else []
        pages.append([head, edge, *column(72, 700, [*BODY, f"Page {sign} ends."]), *rows])
    feet = [[*page, Text(72, 30, f"NAME {n}/21")] for n, page in enumerate(pages, 5)]
    text = joined(blocks_of(tmp_path, feet))
    assert [text.count(word) for word in ("Team", "FAQ", "NAME")] == [1, 1, 1]  # the first alone
    assert text.count("ends.") == 8


def test_hyphens_at_line_ends_stay_where_the_document_writes_them() -> None:
    spellings = Spellings()
    spellings.see([_line("the well-known stove and kfreebsd-amd64 of root users")])
    spellings.see([_line("a long range of light houses, a lighthouse, exam-")])
    for left, right, kept in (
        ("well", "known", True),
        ("kfreebsd", "amd64", True),
        ("non", "root", True),
        ("exam", "ples", False),
        ("light", "house", False),
        ("long", "range", True),
        ("some", "users", False),
    ):
        assert spellings.has_hyphen(left, right) is kept, (left, right)


def _line(text: str) -> object:
    from drt_engine.documents.pdf.lines import Line

    return Line(text, 0, 0, 100, 0, 10)
