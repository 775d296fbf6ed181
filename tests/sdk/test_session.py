"""Conversations: kept under a name, continued, renamed, deleted."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from drt import (
    Assistant,
    LibraryBusyError,
    NotFoundError,
    SessionError,
    SessionNotSavedError,
    StorageFullError,
)
from drt_engine import errors
from drt_engine.store import Store

COAL = "About letter.txt\nThe coal comes on Tuesday."
PERIOD = "About handbook.txt\nThe notice period is thirty days."


def test_a_named_session_is_kept_and_continued(assistant: Assistant, handbook: Path) -> None:
    assistant.ingest(handbook)
    assistant.session("review").ask("Which period?")
    with Assistant(assistant.library.path) as later:
        again = later.session("review")
        assert list(again.stream("Which keeper?")) == ["kee", "per"]
    info = assistant.library.sessions()[0]
    assert (info.name, info.turns) == ("review", 2)
    turns = assistant.library.session_turns("review")
    assert [(turn.question, turn.answer) for turn in turns] == [
        ("Which period?", "period"),
        ("Which keeper?", "keeper"),
    ]
    assert turns[0].citations[0].quote == "period"
    assert turns == again.turns


def test_an_unnamed_session_is_kept_only_once_it_is_named(
    assistant: Assistant, handbook: Path
) -> None:
    assistant.ingest(handbook)
    session = assistant.session()
    session.ask("Which period?")
    assert (session.name, assistant.library.sessions()) == (None, [])
    with pytest.raises(SessionError, match="no name"):
        session.save()
    session.rename("kept")
    assert [one.name for one in assistant.library.sessions()] == ["kept"]


def test_renaming_keeps_one_copy(assistant: Assistant, handbook: Path) -> None:
    assistant.ingest(handbook)
    session = assistant.session("review")
    session.ask("Which period?")
    session.rename("audit")
    session.ask("Which keeper?")
    assert [(one.name, one.turns) for one in assistant.library.sessions()] == [("audit", 2)]


def test_the_library_renames_and_deletes(assistant: Assistant, handbook: Path) -> None:
    assistant.ingest(handbook)
    for name in ("review", "audit"):
        assistant.session(name).ask("Which period?")
    with pytest.raises(SessionError, match="audit"):
        assistant.library.rename_session("review", "audit")
    assistant.library.delete_session("audit")
    assistant.library.rename_session("review", "audit")
    assert [one.name for one in assistant.library.sessions()] == ["audit"]
    with pytest.raises(NotFoundError, match="review"):
        assistant.library.session_turns("review")


FAILURES = {
    "disk full": errors.StorageFull("the disk is full."),
    "file system": OSError(30, "Read-only file system"),
    "package": ModuleNotFoundError("No module named 'numpy'"),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("streamed", [False, True], ids=["ask", "stream"])
def test_an_answer_outlives_a_conversation_that_cannot_be_saved(
    assistant: Assistant,
    handbook: Path,
    monkeypatch: pytest.MonkeyPatch,
    failure: Exception,
    streamed: bool,
) -> None:
    assistant.ingest(handbook)
    session = assistant.session("review")

    def refuse(*_: object, **__: object) -> None:
        raise failure

    with monkeypatch.context() as patch:
        patch.setattr(Store, "save_session", refuse)
        with pytest.raises(SessionNotSavedError, match="was answered, but") as caught:
            if streamed:
                pieces = session.stream("Which period?")
                list(pieces)
            else:
                session.ask("Which period?")
    assert str(failure) in str(caught.value) and caught.value.__cause__ is not None
    assert caught.value.answer.text == "period" and caught.value.answer.citations
    if streamed:
        assert pieces.answer == caught.value.answer
    if isinstance(failure, errors.StorageFull):
        assert isinstance(caught.value.__cause__, StorageFullError)
    assert assistant.library.sessions() == []
    session.ask("Which keeper?")  # goes on, and both turns are stored
    turns = assistant.library.session_turns("review")
    assert [turn.answer for turn in turns] == ["period", "keeper"]


def test_an_answer_outlives_another_writer(assistant: Assistant, handbook: Path) -> None:
    assistant.ingest(handbook)
    with Assistant(assistant.library.path, lock_timeout=0.05) as waiting:
        session = waiting.session("review")
        writer = sqlite3.connect(assistant.library.path / "catalog.db")
        writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(SessionNotSavedError) as caught:
            session.ask("Which period?")
        writer.close()
        assert isinstance(caught.value.__cause__, LibraryBusyError)
        assert caught.value.answer.text == "period"
        session.save()
    assert assistant.library.session_turns("review")[0].answer == "period"


def test_a_request_for_a_summary_gets_one_and_is_a_turn(
    assistant: Assistant, handbook: Path, tmp_path: Path
) -> None:
    assistant.ingest(handbook)
    session = assistant.session("review")
    only = session.ask("What is this document about?")
    assert (only.mode, only.state, only.text) == ("summary", "answer", PERIOD)
    assert only.citations[0].quote == PERIOD.splitlines()[1]
    letter = tmp_path / "letter.txt"
    letter.write_text("The coal comes on Tuesday. Pay it then.\n")
    assistant.ingest(letter)
    assert session.ask("Summarize letter.txt").text == COAL
    assert session.ask("Which period?").mode == "quote"
    assert session.ask("Summarize it!").text == PERIOD  # which was quoted last
    stream = session.stream("Summarize it", documents=["letter.txt"])
    assert list(stream) == [COAL] and stream.answer is not None
    turns = assistant.library.session_turns("review")
    assert [turn.mode for turn in turns] == ["summary", "summary", "quote", "summary", "summary"]
    assert turns == assistant.session("review").turns


def test_a_request_for_a_summary_is_no_question_without_a_conversation_either(
    assistant: Assistant, handbook: Path, tmp_path: Path
) -> None:
    assistant.ingest(handbook)
    answer = assistant.ask("What is this document about?")
    assert (answer.mode, answer.text) == (
        "summary",
        PERIOD,
    )
    assert answer.as_markdown().startswith("The notice period is thirty days.[^1]\n\n[^1]: ")
    many = assistant.ask_many(["TL;DR", "Which period?"])
    assert [one.mode for one in many] == ["summary", "quote"]
    stream = assistant.stream("TL;DR")
    assert list(stream) == [answer.text] and stream.answer is not None
    assert stream.answer.mode == "summary"
    letter = tmp_path / "letter.txt"
    letter.write_text("The coal comes on Tuesday. Pay it then.\n")
    assistant.ingest(letter)
    assert assistant.ask("Summarize letter.txt").text == COAL
    assert assistant.ask("Summarize it").mode == "quote"  # of two documents


def test_a_summary_of_nothing_in_particular_is_a_question(
    assistant: Assistant, handbook: Path, tmp_path: Path
) -> None:
    letter = tmp_path / "letter.txt"
    letter.write_text("The coal comes on Tuesday.\n")
    assistant.ingest(handbook)
    assistant.ingest(letter, tags=["mail"])
    session = assistant.session()
    for question in ("Summarize it", "Summarize the notice period", "Which zeppelin?"):
        assert session.ask(question).mode == "quote"
    assert session.ask("Summarize it").mode == "quote"  # nothing was found, so nothing is meant
    filtered = session.ask("Summarize it", tags="mail", since="1990")
    assert (filtered.mode, filtered.text) == ("summary", COAL)


def test_turns_have_a_state_and_older_ones_get_it(assistant: Assistant, handbook: Path) -> None:
    assistant.ingest(handbook)
    session = assistant.session("review")
    for question in ("Which period?", "Which likely zeppelin?", "Which zeppelin?"):
        session.ask(question)
    states = [turn.state for turn in assistant.library.session_turns("review")]
    assert states == ["answer", "likely", "none"]
    for turn in session._state.turns:
        del turn["state"]
    session.save()
    older = assistant.library.session_turns("review")
    assert [turn.state for turn in older] == ["answer", "none", "none"]
    assert [turn.state for turn in assistant.session("review").turns] == ["answer", "none", "none"]
