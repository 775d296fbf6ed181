"""Every reader: a quote is a slice of the text, and its place leads back to where it stands.

Documents are made from headings and paragraphs, written in each format, and read again.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drt_engine.documents import Block, Source, open_document
from drt_engine.documents.base import BLOCK_CHARACTERS, source_span
from tests.engine.documents.makers import Text, make_docx, make_epub, make_page_pdf, paragraph
from tests.sampling import sampled

Parts = Sequence[tuple[str, Sequence[str]]]  # headings, each with its paragraphs
WORDS = ["lamp", "oil", "Straße", "naïve", "&", "ß", "kelp", "Tromsø", "ice", "bear", "3.5", "x"]
WRAPPED = 60
_LABEL = re.compile(r"\bP\d+p\d*\b")


def _words(numbers: Sequence[int]) -> str:
    return " ".join(WORDS[number % len(WORDS)] for number in numbers)


@st.composite
def documents(draw: st.DrawFn) -> Parts:
    """A document whose headings and paragraphs each begin with a word of their own."""
    parts = []
    count = 0
    for number in range(draw(st.integers(1, 4))):
        paragraphs = []
        for _ in range(draw(st.integers(1, 4))):
            count += 1
            words = draw(st.lists(st.integers(0, len(WORDS) - 1), min_size=1, max_size=30))
            paragraphs.append(f"P{count}p {_words(words)} end")
        more = _words(draw(st.lists(st.integers(1, 3), max_size=5)))
        parts.append((f"Heading{number} {more}".strip(), paragraphs))
    return parts


def large() -> Parts:
    """Many times as long as a block."""
    return [
        (f"Heading{part}", [f"P{part}p{n} {_words(range(part, part + 60))}" for n in range(30)])
        for part in range(8)
    ]


@dataclass(frozen=True)
class Made:
    """A document in one format; `places` names what its reader can say of a place."""

    name: str
    content: bytes
    places: frozenset[str]


def _made(name: str, content: str | bytes, *places: str) -> Made:
    raw = content.encode() if isinstance(content, str) else content
    return Made(name, raw, frozenset(places))


def as_markdown(parts: Parts) -> Made:
    text = "".join(f"# {head}\n\n" + "\n\n".join(inner) + "\n\n" for head, inner in parts)
    return _made("a.md", text, "section", "line", "exact")


def as_rst(parts: Parts) -> Made:
    text = ""
    for head, inner in parts:
        text += f"{head}\n{'=' * (len(head) + 2)}\n\n" + "\n\n".join(inner) + "\n\n"
    return _made("a.rst", text, "section", "line", "exact")


def as_latex(parts: Parts) -> Made:
    text = "\\documentclass{article}\n% nothing\n\\begin{document}\n"
    for head, inner in parts:
        body = "\n\n% a comment\n".join(inner).replace("&", "\\&").replace("ß", "\\ss{}")
        text += f"\\section{{{head}}}\n".replace("&", "\\&").replace("ß", "\\ss{}") + body + "\n\n"
    return _made("a.tex", text + "\\end{document}\n", "section", "line", "held")


def as_text(parts: Parts) -> Made:
    text = "\r\n".join(line for head, inner in parts for line in (head, *inner))
    return _made("a.txt", text, "line", "exact")


def as_html(parts: Parts) -> Made:
    return _made("a.html", f"<!doctype html><title>t</title><body>{_html(parts)}", "section")


def _html(parts: Parts) -> str:
    return "".join(
        f"<h1>{escape(head)}</h1>" + "".join(f"<p>{escape(one)}</p>" for one in inner)
        for head, inner in parts
    )


def as_epub(parts: Parts) -> Made:
    chapters = {f"c{number}.xhtml": _html([part]) for number, part in enumerate(parts)}
    return _made("a.epub", make_epub(chapters, title="t"), "section")


def as_docx(parts: Parts) -> Made:
    body = "".join(
        paragraph(escape(head), style="H1") + "".join(paragraph(escape(one)) for one in inner)
        for head, inner in parts
    )
    return _made("a.docx", make_docx(body), "section")


def as_notebook(parts: Parts) -> Made:
    cells = [
        {"cell_type": "markdown", "source": f"# {head}\n\n" + "\n\n".join(inner)}
        for head, inner in parts
    ]
    return _made("a.ipynb", json.dumps({"cells": cells, "nbformat": 4}), "section")


def as_mailbox(parts: Parts) -> Made:
    text = ""
    for head, inner in parts:
        text += "From a@b.c Tue Mar  5 10:00:00 2024\nFrom: a@b.c\nContent-Type: text/plain; "
        text += f"charset=utf-8\nSubject: {head}\n\n" + "\n\n".join(inner) + "\n\n"
    return _made("a.mbox", text, "section", "line")


def as_code(parts: Parts) -> Made:
    text = "import sys\n\n"
    for head, inner in parts:
        text += f"def {head.split()[0]}():\n    if True:\n"
        text += "".join(f"        # {one}\n        pass\n\n" for one in inner)
    return _made("a.py", text, "name", "line", "exact")


def as_javascript(parts: Parts) -> Made:
    text = "import x from 'x';\n\n"
    for head, inner in parts:
        body = "".join(f"  // {one}\n  call();\n" for one in inner)
        text += f"export async function {head.split()[0]}(a, b) {{\n{body}}}\n\n"
    return _made("a.js", text, "name", "line", "exact")


def as_csv(parts: Parts) -> Made:
    out = io.StringIO()
    rows = csv.writer(out, delimiter=";")
    rows.writerow(["Chapter", "Remark", "Text"])
    rows.writerows([head, "one\ntwo", one] for head, inner in parts for one in inner)
    return _made("a.csv", out.getvalue(), "line", "held")


def as_json_lines(parts: Parts) -> Made:
    records = [{"chapter": head, "text": one} for head, inner in parts for one in inner]
    return _made("a.jsonl", "\n".join(json.dumps(record) for record in records), "row", "held")


def as_pdf(parts: Parts) -> Made:
    pages = [
        [
            Text(72, 740 - 14 * number - 3 * (number > 0), line)
            for number, line in enumerate([head, *(part for one in inner for part in wrapped(one))])
        ]
        for head, inner in parts
    ]
    return _made("a.pdf", make_page_pdf(pages), "page", "origin")


def wrapped(text: str) -> list[str]:
    """Lines of at most WRAPPED characters."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + len(word) >= WRAPPED:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


