"""Answers for other programs: whole, harmless, and without the folders of this machine."""

from __future__ import annotations

import html.parser
import json
import re
from pathlib import Path
from typing import Any

import pytest

from drt import (
    Answer,
    Assistant,
    Citation,
    ConfigError,
    Turn,
    WrittenAnswer,
    WrittenSentence,
    export_answer,
)
from drt._export import FORMATS
from tests.sdk.fakes import FakeEngine
from tests.tables import each_row

QUOTE = "thirty days"
SENTENCE = "The notice period is thirty days, 100% & no {more}."
EVIL = "<script>alert('x')</script> [[link]] **bold** ]] | `code`"


def cited(**values: Any) -> Citation:
    known = {"document": "0" * 16, "title": "Handbook", "source": "/home/ann/secret/handbook.pdf"}
    known |= {"start": 21, "end": 32, "quote": QUOTE, "page": 3, "section": None}
    return Citation(**{**known, "probability": 0.5, "context": SENTENCE, **values})


def answered(*citations: Citation, **values: Any) -> Answer:
    known: dict[str, Any] = {"text": QUOTE, "found": True, "confidence": 0.9, "mode": "quote"}
    known |= {"tokens_read": 1, "seconds": 1.0, "model": "m", "question": "How long is it?"}
    known |= {"state": "answer", "quote_probability": 0.87}
    return Answer(citations=citations or (cited(),), **{**known, **values})


