"""Documents made to do harm, or made wrong: each ends in a sentence that says what was seen."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from drt_engine.documents import Source, open_document
from drt_engine.documents.formats import format_named
from drt_engine.documents.sandbox.process import Limits, read_isolated
from drt_engine.errors import EmptyDocument, UnreadableDocument
from tests.engine.documents.helpers import assemble_pdf, joined, read
from tests.engine.documents.makers import (
    WORD,
    make_docx,
    make_epub,
    make_odt,
    make_zip,
    paragraph,
)
from tests.sampling import sampled
from tests.tables import each_row

LAUGHS = (
    '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    f'<w:document xmlns:w="{WORD}"><w:body><w:p><w:r><w:t>&b;</w:t></w:r></w:p></w:body>'
    "</w:document>"
)
OUTSIDE = LAUGHS.replace('"ha"', 'SYSTEM "file:///etc/passwd"')
DEEP = f'<w:document xmlns:w="{WORD}">' + "<w:p>" * 1000
LOCKED = (
    '<encryption><EncryptedData><CipherData><CipherReference URI="OEBPS/text/a.xhtml"/>'
    "</CipherData></EncryptedData></encryption>"
)
BOOK = {"a.xhtml": "<p>Text.</p>"}
CELLS = {"cells": [{"cell_type": "markdown", "source": " \n"}]}


@cache
def bomb() -> bytes:
    return make_zip({"word/document.xml": b" " * 24_000_000})


@each_row(
    ("name", "content", "sentence"),
    [
        ("a.docx", make_docx("", {"document.xml": LAUGHS}), "it declares entities"),
        ("a.docx", make_docx("", {"document.xml": OUTSIDE}), "it declares entities"),
        ("a.docx", make_docx("", {"document.xml": DEEP}), "nested more than 256 deep"),
        ("a.docx", make_docx("", {"document.xml": "<a><b></a>"}), "broken XML"),
        ("a.docx", make_docx("", {"styles.xml": "<a"}), "broken XML"),
        ("a.docx", bomb, "unpacks to far too much"),
        ("a.docx", make_zip({"other.xml": "x"}), "holds no Word document"),
        ("a.docx", b"\xd0\xcf\x11\xe0" + b"\0" * 600, "in Word's old format"),
        ("a.docx", b"PK\x03\x04 and nothing more", "is not a whole Word file"),
        ("a.docx", b"no zip at all", "is not a whole Word file (its directory is missing"),
        ("a.docx", make_docx(paragraph("Words."))[:-40], "so its end is cut off"),
        ("a.docx", make_zip({"word/document.xml": "<a/>"})[20:], "or its packed data is broken"),
        ("a.odt", make_odt("", {"content.xml": LAUGHS}), "it declares entities"),
        ("a.odt", make_odt("", {"content.xml": DEEP}), "nested more than 256 deep"),
        ("a.odt", make_odt("", {"styles.xml": "<a"}), "broken XML"),
        ("a.odt", make_zip({"other.xml": "x"}), "holds no OpenDocument text"),
        ("a.odt", make_odt("", {"META-INF/manifest.xml": "encryption-data"}), "by a password"),
        ("a.odt", b"no zip at all", "is not a whole OpenDocument file"),
        ("a.epub", make_zip({"mimetype": "application/epub+zip"}), "no META-INF/container.xml"),
        ("a.epub", make_epub(BOOK, extra={"META-INF/container.xml": "<a/>"}), "no package"),
        ("a.epub", make_epub(BOOK, extra={"META-INF/encryption.xml": LOCKED}), "locked by its"),
        ("a.ipynb", "[1]", "no JSON object"),
        ("a.ipynb", '{"cells": 3}', "no list of cells"),
        ("a.ipynb", '{"cells": [', "is not a whole notebook"),
        ("a.ipynb", "[" * 200_000, "is not a whole notebook"),
        ("a.csv", 'a,b\n1,"' + "x" * 200_000, "a quote that is never closed"),
        ("a.csv", "a,b\n" + "x" * 1_200_000, "a line of more than 1 MB"),
        ("a.eml", "Hello there,\n\nthis is no message.\n", "is no e-mail"),
    ],
)
def test_a_sentence_for_each(
    name: str, content: bytes | str | Callable[[], bytes], sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    content = content() if callable(content) else content
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(UnreadableDocument) as caught:
        list(open_document(Source.from_path(path), isolate=False).blocks)
    assert sentence in str(caught.value) and str(caught.value).startswith(f"{path} ")
    assert str(caught.value).isprintable()


@each_row(
    ("name", "content"),
    [
        ("a.docx", make_docx(paragraph(" "))),
        ("a.odt", make_odt("<text:p> </text:p>")),
        ("a.epub", make_epub({"a.xhtml": "<p> </p>"})),
        ("a.ipynb", json.dumps(CELLS)),
        ("a.tex", "\\documentclass{article}\n\\begin{document}\n% only this\n\\end{document}\n"),
        ("a.mbox", "From a@b Tue Mar  5 10:00:00 2024\n\n"),
        ("a.csv", " \n \n"),
    ],
)
def test_documents_without_words_are_empty(name: str, content: bytes | str, tmp_path: Path) -> None:
    with pytest.raises(EmptyDocument):
        read(tmp_path / name, content)


def test_a_broken_chapter_stops_no_other(tmp_path: Path) -> None:
    chapters = {"a.xhtml": "<p>First.</p>", "b.xhtml": "\0\1\2" * 90, "c.xhtml": "<p>Third.</p>"}
    document, blocks = read(tmp_path / "a.epub", make_epub(chapters))
    assert joined(blocks) == "First.\n\nThird.\n"
    assert any("b.xhtml" in one for one in document.skipped)


def test_lists_of_a_word_file_may_lie(tmp_path: Path) -> None:
    numbering = (
        "<w:numbering SPACE><w:abstractNum w:abstractNumId='0'><w:lvl w:ilvl='0'>"
        "<w:start w:val='999999'/><w:numFmt w:val='upperRoman'/><w:lvlText w:val='%1%9%0.'/>"
        "</w:lvl></w:abstractNum><w:num w:numId='1'><w:abstractNumId w:val='0'/></w:num>"
        "</w:numbering>"
    )
    styles = (
        "<w:styles SPACE><w:style w:styleId='A'><w:basedOn w:val='B'/></w:style>"
        "<w:style w:styleId='B'><w:basedOn w:val='A'/></w:style></w:styles>"
    )
    body = paragraph("One", style="A", list_id=1, level=77) + paragraph("Two", list_id=1)
    parts = {"numbering.xml": numbering, "styles.xml": styles}
    assert joined(read(tmp_path / "a.docx", make_docx(body, parts))[1]).count("\n") >= 2


def test_deep_mail_ends(tmp_path: Path) -> None:
    content = "Subject: inner\n\nThe end.\n"
    for depth in range(40):
        content = f"Subject: {depth}\nContent-Type: message/rfc822\n\n{content}"
    document, blocks = read(tmp_path / "a.eml", content)
    assert "more than 8 messages deep" in document.skipped[0]
    assert joined(blocks).startswith("Subject: 39\n")


def test_deep_records_are_flat_or_as_they_stand(tmp_path: Path) -> None:
    deep = "[" * 5000 + "]" * 5000
    content = f'{{"a": {{"b": 1}}}}\n{deep}\n{{"a": {"9" * 5000}}}\n{{"half": "\\ud83d"}}\n'
    document, blocks = read(tmp_path / "a.jsonl", content)
    lines = joined(blocks).splitlines()
    assert lines[0] == "a.b: 1" and deep in lines and lines[-1] == "half: ?"
    assert document.skipped == ("2 lines (no JSON; read as written)",)


def test_code_that_is_none_is_read_whole(tmp_path: Path) -> None:
    for content in ("def f(:\n  x = (((\n", "class A:\n\tx\n  y\n", '"""open\ndef f(): 1\n'):
        assert joined(read(tmp_path / "a.py", content)[1]) == content