WRITERS: list[Callable[[Parts], Made]] = [
    as_markdown, as_rst, as_latex, as_text, as_html, as_epub, as_docx, as_notebook, as_mailbox,
    as_code, as_javascript, as_csv, as_json_lines, as_pdf,
]  # fmt: skip


def check(parts: Parts, made: Made, folder: Path) -> None:
    """Find each paragraph in what is read, and follow its place back."""
    path = folder / made.name
    path.write_bytes(made.content)
    blocks = list(open_document(Source.from_path(path), isolate=False).blocks)
    assert all(0 < len(block.text) <= BLOCK_CHARACTERS for block in blocks)
    starts = [0, *accumulate(len(block.text) for block in blocks)]
    text = "".join(block.text for block in blocks)
    at = 0
    for number, (head, inner) in enumerate(parts):
        for quote in inner:
            for piece in wrapped(quote) if "page" in made.places else [quote]:
                at = text.index(piece, at)
                block = next(i for i in range(len(blocks)) if starts[i + 1] > at)
                _follow(blocks[block], at - starts[block], head, number, piece, made)
                assert text[at : at + len(piece)] == piece
                at += len(piece)


def _follow(block: Block, offset: int, head: str, number: int, quote: str, made: Made) -> None:
    if "section" in made.places:
        assert (block.section or "").rpartition(" > ")[2] == head
    if "name" in made.places:
        assert block.section == head.split()[0]
    if "page" in made.places:
        assert block.page == number + 1
    if "origin" in made.places:
        assert block.origin_at(offset + 3) == (block.origin_at(offset) or 0) + 3
        assert block.origin_at(offset) is not None
    if made.places & {"exact", "held"}:
        source = made.content.decode().replace("\r\n", "\n")
        span = source_span(block.origin, offset, offset + len(quote))
        assert span is not None
        within = source[slice(*span)]
        if "exact" in made.places:
            assert within == quote
        else:
            read = _unescaped(within, made.name)
            assert quote in read and len(set(_LABEL.findall(read))) == 1  # no other paragraph's
    if made.places & {"line", "row"}:
        line = block.line_at(offset)
        assert line is not None
        lines = made.content.decode().splitlines()
        source = lines[line - 1 : line + 1 + ("," in lines[0] or ";" in lines[0])]
        first = quote.split()[0]
        assert first in "".join(source), (line, first)
        assert first in lines[line - 1] or ";" in lines[0]  # a row may take several lines


def _unescaped(source: str, name: str) -> str:
    """What stands in a piece of a source that a reader rewrites."""
    if name.endswith(".jsonl"):
        return str(json.loads(source)["text"])
    if name.endswith(".tex"):
        return source.replace("\\&", "&").replace("\\ss{}", "ß")
    return source


@pytest.mark.few(2)
@pytest.mark.parametrize("write", WRITERS)
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(parts=documents())
def test_places_lead_back(
    write: Callable[[Parts], Made], parts: Parts, tmp_path_factory: pytest.TempPathFactory
) -> None:
    _check(write, parts, tmp_path_factory)


@pytest.mark.slow
@pytest.mark.parametrize("write", WRITERS)
@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(parts=documents())
def test_places_lead_back_in_many_documents(
    write: Callable[[Parts], Made], parts: Parts, tmp_path_factory: pytest.TempPathFactory
) -> None:
    _check(write, parts, tmp_path_factory)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "write", sampled([one for one in WRITERS if one is not as_pdf], {0, 1, 2, 3, 4})
)
def test_places_lead_back_in_long_documents(
    write: Callable[[Parts], Made], tmp_path_factory: pytest.TempPathFactory
) -> None:
    _check(write, large(), tmp_path_factory)


def _check(write: Callable[[Parts], Made], parts: Parts, factory: pytest.TempPathFactory) -> None:
    if write is as_pdf:
        pytest.importorskip("pypdfium2")
    check(parts, write(parts), factory.getbasetemp())
