"""PDF: text by page, titles, and files that are broken, locked or scanned."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from drt_engine.documents import Block, Source, open_document
from drt_engine.documents.pdf.layout import separators
from drt_engine.documents.pdf.lines import _MARK, Line, PageText, with_letters
from drt_engine.documents.pdf.text import lay_out
from drt_engine.errors import EmptyDocument, MissingExtra, UnreadableDocument
from tests.engine.documents import samples
from tests.engine.documents.helpers import joined, make_pdf, read
from tests.engine.documents.makers import Text, column, make_page_pdf
from tests.tables import each_row

PAGES = [["The first page.", "It has two lines of exam-", "ples."], [], ["The third page."]]


def test_text_and_page_numbers(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    document, blocks = read(tmp_path / "a.pdf", make_pdf(PAGES, title="The Report"))
    assert (document.title, document.media_type) == ("The Report", "application/pdf")
    assert [(block.page, block.text) for block in blocks] == [
        (1, "The first page.\nIt has two lines of examples.\n"),
        (3, "The third page.\n"),
    ]


@each_row(
    ("title", "expected"),
    [
        ("untitled", "paper"),
        ("(FINAL) Lamps 2015 - Public.docx", "paper"),
        ("Lamp_Oil_v2021", "Lamp_Oil_v2021"),  # there is no other
        ("Non-flammable lamps", "Non-flammable lamps"),
        ("State-of-the-art lamps", "State-of-the-art lamps"),
        ("Lamps", "Lamps"),
    ],
)
def test_known_by_content_and_titled_by_file_name(
    tmp_path: Path, title: str, expected: str
) -> None:
    pytest.importorskip("pypdfium2")
    document, blocks = read(tmp_path / "paper", make_pdf([["Words."]], title=title))
    assert (document.title, joined(blocks)) == (expected, "Words.\n")


@each_row(
    ("content", "error", "sentence"),
    [
        (make_pdf(PAGES)[:300], UnreadableDocument, "is not a whole PDF file"),
        (b"%PDF-1.4\n", UnreadableDocument, "is not a whole PDF file"),
        (b"This is garbage.", UnreadableDocument, "is not a whole PDF file"),
        (b"\0\1\2" * 99, UnreadableDocument, "is not a whole PDF file"),
        (make_pdf(PAGES, encrypt=True), UnreadableDocument, "protected by a password"),
        (make_pdf([[], []]), EmptyDocument, "seems to be scanned"),
        (b"", EmptyDocument, "is empty"),
    ],
    ids=["truncated", "header", "garbage", "binary", "locked", "scanned", "empty"],
)
def test_bad_files(tmp_path: Path, content: bytes, error: type[Exception], sentence: str) -> None:
    pytest.importorskip("pypdfium2")
    with pytest.raises(error, match=sentence):
        read(tmp_path / "a.pdf", content)


def test_a_damaged_page_is_named(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    content = make_pdf([["One."], ["Two."]]).replace(b"6 0 R]", b"9 9 R]")
    with pytest.raises(UnreadableDocument, match="damaged on page 2"):
        read(tmp_path / "a.pdf", content)


def test_a_truncated_file_never_ends_silently(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    whole = make_pdf([["One."], ["Two."]])
    expected = joined(read(tmp_path / "a.pdf", whole)[1])
    for size in range(100, len(whole), 60):
        try:
            text = joined(read(tmp_path / "a.pdf", whole[:size])[1])
        except (UnreadableDocument, EmptyDocument):
            continue
        assert text == expected, size


def test_the_file_is_closed_when_reading_stops(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    (tmp_path / "a.pdf").write_bytes(make_pdf(PAGES))
    with open_document(Source.from_path(tmp_path / "a.pdf")) as document:
        assert next(document.blocks).page == 1
    assert next(document.blocks, None) is None


def test_the_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    with pytest.raises(MissingExtra) as caught:
        read(tmp_path / "a.pdf", make_pdf(PAGES))
    assert 'pip install "drt-assistant[pdf]"' in str(caught.value)


def shown(content: bytes, folder: Path) -> str:
    """The text of a PDF's pages, an empty line and a rule between them."""
    pytest.importorskip("pypdfium2")
    _, blocks = read(folder / "a.pdf", content)
    return "---\n".join(block.text for block in blocks)


