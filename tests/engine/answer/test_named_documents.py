"""Which documents a question of a library names, and what is shown where it does not tell."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from drt_engine.answer.ask import AskOptions, ask
from drt_engine.answer.metadata.lookup import PRECISION
from drt_engine.answer.named_documents import MOST_DOCUMENTS, documents_meant
from drt_engine.answer.places import ask_all
from drt_engine.answer.result import Draft
from drt_engine.answer.unclear import likely_of_several
from drt_engine.retrieval.filters import Filters
from drt_engine.store import Store
from tests.model_folder import library, read_text, runtime

MAIL = """From: {name} <{name}@harbour.example>
Subject: {subject}
Date: Mon, {day} Mar 2025 09:12:00 +0100
Content-Type: text/plain; charset=utf-8

The crane is inspected in April. The keeper has the key of the crane.
"""
FILES = {
    "crane-limits.h": "/* Limits of the crane, version 2.1. */\n#define MOST 40  /* tonnes */\n",
    "harbour-fees.csv": "boat,fee\nsloop,12\nbarge,40\nferry,55\n",
    "plan.eml": MAIL.format(name="ada", subject="Crane inspection", day=3),
    "answer.eml": MAIL.format(name="tom", subject="Night watch", day=5),
    "sketch.eml": MAIL.format(name="may", subject="Sketch of the pier", day=6).replace(
        "Content-Type: text/plain; charset=utf-8\n",
        "Content-Type: multipart/mixed; boundary=border\n\n--border\nContent-Type: text/plain\n",
    )
    + '--border\nContent-Disposition: attachment; filename="pier.png"\n\nx\n--border--\n',
    "kept.md": "# Keeping Lamps in Lighthouses\n\nThe keeper lights the lamps at dusk.\n",
    "lamp-faq.txt": "Lamp FAQ\n\nWho lights lamps? The keeper does, with oil.\n",
}


PAGES = {
    "heap.1": "HEAP(1)\n\nheap - pile files up\n\n-S  sort by size\n",
    "heap-all.1": "HEAP-ALL(1)\n\nheap-all - pile all up\n\n-S  say nothing\n",
    "pile.md": "# Piles\n\nheap -S piles up.\n",
}


@pytest.mark.parametrize(
    ("question", "files"),
    [
        ("What does heap -S do?", ["heap.1"]),
        ("what does `heap-all --size` do", ["heap-all.1"]),
        ("What is the heap option -S?", ["heap.1"]),
        ("What does pile -S do?", []),  # which is no manual page
        ("What does pull -S do?", []),
        ("What does heap do?", []),
    ],
)
def test_an_option_is_of_the_page_of_its_command(
    tmp_path: Path, question: str, files: list[str]
) -> None:
    with library(tmp_path / "library") as opened:
        for name, text in PAGES.items():
            read_text(opened, tmp_path, name=name, text=text)
        assert named(opened, question) == (files, question)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("named")
    with library(folder / "library") as opened:
        for name, text in FILES.items():
            read_text(opened, folder, name=name, text=text)
        yield opened


def named(store: Store, question: str) -> tuple[list[str], str]:
    """The file names of the documents that a question names, and the rest of it."""
    meant = documents_meant(store, question)
    names = {row.id: Path(row.source).name for row in store.documents()}
    return sorted(names[document_id] for document_id in meant.document_ids or ()), meant.question


@pytest.mark.parametrize(
    ("question", "files", "rest"),
    [
        ("What is the limit in crane-limits.h?", ["crane-limits.h"], "What is the limit?"),
        ("crane-limits.h: most tonnes", ["crane-limits.h"], "most tonnes"),
        ("In the crane header, what is the limit?", ["crane-limits.h"], "what is the limit?"),
        ("a barge according to the harbour fees table", ["harbour-fees.csv"], "a barge"),
        ("Who has the key in the crane inspection mail?", ["plan.eml"], "Who has the key?"),
        ("Who has the key in the mail by Tom?", ["answer.eml"], "Who has the key?"),
        ("date of Ada's message", ["plan.eml"], "date of Ada's message"),
        ("Who lights them in Keeping Lamps in Lighthouses?", ["kept.md"], "Who lights them?"),
        ("What does the lamp FAQ say about oil?", ["lamp-faq.txt"], None),
        ("Who lights lamps, in the lamp FAQ?", ["lamp-faq.txt"], "Who lights lamps?"),
        # No name of a document, or of something else.
        ("What is in the crane?", [], None),
        ("Which lamps are in lighthouses?", [], None),
        ("What is the size of the crane file system?", [], None),
        ("Does the keeper say who has the key?", [], None),
        ("What is in crane-limits.hpp?", [], None),
        ("in", [], None),
    ],
)  # fmt: skip
def test_a_document_is_named_by_its_title_file_author_and_kind(
    store: Store, question: str, files: list[str], rest: str | None
) -> None:
    assert named(store, question) == (files, question if rest is None else rest)


def test_the_answer_comes_from_the_document_that_is_named(store: Store) -> None:
    ids = {Path(row.source).name: row.id for row in store.documents()}
    options = AskOptions(threshold=0.0)
    answer = ask(runtime(), store, "In lamp-faq.txt, who lights the lamps?", options)
    assert {citation.document for citation in answer.citations} == {ids["lamp-faq.txt"]}
    places = ask_all(runtime(), store, "Who lights the lamps in lamp-faq.txt?", options)
    cited = {c.document for group in places.groups for c in group.citations}
    assert cited == {ids["lamp-faq.txt"]}


def test_documents_and_filters_of_the_options_come_first(store: Store) -> None:
    ids = {Path(row.source).name: row.id for row in store.documents()}
    question = "Who lights the lamps in lamp-faq.txt?"
    for options in (
        AskOptions(threshold=0.0, documents=(ids["kept.md"],)),
        AskOptions(threshold=0.0, filters=Filters(types=("md",))),
    ):
        answer = ask(runtime(), store, question, options)
        assert {citation.document for citation in answer.citations} == {ids["kept.md"]}


def test_a_question_about_a_document_itself_may_mean_one_or_several(store: Store) -> None:
    assert named(store, "Which version does this header describe?")[0] == ["crane-limits.h"]
    assert named(store, "name of the attached file")[0] == ["sketch.eml"]
    assert named(store, "Which columns are there?")[0] == ["harbour-fees.csv"]
    mails = documents_meant(store, "Who wrote the mail, and why was it sent?").unclear
    assert [Path(row.source).name for row in mails] == ["plan.eml", "answer.eml", "sketch.eml"]
    assert documents_meant(store, "When was it sent?").unclear == mails
    # "answer.eml" is no more a message than the others, and a patch is no mail for sure.
    assert documents_meant(store, "Who sent the message?").unclear == mails
    assert documents_meant(store, "Who wrote the patch?").unclear == ()
    assert len(documents_meant(store, "When was this written?").unclear) == len(FILES)
    assert documents_meant(store, "Who lights the lamps?").unclear == ()


def test_of_two_documents_the_field_of_each_is_likely(tmp_path: Path) -> None:
    question = "Who wrote the mail?"
    with library(tmp_path / "library") as store:
        for name in ("plan.eml", "answer.eml"):
            read_text(store, tmp_path, name=name, text=FILES[name])
        read_text(store, tmp_path, name="kept.md", text=FILES["kept.md"])
        answer = ask(runtime(), store, question, AskOptions())
    assert answer.state == "likely" and answer.text == ""
    assert [citation.quote for citation in answer.citations] == [
        "ada <ada@harbour.example>",
        "tom <tom@harbour.example>",
    ]
    assert answer.quote_probability == PRECISION / 2
    assert answer.hint == (
        'Which document is meant? "Crane inspection", "Night watch" fit; name one in the question.'
    )


def test_what_several_documents_may_answer_is_never_found(store: Store) -> None:
    rows = store.documents()
    found = ask(runtime(), store, "lamps?", AskOptions(threshold=0.0))
    draft = Draft("oil", True, 0.9, found.citations, quote_probability=0.6)
    likely = likely_of_several(store, "What is this?", draft, rows[:3])
    assert not likely.found and likely.likely and likely.text == "" and likely.citations
    assert likely.probability == pytest.approx(0.2)
    nothing = Draft("", False, 0.1, ())
    assert likely_of_several(store, "What is this?", nothing, rows) == nothing


def test_a_library_of_one_document_is_asked_as_a_whole(tmp_path: Path) -> None:
    with library(tmp_path / "library") as store:
        read_text(store, tmp_path, name="plan.eml", text=FILES["plan.eml"])
        question = "When was it sent, in plan.eml?"
        meant = documents_meant(store, question)
        assert meant.document_ids is None and meant.question == question and not meant.unclear


def test_documents_are_counted_before_they_are_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert store.count_documents() == len(FILES)
    monkeypatch.setattr(type(store), "count_documents", lambda _: MOST_DOCUMENTS + 1)
    monkeypatch.setattr(type(store), "documents", lambda _: pytest.fail("they were read"))
    assert documents_meant(store, "the limit in crane-limits.h").document_ids is None


@pytest.mark.parametrize(
    "text",
    ["in the " * 3000, "in the crane " * 2000, "(" * 9000, "in crane-limits." * 1500, "of " * 5000],
)
def test_long_questions_take_no_time(store: Store, text: str) -> None:
    began = time.perf_counter()
    documents_meant(store, text)
    assert time.perf_counter() - began < 5
