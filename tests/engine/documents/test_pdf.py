"""PDF: text by page, titles, and files that are broken, locked or scanned."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from drt_engine.documents import Source, open_document
from drt_engine.documents.pdf import clean_page
from drt_engine.errors import EmptyDocument, MissingExtra, UnreadableDocument
from tests.engine.documents.helpers import joined, make_pdf, read

PAGES = [["The first page.", "It has two lines of exam-", "ples."], [], ["The third page."]]


def test_text_and_page_numbers(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    document, blocks = read(tmp_path / "a.pdf", make_pdf(PAGES, title="The Report"))
    assert (document.title, document.media_type) == ("The Report", "application/pdf")
    assert [(block.page, block.text) for block in blocks] == [
        (1, "The first page.\nIt has two lines of examples.\n"),
        (3, "The third page.\n"),
    ]


def test_known_by_content_and_titled_by_file_name(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    document, blocks = read(tmp_path / "paper", make_pdf([["Words."]], title="untitled"))
    assert (document.title, joined(blocks)) == ("paper", "Words.\n")


@pytest.mark.parametrize(
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


def test_stray_characters_of_pages() -> None:
    assert clean_page("exam\ufffeple well\x02Known\r\nend\ufffe\0") == "example well-Known\nend-"
    assert clean_page("\ud83d\ude00 \ud800") == "\U0001f600 \ufffd"