def test_columns_are_read_one_after_the_other(tmp_path: Path) -> None:
    left = [f"Left line number {n}" for n in range(6)]
    right = [f"Right line number {n}" for n in range(6)]
    both = "\n".join(left) + "\n\n" + "\n".join(right) + "\n"
    beside = column(60, 600, left) + column(320, 600, right)
    pairs = zip(column(60, 600, left), column(320, 600, right), strict=True)
    in_rows = [line for pair in pairs for line in pair]
    from_below = column(320, 600, right) + column(60, 600, left)
    for page in (beside, in_rows, from_below):
        assert shown(make_page_pdf([page]), tmp_path) == both


def test_three_columns_between_full_lines(tmp_path: Path) -> None:
    wide = "A line that runs over the whole width of the page, from one margin to the other one."
    texts = [[f"{name} column line {n}" for n in range(5)] for name in ("First", "Second", "Third")]
    page = [Text(60, 700, wide), Text(60, 500, wide)]
    for x, lines in zip((60, 230, 400), texts, strict=True):
        page += column(x, 670, lines)
    expected = [wide, *("\n".join(lines) for lines in texts), wide]
    assert shown(make_page_pdf([page]), tmp_path) == "\n\n".join(expected) + "\n"


def test_a_table_is_read_row_by_row(tmp_path: Path) -> None:
    rows = [("Item", "Price"), ("Lamp oil", "3.50"), ("Biscuit", "12.00"), ("Rope", "4")]
    page = [
        Text(72 + 220 * x, 700 - 14 * y, cell)
        for y, row in enumerate(rows)
        for x, cell in enumerate(row)
    ]
    text = "".join(f"{item} | {price}\n" for item, price in rows)
    assert shown(make_page_pdf([page]), tmp_path) == text


def test_what_jumps_back_up_is_put_in_its_place(tmp_path: Path) -> None:
    page = [Text(72, 400, "Second."), Text(72, 380, "Third."), Text(72, 600, "First.")]
    assert shown(make_page_pdf([page]), tmp_path) == "First.\n\nSecond.\nThird.\n"


def body(page: int) -> list[Text]:
    return column(72, 650, [f"Text of page {page}, which is longer than a header.", "It goes on."])


def test_headers_footers_and_page_numbers_are_left_out(tmp_path: Path) -> None:
    headers = ["The left header", "The right header"]
    pages = [
        [
            Text(72, 760, headers[page % 2]),
            *body(page),
            Text(300 if page % 2 else 72, 30, f"- {page + 17} -"),
        ]
        for page in range(8)
    ]
    text = shown(make_page_pdf(pages), tmp_path)
    assert [text.count(header) for header in headers] == [1, 1]  # where they are first seen
    assert text.startswith("Text of page 0") and "- " not in text
    assert text.count("Text of page") == 8


@each_row(
    "line",
    ["Question {}", "{} bottles", "Section {}. Of ice", "A line on every page"],
    ids=["counting", "number first", "heading", "repeated"],
)
def test_lines_of_the_text_are_no_headers(line: str, tmp_path: Path) -> None:
    pages = [
        column(72, 730, [line.format(page), f"The text of page {page} follows at once.", "End."])
        for page in range(1, 7)
    ]
    text = shown(make_page_pdf(pages), tmp_path)
    for page in range(1, 7):
        assert line.format(page) in text


def test_pages_of_one_line_keep_it(tmp_path: Path) -> None:
    text = shown(make_page_pdf([[Text(72, 760, "CONFIDENTIAL")] for _ in range(5)]), tmp_path)
    assert text.count("CONFIDENTIAL") == 5


def test_a_large_heading_over_a_gap_is_no_header(tmp_path: Path) -> None:
    pages = [[Text(72, 750, f"Lesson {page}", 20), *body(page)] for page in range(1, 7)]
    assert shown(make_page_pdf(pages), tmp_path).count("Lesson") == 6


