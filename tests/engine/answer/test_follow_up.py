"""How a question is asked that is_follow_up on the one before."""

from __future__ import annotations

from pathlib import Path

from drt_engine.answer.ask import ask
from drt_engine.answer.follow_up import in_context, is_follow_up, question_part
from drt_engine.answer.options import AskOptions
from drt_engine.answer.session import SessionState
from tests.model_folder import LETTERS, MANUAL, library, read_text, runtime
from tests.tables import each_row

FIRST = {"question": "What was the harvest of 1902 like?"}


@each_row("question", ["And who signs it?", "What about it?", "How old is she?", "and then?"])
def test_a_question_that_leans_gets_words_of_the_one_before(question: str) -> None:
    assert is_follow_up(question)
    asked = in_context(runtime(), question, [{"question": "Earlier?"}, FIRST])
    assert asked == f"{question} (harvest 1902 like)"
    assert in_context(runtime(), question, []) == question


@each_row(
    ("question", "whole"),
    [
        ("And of 1910?", "What was the harvest of 1910 like?"),
        ("and what about the harvest of 1910?", "What was the harvest of 1910 like?"),
        ("And the bell of 1902?", "What was the bell of 1902 like?"),
    ],
)
def test_a_part_of_a_question_takes_the_place_of_what_is_like_it(question: str, whole: str) -> None:
    assert in_context(runtime(), question, [{"question": "Earlier?"}, FIRST]) == whole
    # Another part is of the same question.
    turns = [FIRST, {"question": question}]
    asked = in_context(runtime(), "And of 1923?", turns)
    assert asked == whole.replace("1902", "1923").replace("1910", "1923")


@each_row("question", ["And who signs it?", "And is it signed?", "Bergen?", "And?", "And that?"])
def test_a_clause_is_no_part(question: str) -> None:
    assert question_part(question) is None


@each_row(
    "question", ["Who keeps the key of the store?", "Which boats wait outside?", "Whose itinerary?"]
)
def test_others_stand_alone(question: str) -> None:
    assert not is_follow_up(question)
    assert in_context(runtime(), question, [FIRST]) == question


def test_a_conversation_finds_what_a_question_alone_does_not(tmp_path: Path) -> None:
    with library(tmp_path / "library") as store:
        read_text(store, tmp_path, name="manual.md", text=MANUAL * 3)
        letters = read_text(store, tmp_path, name="letters.txt", text=LETTERS)
        options = AskOptions(threshold=0.0, retriever="lexical", top_k=1)
        session = SessionState.new(runtime(), store, "talk")
        ask(runtime(), store, "plough harvest cows", options, session=session)
        with_it = ask(runtime(), store, "And this?", options, session=session)
        assert with_it.trace.groups[0].entries[0].document == letters.id
        chunk = with_it.trace.groups[0].entries[0].chunk
        near = store.chunk_rows(
            [one for one in (chunk, *store.neighbours_of([chunk])[chunk]) if one]
        )
        assert "harvest" in "".join(row.text for row in near)
