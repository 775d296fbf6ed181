"""A page of a PDF file as a picture, with the characters of a quote highlighted."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from drt_engine.documents import Source
from drt_engine.documents.formats import format_named
from drt_engine.documents.limits import Limits
from drt_engine.documents.pdf.picture import Picture
from drt_engine.documents.sandbox import picture
from drt_engine.errors import ConfigError, MissingExtra, UnreadableDocument
from tests.engine.documents.helpers import make_pdf
from tests.engine.documents.makers import column, make_page_pdf
from tests.engine.documents.test_hostile import laughing_pdf
from tests.tables import each_row

pytest.importorskip("pypdfium2")
LINES = ["The first line of the page.", "The notice period is thirty days.", "The last line."]
PDF = make_pdf([["A page before."], LINES])
START = len(LINES[0]) + 2 + LINES[1].index("thirty")  # PDFium ends lines with two characters


def pixels(image: Picture) -> list[bytes]:
    """The rows of an unfiltered RGB file, read without the module that wrote it."""
    stream = io.BytesIO(image.png)
    assert stream.read(8) == b"\x89PNG\r\n\x1a\n"
    data = b""
    while length := stream.read(4):
        kind, body = stream.read(4), stream.read(struct.unpack(">I", length)[0])
        assert struct.unpack(">I", stream.read(4))[0] == zlib.crc32(kind + body)
        if kind == b"IHDR":
            assert struct.unpack(">IIBB", body[:10]) == (image.width, image.height, 8, 2)
        data += body if kind == b"IDAT" else b""
    rows, size = zlib.decompress(data), 3 * image.width + 1
    assert len(rows) == size * image.height
    return [rows[at + 1 : at + size] for at in range(0, len(rows), size)]


def file_of(tmp_path: Path, content: bytes) -> Source:
    (tmp_path / "a.pdf").write_bytes(content)
    return Source.from_path(tmp_path / "a.pdf")


def test_a_page_is_drawn_with_its_quote_in_a_box(tmp_path: Path) -> None:
    image = picture.page_picture(
        file_of(tmp_path, PDF), page=2, characters=(START, START + 6), width=612
    )
    assert (image.pages, image.width, image.height) == (2, 612, 792)
    ((left, top, right, bottom),) = image.boxes
    # the text begins 72 points from the left, 720 from the bottom; lines are 14 apart
    assert 72 / 612 < left < right < 0.5 and (right - left) * 612 == pytest.approx(32, abs=8)
    assert top * 792 < 792 - 720 + 14 < bottom * 792 and (bottom - top) * 792 < 20
    rows = pixels(image)
    inside, x = rows[int(bottom * 792) - 1], int(left * 612) + 1
    assert inside[3 * x : 3 * x + 3] == b"\xff\xff\x66"  # yellow
    assert rows[2] == b"\xff" * 3 * 612  # paper
    ink = [row for row in rows if any(value < 100 for value in row[0::3])]
    assert 20 < len(ink) < 60  # three lines of text


@pytest.mark.thorough
def test_boxes_follow_a_page_that_is_turned(tmp_path: Path) -> None:
    turned = make_page_pdf([column(100, 700, ["A quote here."])], rotate=90)
    image = picture.page_picture(file_of(tmp_path, turned), page=1, characters=(2, 7), width=792)
    assert (image.width, image.height) == (792, 612)
    ((left, top, right, bottom),) = image.boxes
    assert right - left < bottom - top  # the line goes down the page
    assert left * 792 < 700 < right * 792 + 10 and 100 < top * 612 < bottom * 612 < 160


@pytest.mark.thorough
def test_a_quote_over_lines_has_a_box_for_each(tmp_path: Path) -> None:
    image = picture.page_picture(file_of(tmp_path, PDF), page=2, characters=(4, 60), width=400)
    assert len(image.boxes) == 2 and image.width == 400
    none = picture.page_picture(file_of(tmp_path, PDF), page=2, characters=(900, 950), width=400)
    assert none.boxes == ()  # a place that is not on the page


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("content", "options", "error", "sentence"),
    [
        (PDF, {"page": 3}, UnreadableDocument, "has 2 pages and no page 3"),
        (PDF, {"page": 0}, UnreadableDocument, "no page 0"),
        (PDF, {"width": 99_999}, ConfigError, "200 to 2,400"),
        (PDF[:300], {}, UnreadableDocument, "not a whole PDF"),
        (b"no pdf", {}, UnreadableDocument, "not a whole PDF"),
        (make_pdf([["a"]], encrypt=True), {"page": 1}, UnreadableDocument, "password"),
    ],
)
def test_what_cannot_be_drawn_is_a_sentence(
    tmp_path: Path, content: bytes, options: Any, error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        picture.page_picture(file_of(tmp_path, content), **{"page": 2, "width": 612} | options)


@pytest.mark.thorough
def test_a_strip_of_paper_is_drawn_narrower(tmp_path: Path) -> None:
    long = PDF.replace(b"[0 0 612 792]", b"[0 0 200 14000]")
    image = picture.page_picture(file_of(tmp_path, long), page=2, width=2400)
    assert image.width * image.height <= 12_100_000 and image.height > 20 * image.width


@pytest.mark.thorough
def test_a_page_that_would_never_end_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(picture, "_LIMITS", Limits(cpu_seconds=2, silence=20))
    with pytest.raises(UnreadableDocument):
        picture.page_picture(file_of(tmp_path, laughing_pdf()), page=1, width=2400)


def test_without_pdfium_its_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = file_of(tmp_path, PDF)
    monkeypatch.setattr(type(format_named("pdf")), "installed", False)
    with pytest.raises(MissingExtra, match="pdf"):
        picture.page_picture(source, page=1)


@each_row(
    "frame",
    [
        {},
        {"pages": 1, "width": 0, "height": 1, "boxes": []},
        {"pages": 1, "width": 10, "height": True, "boxes": []},
        {"pages": 1, "width": 10, "height": 10, "boxes": [[0, 0, 1]]},
        {"pages": 1, "width": 10, "height": 10, "boxes": [[0, 0, 1, float("nan")]]},
        {"pages": 1, "width": 10, "height": 10, "boxes": "many"},
    ],
)
def test_what_a_broken_reader_sends_is_refused(frame: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        picture._checked(frame)
