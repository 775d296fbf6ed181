"""Questions for a section or a page, and the headings and pages that answer them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from drt_engine.answer.citations import cite
from drt_engine.answer.documents import documents_to_ask
from drt_engine.answer.lists.section_answer import subsections_answer, with_section
from drt_engine.answer.lists.section_questions import (
    SectionQuestion,
    heading_about,
    section_question,
)
from drt_engine.answer.result import Draft
from drt_engine.retrieval.filters import Scope
from drt_engine.retrieval.passages import Passage
from tests.model_folder import library, read_text


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which section deals with the lamp?", ("section", "What is the lamp?", "the lamp")),
        ("what chapter number covers lamps", ("chapter", "What is lamps?", "lamps")),
        ("On which page is the lamp described?", ("page", "What is the lamp?", "the lamp")),
        ("What page is the index on?", ("page", "What is the index?", "the index")),
        ("Where in the manual are lamps explained?", ("section", "What is lamps?", "lamps")),
        ("Where does the guide describe lamps?", ("section", "What is lamps?", "lamps")),
        ("What is the chapter about lamps called?", ("chapter", "What is lamps?", "lamps")),
        ("the title of the section on lamps", ("section", "What is lamps?", "lamps")),
        ("Which clause says that fees are due?", ("clause", "fees are due", "")),
        (
            "Which section tells you in which order to read?",
            ("section", "in which order to read", ""),
        ),
        ("Which section has remarks?", ("section", "What is remarks?", "remarks")),
        ("In which chapter does Ann meet Ben?", ("chapter", "does Ann meet Ben", "")),
        (
            "Under which heading are appendices listed?",
            ("heading", "What is appendices?", "appendices"),
        ),
        ("In which section of the city is it?", None),
        ("Which part of the engine is hot?", None),
        ("Which page is the longest?", None),
        ("Which article was printed in 1999?", None),
        ("What is the section on lamps?", None),
        ("What does section 4 say?", None),
        ("Where is the lamp?", None),
        ("Where are the log files found?", None),
        ("", None),
    ],
)
def test_questions_for_a_place(question: str, expected: tuple[str, str, str] | None) -> None:
    asked = section_question(question)
    assert (asked and (asked.noun, asked.rest, asked.topic)) == expected


def test_where_something_is_described_may_want_a_book() -> None:
    asked = section_question("Where is the lamp described?")
    assert asked is not None and asked.needs_topic
    inside = section_question("Where is the lamp described in the manual?")
    assert inside is not None and not inside.needs_topic


TITLES = ["1. Lamps", "2. Care of lamps", "3. Lamps and bells by night and day", "4. Lamps of oil"]


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("the lamps", "1. Lamps"),
        ("care of a lamp", "2. Care of lamps"),
        ("bells", None),  # with too many other words
        ("oil lamp", "4. Lamps of oil"),
        ("keepers", None),
        ("the", None),
    ],
)
def test_the_heading_with_the_words_of_a_topic(topic: str, expected: str | None) -> None:
    assert heading_about(topic, TITLES) == expected


def test_the_very_word_counts_more_than_another_form_of_it() -> None:
    titles = ["The calling boat", "The called boat"]
    assert heading_about("the called boat", titles) == titles[1]


def test_a_remark_behind_a_heading_is_no_word_of_it() -> None:
    titles = ["Naming of doors (green, red and all the others)", "Doors"]
    assert heading_about("the naming of doors", titles) == titles[0]


def test_two_headings_that_fit_alike_are_none() -> None:
    assert heading_about("lamps", ["Oil lamps", "Gas lamps"]) is None


MANUAL = """\
# Lights

## 2. Lamps

### 2.1 Oil

Oil is kept in the cellar.

### The `bell` (or **gong**)

It rings.

## Rules

1. **Doors.** Doors are shut by night.

   The keeper has the key.

2. **Bells.** Bells are rung in fog.

