"""Pages that are pictures, and files that are: their words are recognised in the confined process.

By default a stand-in of RapidOCR reads grey rectangles; the real one is tested where it is there.
"""

from __future__ import annotations

import importlib.util
import io
import textwrap
from pathlib import Path

import pytest

from drt_engine.documents import Source, expand_paths, open_document
from drt_engine.documents.formats import format_named
from drt_engine.documents.recognition import RECOGNISED
from drt_engine.documents.sandbox.picture import page_picture
from drt_engine.errors import EmptyDocument, MissingExtra, UnreadableDocument
from tests.engine.documents.helpers import make_pdf

pdfium = pytest.importorskip("pypdfium2")
image_library = pytest.importorskip("PIL.Image")

# What RapidOCR returns, for a picture with at most one rectangle of an even grey: a line there.
STAND_IN = """
from types import SimpleNamespace
import numpy
class RapidOCR:
    def __init__(self, params):
        assert params["EngineConfig.onnxruntime.intra_op_num_threads"] == 1
    def __call__(self, pixels):
        assert pixels.dtype == numpy.uint8 and pixels.shape[2] == 3
        ys, xs = numpy.nonzero(pixels[:, :, 0] < 250)
        if not len(ys):
            return SimpleNamespace(boxes=None, txts=None, scores=None)
        left, right, top, bottom = xs.min(), xs.max() + 1, ys.min(), ys.max() + 1
        grey = round(int(pixels[(top + bottom) // 2, (left + right) // 2, 0]) / 10) * 10
        box = [[left, top], [right, top], [right, bottom], [left, bottom]]
        unsure = [[0, 0], [9, 0], [9, 9], [0, 9]]
        texts = (f"A rectangle of grey {grey} is here.", "unsure")
        return SimpleNamespace(boxes=[box, unsure], txts=texts, scores=(0.98, 0.2))
"""
NO_OPENCV = """
FONT_HERSHEY_SIMPLEX = 0
def setNumThreads(number): assert number == 0
def putText(picture, *rest): picture[20:30, 20:90] = 0
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "packages"
    for name, code in (("rapidocr", STAND_IN), ("cv2", NO_OPENCV)):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(textwrap.dedent(code))
    monkeypatch.syspath_prepend(folder)
    importlib.invalidate_caches()


def picture(grey: int) -> io.BytesIO:
    """A page of 612 by 792 pixels with a rectangle, 20 high, 72 from the left and the top."""
    image = image_library.new("L", (612, 792), 255)
    image.paste(grey, (72, 72, 472, 92))
    data = io.BytesIO()
    image.save(data, "JPEG", quality=95)
    data.seek(0)
    return data


def scanned(tmp_path: Path, *pages: int | str | None) -> Source:
    """A PDF of pages that are pictures of a grey, have a line of text, or are empty."""
    document = pdfium.PdfDocument.new()
    for page in pages:
        if isinstance(page, str):
            document.import_pages(pdfium.PdfDocument(make_pdf([[page]])))
            continue
        new = document.new_page(612, 792)
        if page is not None:
            image = pdfium.PdfImage.new(document)
            image.load_jpeg(picture(page), inline=True)
            image.set_matrix(pdfium.PdfMatrix().scale(612, 792))
            new.insert_obj(image)
            new.gen_content()
    document.save(tmp_path / "scan.pdf")
    return Source.from_path(tmp_path / "scan.pdf")


def read(source: Source) -> tuple[list[tuple[int | None, str]], tuple[str, ...]]:
    """Return the paragraphs with their pages, and what was passed over."""
    document = open_document(source)
    parts = [
        (block.page, text)
        for block in document.blocks
        for text in block.text.split("\n")
        if text.strip()
    ]
    return parts, document.skipped


@pytest.mark.usefixtures("stand_in")
def test_words_in_pictures_are_recognised(tmp_path: Path) -> None:
    parts, skipped = read(scanned(tmp_path, 40, None, 120))
    assert parts == [
        (1, "A rectangle of grey 40 is here."),
        (3, "A rectangle of grey 120 is here."),
    ]
    assert (
        skipped[0] == "2 pictures of a page (recognised words alone are read, which may be wrong)"
    )


@pytest.mark.thorough
@pytest.mark.usefixtures("stand_in")
def test_pages_of_both_kinds_keep_their_order(tmp_path: Path) -> None:
    # Several pages have been sent before the picture is met, and the file is read again.
    lines = [f"Page {n} of the report has {n * 7} words on it." for n in range(1, 13)]
    parts, skipped = read(scanned(tmp_path, *lines[:10], 80, *lines[10:]))
    expected = [*lines[:10], "A rectangle of grey 80 is here.", *lines[10:]]
    assert parts == list(enumerate(expected, 1))
    assert len(skipped) == 1


@pytest.mark.thorough
def test_without_the_extra_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "")
    if importlib.util.find_spec("rapidocr") is not None:
        pytest.skip("RapidOCR is installed")
    with pytest.raises(EmptyDocument, match=r'scanned; .*pip install "drt-assistant\[ocr\]"'):
        open_document(scanned(tmp_path, 40))
    parts, skipped = read(scanned(tmp_path, 40, "A line of text."))
    assert parts == [(2, "A line of text.")]
    assert skipped == ('page (no text; a scanned page needs the extra "ocr")',)
    (tmp_path / "a.jpg").write_bytes(picture(40).getvalue())
    with pytest.raises(MissingExtra, match=r"drt-assistant\[ocr\]"):
        open_document(Source.from_path(tmp_path / "a.jpg"))


@pytest.mark.thorough
@pytest.mark.usefixtures("stand_in")
def test_recognised_characters_are_drawn_where_they_are(tmp_path: Path) -> None:
    source = scanned(tmp_path, "A line of text.", 60)
    start = len("A rectangle of ")
    image = page_picture(source, page=2, characters=(start, start + len("grey 60")), width=612)
    ((left, top, right, bottom),) = image.boxes
    step = 400 / len("A rectangle of grey 60 is here.")
    assert left * 612 == pytest.approx(72 + step * start, abs=2)
    assert right * 612 == pytest.approx(72 + step * (start + 7), abs=2)
    assert (top * 792, bottom * 792) == pytest.approx((72, 92), abs=2)


@pytest.mark.thorough
@pytest.mark.usefixtures("stand_in")
def test_pictures_are_read_where_they_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "letter.jpg").write_bytes(picture(40).getvalue())
    (folder / "letter.txt").write_text("The letter as text.")
    found = expand_paths([str(folder)])
    assert [source.file_name for source in found if isinstance(source, Source)] == ["letter.txt"]
    assert found.notes.skipped == ("picture (to have its words recognised, name it)",)
    named = expand_paths([str(folder / "*.jpg"), str(folder / "letter.jpg")])
    sources = [source for source in named if isinstance(source, Source)]
    assert [source.file_name for source in sources] == ["letter.jpg"] * 2
    assert read(sources[0])[0] == [(None, "A rectangle of grey 40 is here.")]


@pytest.mark.thorough
@pytest.mark.usefixtures("stand_in")
def test_each_picture_of_a_file_is_a_page(tmp_path: Path) -> None:
    first, second = (image_library.open(picture(grey)) for grey in (30, 200))
    first.save(tmp_path / "fax.tiff", save_all=True, append_images=[second])
    parts, skipped = read(Source.from_path(tmp_path / "fax.tiff"))
    assert [page for page, _ in parts] == [1, 2] and "grey 200" in parts[1][1]
    assert skipped == (f"2 pictures ({RECOGNISED})",)


@pytest.mark.thorough
@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        (picture(40).getvalue()[:900], UnreadableDocument, "not a whole picture"),
        (b"\x89PNG\r\n\x1a\nno picture at all", UnreadableDocument, "not a whole picture"),
        (picture(255).getvalue(), EmptyDocument, "no words were recognised"),
    ],
)
def test_what_is_no_picture_of_words_is_a_sentence(
    tmp_path: Path, content: bytes, error: type[Exception], words: str
) -> None:
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(error, match=words):
        open_document(Source.from_path(tmp_path / "a.png"))


def test_pictures_are_known_by_their_bytes() -> None:
    reader = format_named("picture").load()
    assert reader.recognises(picture(40).read(100)) and not reader.recognises(b"%PDF-1.7")


@pytest.mark.slow
def test_printed_words_are_read_right(tmp_path: Path) -> None:
    pytest.importorskip("rapidocr")
    lines = ["The notice period is thirty days.", "The rent is 1,250 crowns a month."]
    with pdfium.PdfDocument(make_pdf([lines])) as pdf:
        pdf[0].render(scale=2).to_pil().save(tmp_path / "a.png")
    assert [text for _, text in read(Source.from_path(tmp_path / "a.png"))[0]] == lines