class Tags(html.parser.HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@each_row("format", FORMATS)
def test_no_format_names_a_folder_or_lets_a_document_write_markup(format: Any) -> None:
    hostile = cited(quote=EVIL, context=f"Before {EVIL} after.", title=EVIL, section=EVIL)
    text = export_answer(answered(hostile, question=EVIL), format)
    assert "/home" not in text and (format == "markdown" or "handbook.pdf" in text)
    if format == "html":
        assert {"script", "b", "a"}.isdisjoint(Tags(text).tags) and EVIL in Tags(text).text
    if format in ("markdown", "obsidian"):
        assert "<script>" not in text and "[[link]]" not in text
    if format == "obsidian":
        assert re.findall(r"\[\[(.*?)\]\]", text) == [
            "handbook.pdf#page=3|" + label
            for label in ["script alert('x') /script link bold code , page 3"]
        ]


def test_a_page_needs_nothing_else_and_marks_the_quote() -> None:
    page = export_answer(answered(), "html")
    assert "<mark>thirty days</mark>, 100% &amp; no {more}." in page
    assert "Handbook, page 3" in page and "87%" in page and "http://" not in page
    assert not re.search(r"(src|href)=", page)
    likely = export_answer(answered(found=False, state="likely", text=""), "html")
    assert "probably says it here" in likely


def test_lines_of_a_pdf_are_joined_in_a_page() -> None:
    lines = "A line that ends where its column does,\nand goes on; thirty days.\nAnother one."
    page = export_answer(answered(cited(context=lines)), "html")
    assert "does, and goes on; <mark>thirty days</mark>.\nAnother" in page


def test_a_note_links_to_the_page_and_to_the_heading() -> None:
    notes = cited(source="/n/Notes.md", title="Notes", page=None, section="Notes > Leave")
    note = export_answer(answered(cited(), notes), "obsidian")
    assert "> [!quote] [[handbook.pdf#page=3|Handbook, page 3]]" in note
    assert "> The notice period is **thirty days**, 100%" in note
    assert "[[Notes#Leave|Notes]]" in note


def test_entries_are_one_for_each_document() -> None:
    citations = (cited(), cited(page=4, quote="the keeper"), cited(document="1" * 16, page=None))
    items = json.loads(export_answer(answered(*citations), "csl-json"))
    assert [item["id"] for item in items] == ["handbook", "handbook-2"]
    assert items[0]["note"] == 'page 3: "thirty days"; page 4: "the keeper"'
    assert items[1]["note"] == '"thirty days"' and "author" not in items[0]
    bibtex = export_answer(answered(cited(title="A_b {c} 100%")), "bibtex")
    assert r"title = {{A\_b \{c\} 100\%}}" in bibtex
    assert bibtex.startswith("@misc{ab,\n") and bibtex.count("{") == bibtex.count("}")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    from drt import _engine

    fake = FakeEngine()
    fake.install(lambda name, value: monkeypatch.setitem(vars(_engine), name, value))
    return fake


def test_the_library_adds_author_date_and_the_text_around(
    engine: FakeEngine, tmp_path: Path
) -> None:
    file = tmp_path / "note.md"
    file.write_text(
        "---\ntitle: Leave\nauthor: Ann Lée\ndate: 2021-03-04\n---\n"
        "Some words before. The notice period is thirty days. Some words after.\n",
        encoding="utf-8",
    )
    with Assistant(tmp_path / "library") as assistant:
        document = assistant.ingest(file)
        session = assistant.session("talk")
        answer = session.ask("Which period?")
        (item,) = json.loads(export_answer(answer, "csl-json", library=assistant.library))
        assert item["author"] == [{"literal": "Ann Lée"}] and item["id"] == "lee2021"
        assert item["issued"] == {"date-parts": [[2021, 3, 4]]}
        bibtex = export_answer(answer, "bibtex", library=assistant.library)
        assert "date = {2021-03-04}" in bibtex and "author = {{Ann Lée}}" in bibtex
        page = export_answer(answer, "html", library=assistant.library)
        assert "Some words before." in page and "Some words after." in page
        (turn,) = assistant.library.session_turns("talk")
        assert export_answer(turn, "html", library=assistant.library) == page
        assert export_answer(turn, "bibtex", library=assistant.library) == bibtex
        assert export_answer(turn, "obsidian") == export_answer(answer, "obsidian")
        assistant.library.remove(document)
        assert "<mark>period</mark>" in export_answer(answer, "html", library=assistant.library)
        assert "author" not in export_answer(answer, "bibtex", library=assistant.library)


def written(*texts: str, source: Citation | None = None) -> WrittenAnswer:
    """An answer whose first written sentence is supported, and the others are not."""
    problems = ["", *["its sources do not say it"] * len(texts)]
    sentences = tuple(
        WrittenSentence(text, (1,), problem) for text, problem in zip(texts, problems, strict=False)
    )
    sources = {1: source or cited(quote="The term is a year.", context="The term is a year.")}
    return WrittenAnswer(
        answered(), "partly", sentences, sources, host="localhost:1", model="m", seconds=1.0
    )


@each_row("format", FORMATS)
def test_what_a_writer_wrote_is_before_the_quotes(format: Any) -> None:
    answer = written("It is a year [1].", "Whales sing [1].")
    text = export_answer(answer, format)
    assert "The term is a year." in text and QUOTE in text
    if format in ("bibtex", "csl-json"):
        assert "Whales" not in text and text.count("The term is a year.") == 1
    else:
        places = [text.index(words) for words in ("some sentences are", "Whales", "Quotes:")]
        assert places == sorted(places) and places[-1] < text.index("The notice period")
        assert "its sources do not say it" in text
    shown = answer.answer
    values = {name: getattr(shown, name) for name in Turn.__annotations__ if hasattr(shown, name)}
    turn = Turn(**{**values, "answer": shown.text, "writing": answer.writing})
    assert export_answer(turn, format) == text  # as a conversation stores it
    if format == "html":
        assert '<span class="unsupported">Whales sing [1].</span>' in text


@each_row("format", FORMATS)
def test_a_writer_writes_no_markup(format: Any) -> None:
    source = cited(quote=EVIL, context=f"Before {EVIL} after.", title=EVIL, section=EVIL)
    text = export_answer(written(EVIL, EVIL, source=source), format)
    assert "/home" not in text
    if format == "html":
        assert {"script", "b", "a"}.isdisjoint(Tags(text).tags) and EVIL in Tags(text).text
    if format in ("markdown", "obsidian"):
        assert "<script>" not in text and "[[link]]" not in text


def test_another_format_is_a_sentence() -> None:
    with pytest.raises(ConfigError, match="expected markdown, html, obsidian, bibtex, csl-json"):
        export_answer(answered(), "word")  # type: ignore[arg-type]