All of this is old.
"""


@pytest.mark.parametrize(
    ("noun", "quote", "expected"),
    [
        ("section", "Oil is kept in the cellar.", "2.1 Oil"),
        ("chapter", "Oil is kept in the cellar.", "2. Lamps"),
        ("part", "Oil is kept in the cellar.", None),  # nothing is called so
        ("section", "It rings.", "The `bell` (or **gong**)"),
        ("rule", "The keeper has the key.", "1. **Doors.**"),
        ("section", "Bells are rung in fog.", "2. **Bells.**"),
        ("section", "All of this is old.", "Rules"),
        ("heading", "Bells are rung in fog.", "Rules"),
        ("page", "Bells are rung in fog.", None),  # there are none
    ],
)
def test_the_heading_above_a_quote(
    tmp_path: Path, noun: str, quote: str, expected: str | None
) -> None:
    with library(tmp_path / "library") as store:
        read_text(store, tmp_path, name="lights.md", text=MANUAL)
        row = store.document("lights.md")
        at = store.text(row.id, 0, row.characters).index(quote)
        citation = cite(store, row, at, at + len(quote), 0.9)
        draft = Draft(quote, True, 0.9, (citation,))
        documents = documents_to_ask(store, None)
        placed = with_section(store, documents, SectionQuestion(noun, quote), draft)
        assert (placed and placed.text) == expected
        if placed is not None:
            heading = placed.citations[0]
            assert store.text(row.id, heading.start, heading.end) == expected
            assert placed.citations[1] == citation
        likely = Draft("", False, 0.9, (citation,), likely=True)
        shown = with_section(store, documents, SectionQuestion(noun, quote), likely)
        assert shown is None or (shown.text == "" and not shown.found)


PARTS = """\
# Guide

## Stages

There are some.

### 1. `Alpha`

For the brave.

### 2. Beta

For all.

## Lamps

### Oil

It burns.
"""


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What are the stages?", "1. `Alpha`; 2. Beta"),
        ("List the two stages", "1. `Alpha`; 2. Beta"),
        ("What are the three stages?", None),
        ("How many stages are there?", None),
        ("What are the lamps?", None),  # one
        ("What are the stages of Ann?", None),
        ("What is a stage?", None),
    ],
)
def test_headings_below_the_one_that_is_asked_for(
    tmp_path: Path, question: str, expected: str | None
) -> None:
    with library(tmp_path / "library") as store:
        read_text(store, tmp_path, name="guide.md", text=PARTS)
        row = store.document("guide.md")
        chunk = store.chunk_rows(store.chunk_ids([row.id]))[0]
        none = torch.zeros(0)
        passages = [Passage(chunk, none, none, none, none, chunk.text, 0, 0.0, 0.5, "both")]
        answer = subsections_answer(
            store, documents_to_ask(store, None), question, passages, scope=Scope((row.id,))
        )
        assert (answer and answer.text) == expected


def test_what_is_defined_is_not_where_others_are_about_it() -> None:
    asked = section_question("In which section is a big lamp defined?")
    assert asked is not None and asked.is_defined
    titles = ["1. Definitions", "2. Sale of a big lamp"]
    assert heading_about(asked.topic, titles) == titles[1]
    assert heading_about(asked.topic, titles, most_extra=0) is None


def test_code_and_text_without_headings_have_no_section(tmp_path: Path) -> None:
    with library(tmp_path / "library") as store:
        for name, text in (
            ("lamp.py", "def lamp():\n    return 1\n"),
            ("note.txt", "Lamps burn.\n"),
        ):
            read_text(store, tmp_path, name=name, text=text)
            row = store.document(name)
            citation = cite(store, row, 0, row.characters - 1, 0.9)
            draft = Draft(citation.quote, True, 0.9, (citation,))
            documents = documents_to_ask(store, None)
            assert with_section(store, documents, SectionQuestion("section", ""), draft) is None
