"""Conversations: kept under a name, continued, renamed, deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from drt import Assistant, NotFoundError, SessionError


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
