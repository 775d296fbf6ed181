"""Questions about a document itself are answered from its head or its file's metadata."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drt_engine.answer import metadata
from drt_engine.answer.ask import ask
from drt_engine.answer.candidates import Candidate, ReadQuestion
from drt_engine.answer.documents import DocumentRows
from drt_engine.answer.metadata import propose_fields
from drt_engine.answer.options import AskOptions
from drt_engine.retrieval.filters import Scope
from drt_engine.store import Store
from tests.model_folder import library, read_text, runtime, text_of
from tests.tables import each_row

BEES = """---
title: "Keeping bees in towns"
author: Mara Osei
date: 2023-05-14
---

Bees were first kept on roofs in 1874, when Louis Vane published a guide. The city released its
rules in 1990; the third version of the rules was written by Ann Adair.
"""
MAIL = """From: Ada Quist <ada@harbour.example>
To: Tom Lind <tom@pier.example>
Subject: Crane inspection moved
Date: Mon, 3 Mar 2025 09:12:00 +0100
Content-Type: text/plain; charset=utf-8

Dear Tom, the crane inspection moves to 14 April 2025. Professor Ames wrote the new checklist.
"""
NOVEL = """The door was opened and the lamp went out. The letter came at noon. It was written by her
uncle. "Who wrote it?" she asked.
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("metadata")
    with library(folder / "library") as opened:
        for name, text in (("bees.md", BEES), ("crane.eml", MAIL), ("salt.txt", NOVEL)):
            read_text(opened, folder, name=name, text=text)
        yield opened


def proposed(store: Store, question: str, scope: Scope | None = None) -> Candidate | None:
    asked = ReadQuestion(question, runtime(), DocumentRows(store), scope or Scope())
    return next(iter(propose_fields(asked, store)), None)


@each_row(
    ("name", "question", "expected"),
    [
        ("bees.md", "Who wrote this article?", "Mara Osei"),
        ("bees.md", "Who is the author?", "Mara Osei"),
        ("bees.md", "Who wrote the book?", "Mara Osei"),
        ("bees.md", "When was it published?", "2023-05-14"),
        ("bees.md", "publication date", "2023-05-14"),
        ("bees.md", "What is the title of the document?", "Keeping bees in towns"),
        ("bees.md", "author and date of Keeping bees in towns", "Mara Osei; 2023-05-14"),
        ("crane.eml", "When was this message sent?", "Mon, 3 Mar 2025 09:12:00 +0100"),
        # About something else: a word names neither a field nor the document.
        ("bees.md", "Who wrote the third version of the rules?", None),
        ("bees.md", "When were the rules released?", None),
        ("bees.md", "What was the release date?", None),
        ("bees.md", "When was it?", None),
        ("bees.md", "Who wrote the article about wasps?", None),
        ("crane.eml", "When is the crane inspection?", None),
        ("crane.eml", "Who wrote the checklist?", None),
        ("salt.txt", "Who wrote the letter?", None),
        ("salt.txt", "When was this book last updated?", None),
        ("salt.txt", "Who is the author?", None),  # which nothing says
    ],
)
def test_what_a_document_says_of_itself(
    store: Store, name: str, question: str, expected: str | None
) -> None:
    candidate = proposed(store, question, Scope((store.document(name).id,)))
    assert (candidate and candidate.text) == expected


def test_the_value_is_cited_where_the_text_has_it(store: Store) -> None:
    document = store.document("bees.md")
    options = AskOptions(documents=(document.id,))
    result = ask(runtime(), store, "Who wrote this article?", options)
    assert (result.text, result.found, result.origin) == ("Mara Osei", True, "metadata")
    (citation,) = result.citations
    assert text_of(store, document)[citation.start : citation.end] == citation.quote == "Mara Osei"
    assert citation.metadata is None


def test_of_several_documents_one_has_to_be_named(store: Store) -> None:
    assert proposed(store, "Who wrote it?") is None
    candidate = proposed(store, "Who wrote the document Keeping bees in towns?")
    assert candidate is not None and candidate.text == "Mara Osei"


def test_what_only_the_file_says_is_cited_as_such(tmp_path: Path) -> None:
    with library(tmp_path / "library") as plain:
        row = read_text(plain, tmp_path, name="plan.txt", text="we sail at dawn, says the captain.")
        plain.set_author_and_date(row.id, "Ann Lee", "2020-01-02")
        result = ask(runtime(), plain, "Who wrote this, and on what date?", AskOptions())
        assert (result.text, result.found) == ("Ann Lee; 2020-01-02", True)
        for citation, metadata in zip(
            result.citations, ("author: Ann Lee", "date: 2020-01-02"), strict=True
        ):
            assert (citation.metadata, citation.quote) == (metadata, "")
            assert citation.handle == f"{row.id[:8]}:0-0"
            assert citation.to_dict()["metadata"] == metadata
        assert proposed(plain, "What is its title?") is None  # a file's name


def test_a_part_of_a_document_says_nothing_of_it(store: Store) -> None:
    document = store.document("bees.md").id
    spans = {document: ((100, 200),)}
    assert proposed(store, "Who wrote this article?", Scope((document,), spans)) is None


def test_a_library_of_too_many_documents_is_not_gone_through(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "_MOST_DOCUMENTS", 2)
    monkeypatch.setattr(Store, "documents", lambda _: pytest.fail("all documents were read"))
    assert proposed(store, "Who wrote the document Keeping bees in towns?") is None
    bees = Scope((store.document("bees.md").id,))
    assert proposed(store, "Who wrote this article?", bees) is not None
