"""How a question is asked that is_follow_up on the one before."""

from __future__ import annotations

from pathlib import Path

from drt_engine.answer.ask import ask
from drt_engine.answer.follow_up import in_context, is_follow_up
from drt_engine.answer.options import AskOptions
from drt_engine.answer.session import SessionState
from tests.model_folder import LETTERS, MANUAL, library, read_text, runtime
from tests.tables import each_row

FIRST = {"question": "What was the harvest of 1902 like?"}


@each_row("question", ["And who signs it?", "What about Bergen?", "How old is she?", "and then?"])
def test_a_question_that_leans_gets_words_of_the_one_before(question: str) -> None:
    assert is_follow_up(question)
    asked = in_context(question, [{"question": "Earlier?"}, FIRST])
    assert asked == f"{question} (harvest 1902 like)"
    assert in_context(question, []) == question


@each_row(
    "question", ["Who keeps the key of the store?", "Which boats wait outside?", "Whose itinerary?"]
)
def test_others_stand_alone(question: str) -> None:
    assert not is_follow_up(question)
    assert in_context(question, [FIRST]) == question


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