def laughing_pdf() -> bytes:
    """A page that draws a form of ten forms of ten forms, and so on, with a word at the end."""
    resources = "/Resources << /Font << /F1 3 0 R >> /XObject << /X {} 0 R >> >>"
    draws = "/X Do " * 10
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 5 0 R "
        f"{resources.format(6)} >>",
        f"<< /Length {len(draws)} >>\nstream\n{draws}\nendstream",
    ]
    for number in range(6, 16):
        inner = draws if number < 15 else "BT /F1 9 Tf 9 9 Td (ha) Tj ET"
        objects.append(
            f"<< /Type /XObject /Subtype /Form /BBox [0 0 612 792] {resources.format(number + 1)} "
            f"/Length {len(inner)} >>\nstream\n{inner}\nendstream"
        )
    return assemble_pdf(objects, "")


@pytest.mark.thorough
def test_a_pdf_that_would_never_end_is_ended(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    (tmp_path / "a.pdf").write_bytes(laughing_pdf())
    limits = Limits(cpu_seconds=1, memory_bytes=1 << 29)
    with pytest.raises(UnreadableDocument, match="1 s of computing|512 MB|crashed"):
        read_isolated(format_named("pdf"), Source.from_path(tmp_path / "a.pdf"), limits)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "name", sampled(["laughs.docx", "bomb.docx", "deep.html"], {0, 1}, thorough={2})
)
def test_the_child_ends_in_a_sentence_or_in_text(name: str, tmp_path: Path) -> None:
    content = {
        "laughs.docx": make_docx("", {"document.xml": LAUGHS}),
        "bomb.docx": bomb(),
        "deep.html": b"<div>" * 20_000 + b"words",
    }[name]
    (tmp_path / name).write_bytes(content)
    source = Source.from_path(tmp_path / name)
    if name == "deep.html":
        assert joined(list(open_document(source).blocks)) == "words\n"
        return
    with pytest.raises(UnreadableDocument, match="entities|far too much"):
        open_document(source)
