"""The sentence beside an answer: what the user meant, and why nothing was found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drt_engine.answer.ask import ask
from drt_engine.answer.candidates import Candidate
from drt_engine.answer.citations import cite
from drt_engine.answer.hint import (
    COUNT_HINT,
    LANGUAGE_HINT,
    SELF_HINT,
    SUMMARY_HINT,
    _is_foreign_text,
    hint,
    is_about_drt,
    requested_summary,
)
from drt_engine.answer.options import AskOptions
from drt_engine.retrieval.filters import Filters
from drt_engine.retrieval.library import SearchOptions
from tests.model_folder import library, read_text
from tests.model_folder import quoting as runtime
from tests.tables import each_row


class Words:
    """A library that has one chunk with some words."""

    def holds_words(self, word: str, **_: object) -> bool:
        return word in ("harbour", "boats", "license")


def sentence(question: str, *, found: bool = False, likely: bool = False, **how: Any) -> str:
    view: Any = Words()
    candidate = Candidate("x" * found, found, 0.2, (), likely=likely)
    return hint(view, question, candidate, SearchOptions(**how), threshold=None)


@each_row(
    "question",
    ["What is this document about?", "Summarize it", "please summarise this report.", "TL;DR",
     "Give me a short summary of the paper", "What does the text say?"],
)  # fmt: skip
def test_a_summary_is_named_whatever_was_found(question: str) -> None:
    assert sentence(question, found=True) == SUMMARY_HINT


def test_who_drt_is() -> None:
    assert sentence("Who are you?") == sentence("Hello, what can you do?") == SELF_HINT
    assert not is_about_drt("Who are you, asked the king?")
    assert sentence("What is the text about the harbour?", found=True) == ""


@each_row(
    "question",
    ["Wie lang ist die Frist?", "Quelle est la date de naissance?", "Что это такое?", "通知期間は?",
     "¿Cuál es el plazo?"],
)  # fmt: skip
def test_another_language_is_noticed(question: str) -> None:
    assert sentence(question) == LANGUAGE_HINT


def test_why_nothing_was_found() -> None:
    assert sentence("boats with zeppelins?") == (
        'Nowhere in the library: "zeppelins"; try other words, or read more documents.'
    )
    assert "All words of the question are in" in sentence("harbour boats")
    assert "documents that were asked" in sentence("a zeppelin", document_ids=("d",))
    assert sentence("a zeppelin", likely=True) == "" == sentence("What is die?", found=True)
    assert sentence("What did Los Angeles and La Paz do?").startswith("Nowhere")
    view: Any = Words()
    candidate = Candidate("", False, 0.2, ())
    said = hint(view, "harbour", candidate, SearchOptions(), threshold=0.5)
    assert said.startswith("The confidence 0.20 is below the threshold 0.50. All words")


@each_row(
    ("question", "name"),
    [
        ("Summarize it.", ""),
        ("What is this about?", ""),
        ("Summarise the document handbook.md, please", "handbook.md"),
        ("Please summarize 'The Handbook'", "The Handbook"),
        ("Give me a brief overview of letters.txt.", "letters.txt"),
        ("What is agreement.md about?", "agreement.md"),
        ("Who summarizes the log?", None),
        ("What is said about the boats?", None),
    ],
)
def test_requests_for_a_summary_name_what_they_want(question: str, name: str | None) -> None:
    assert requested_summary(question) == name


def test_words_that_only_other_documents_have_are_nowhere_in_those_that_are_asked(
    tmp_path: Path,
) -> None:
    with library(tmp_path / "library") as store:
        read_text(store, tmp_path, name="lamps.md", text="The keeper lights lamps.")
        read_text(store, tmp_path, name="ships.txt", text="Zeppelins carry the keeper.")
        options = AskOptions(threshold=1.0, filters=Filters(types=("md",)))
        answer = ask(runtime(), store, "Do zeppelins carry lamps?", options)
    assert 'Nowhere in the documents that were asked: "zeppelins", "carry"; try' in answer.hint


@each_row(
    ("question", "likely", "is_told"),
    [
        ("How many keepers are there?", False, True),
        ("How many keepers are there?", True, True),
        ("List the keepers of 1990.", False, True),
        ("Where do keepers sleep?", False, False),
    ],
)
def test_what_could_not_be_counted_in_a_table_is_told(
    tmp_path: Path, question: str, likely: bool, is_told: bool
) -> None:
    rows = "".join(f"Lamp{n},{n} oil\n" for n in range(9))
    with library(tmp_path / "library") as store:
        read_text(store, tmp_path, name="lamps.csv", text="lamp,fuel\n" + rows)
        (document,) = store.documents()
        place = cite(store, document, 0, 4, 1.0)
        candidate = Candidate("", False, 0.2, (place,), likely=likely)
        said = hint(store, question, candidate, SearchOptions(), threshold=None)
    assert (said == COUNT_HINT) is is_told


@each_row(
    ("text", "is_foreign"),
    [
        ("Die Kündigungsfrist beträgt für das Mitglied und den Leiter sechzig Tage.", True),
        ("Le délai est de soixante jours pour une demande avec un préavis.", True),
        ("Срок уведомления составляет шестьдесят дней.", True),
        ("The notice period for a member of the party is sixty days.", False),
        ("The El Niño of 1998 was, for the coast of Peru, the worst in a century.", False),
        ("capacity | 48,000 | 51,000", False),
        ("", False),
    ],
)
def test_a_document_in_another_language_is_said_to_be(text: str, is_foreign: bool) -> None:
    assert _is_foreign_text(text) is is_foreign