def test_words_are_joined_over_lines_columns_and_pages(tmp_path: Path) -> None:
    lines = ["The well-known exam-", "ple of a well-", "known Anglo-", "Saxon pre-"]
    first = column(72, 700, lines)
    text = shown(make_page_pdf([first, column(72, 700, ["fix and more."])]), tmp_path)
    assert text == "The well-known example of a well-known Anglo-Saxon pre---\nfix and more.\n"


def test_bookmarks_are_sections(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    pages = [
        column(72, 700, ["Before.", "1 Camp", "We arrived.", "1.1 Tents", "They leak."]),
        column(72, 700, ["Still tents.", "Far below this line"]),
        column(72, 700, ["Words."]),
    ]
    marks = [(0, "Camp"), (0, "Tents"), (2, "Not on the page")]
    _, blocks = read(tmp_path / "a.pdf", make_page_pdf(pages, bookmarks=marks))
    assert [(block.page, block.section, block.text) for block in blocks] == [
        (1, None, "Before.\n"),
        (1, "1 Camp", "1 Camp\nWe arrived.\n"),
        (1, "1.1 Tents", "1.1 Tents\nThey leak.\n"),
        (2, "1.1 Tents", "Still tents.\nFar below this line\n"),
        (3, "Not on the page", "Words.\n"),
    ]


@each_row("name", ["journal.pdf", "report.pdf", "landscape.pdf"])
def test_every_character_leads_back_to_the_page(name: str, tmp_path: Path) -> None:
    library = pytest.importorskip("pypdfium2")
    raw = pytest.importorskip("pypdfium2.raw")
    (tmp_path / name).write_bytes(samples.PDFS[name])
    _, blocks = read(tmp_path / name)
    document = library.PdfDocument(tmp_path / name)
    checked = 0
    for block in blocks:
        page = document[(block.page or 0) - 1].get_textpage()
        for offset, character in enumerate(block.text):
            if not character.isspace() and character != "|":  # written between cells
                index = block.origin_at(offset)
                assert index is not None
                found = chr(raw.FPDFText_GetUnicode(page, index))
                assert found == character or (character == "-" and found in "\x02\ufffe"), offset
                checked += 1
    document.close()
    assert checked > 50


@each_row(
    ("codes", "letters"),
    [
        (
            "modi\x1ced o\x1eces sti\x1b to \x1ct the \x1ductuation",
            "modi\ufb01ed o\ufb03ces sti\ufb00 to \ufb01t the \ufb02uctuation",
        ),
        ("e\x0ecient de\x0cne", "e\ufb03cient de\ufb01ne"),
        ("know as \x10dating\x11, 61:821\x15856", "know as \u201cdating\u201d, 61:821\u2013856"),
        ("List:\r\n\uf0b7 lamps\r\n\uf0d8 oil", "List:\r\n\u2022 lamps\r\n\u2022 oil"),
        ("no \uf0b7 item, \uf0b7none", "no \uf0b7 item, \uf0b7none"),
        ("where \x1c is \x0et, x\x1b2\r\nline", "where \x1c is \x0et, x\x1b2\r\nline"),
    ],
)
def test_codes_of_fonts_without_names_are_letters_outside_formulas(
    codes: str, letters: str
) -> None:
    assert with_letters(codes) == letters
    assert len(with_letters(codes)) == len(codes)


def test_a_label_is_in_the_row_whose_foot_it_shares() -> None:
    low = Line("a.", 0, 136, 143, 449.0, 454.0)
    text = Line("This is the first", 2, 163, 518, 449.1, 457.4)
    below = Line("b.", 20, 136, 143, 430.0, 438.4)
    assert separators([low, text, below])[0] == " "
    assert "\n" in separators([text, below])[0]


def test_heights_that_are_those_of_letters_part_no_sentence() -> None:
    tall = [Line("Lamps of the quay", n, 90, 400, 700 - 15 * n, 708 - 15 * n) for n in range(12)]
    larger = Line("Oil", 99, 90, 140, 700 - 15 * 12, 711 - 15 * 12)
    assert separators([*tall, larger])[-1] == "\n\n"
    for number, line in enumerate(tall):
        line.height = 7.4 + number / 10
    assert set(separators([*tall, larger])) == {"\n"}


@each_row("bullet", ["\u2022 ", "\uf0b7\t", "(a) "])
def test_a_bullet_of_another_font_makes_its_line_no_higher(bullet: str) -> None:
    page = object.__new__(PageText)
    page._text, page._same = f"{bullet}Lamps are lit\r\nand seen", True

    def measure(index: int) -> tuple[float, float, float, float]:
        low, high = (-3, 13) if not index and bullet[0] != "(" else (0, 10)
        return 5.0 * index, low, 5.0 * index + 5, high

    page._measure = measure  # type: ignore[method-assign]
    first, second = page.lines()
    assert (first.y0, first.y1, first.x0) == (0, 10, 0)
    assert first.height == second.height


@each_row("text", ["(Lamps are lit", "\u201cLamps\u201d are lit", "Lamps [8]", "(\u201coil\u201d)"])
def test_a_bracket_or_quotation_mark_makes_its_line_no_higher(text: str) -> None:
    page = object.__new__(PageText)
    page._text, page._same = text, True

    def measure(index: int) -> tuple[float, float, float, float]:
        low, high = (0, 10) if text[index].isalnum() else (-3, 13)
        return 5.0 * index, low, 5.0 * index + 5, high

    page._measure = measure  # type: ignore[method-assign]
    (line,) = page.lines()
    assert (line.y0, line.y1, line.x0, line.x1) == (0, 10, 0, 5 * len(text))


def test_the_size_of_a_line_is_that_of_its_first_letter() -> None:
    page = object.__new__(PageText)
    page._text, page._same = "(M, v) times x\u2212", True

    def measure(index: int) -> tuple[float, float, float, float]:
        low, high = (7, 14) if index == len(page._text) - 1 else (0, 10)  # raised
        return 5.0 * index, low, 5.0 * index + 5, high

    page._measure = measure  # type: ignore[method-assign]
    (line,) = page.lines()
    assert (line.height, line.size) == (14, 10)


def test_numbers_of_sections_are_no_marks_of_footnotes() -> None:
    marks = [match[1] for match in _MARK.finditer("in section 0.2.1, of lamps.3 The oil4 burns5.")]
    assert marks == ["3", "4", "5"]


def test_ligatures_are_spelt_out_and_strays_dropped() -> None:
    line = Line("of\ufb01ce\x01 \ud800x\ufb03", 10, 0, 90, 0, 10)
    page = lay_out([[line]])
    assert page.text == "office \ufffdxffi"
    origin = Block(page.text, origin=tuple(page.origin))
    assert [origin.origin_at(at) for at in (0, 2, 4, 6, 7, 8)] == [10, 12, 13, 16, 17, 18]
    wide = Line("Deli\u200bvery\u2060: now", 0, 0, 90, 0, 10)  # characters without a width
    assert lay_out([[wide]]).text == "Delivery: now"


@pytest.mark.slow
def test_speed_and_memory_of_three_thousand_pages(tmp_path: Path) -> None:
    """300 pages a second on a core of its own; here judged beside PDFium's bare text."""
    library = pytest.importorskip("pypdfium2")
    words = "The ice came early that year and with it the bears, so that nobody went out alone."
    lines = [f"{words[: 70 + n % 12]}" for n in range(46)]
    page = [Text(72, 760, "A header of the book"), *column(72, 730, lines, pitch=14)]
    path = tmp_path / "a.pdf"
    path.write_bytes(make_page_pdf([[*page, Text(300, 40, str(n))] for n in range(3000)]))
    code = (
        "import resource, sys, time\n"
        "from drt_engine.documents import Source, open_document\n"
        "source = Source.from_path(sys.argv[1])\n"
        "pages = {block.page for block in open_document(source, isolate=False).blocks}\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(len(pages), used.ru_utime + used.ru_stime, used.ru_maxrss // 1024)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
        capture_output=True,
        text=True,
        check=True,
    )
    pages, seconds, megabytes = ended.stdout.split()
    assert int(pages) == 3000 and int(megabytes) < 500
    started = time.process_time()
    document = library.PdfDocument(path)
    for number in range(300):
        document[number].get_textpage().get_text_range()
    document.close()
    bare = (time.process_time() - started) * 10
    assert float(seconds) < 6 * bare, (seconds, bare)
