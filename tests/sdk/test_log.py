"""The log of questions: what it keeps, who may read it, and that it never costs an answer."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from drt import Assistant, DrtError, LogEntry, QuestionLog
from tests.sdk.fakes import FakeEngine


@pytest.fixture
def log(tmp_path: Path) -> QuestionLog:
    return QuestionLog(tmp_path / "state" / "questions.db")


@pytest.fixture
def logged(
    engine: FakeEngine, handbook: Path, tmp_path: Path, log: QuestionLog
) -> Iterator[Assistant]:
    """An assistant with a log and one document, of which two questions were asked."""
    with Assistant(tmp_path / "notes.library", log=log.path) as assistant:
        assistant.ingest(handbook)
        assistant.ask("Which period?")
        list(assistant.stream("Which zeppelin?"))
        yield assistant


def test_every_question_is_logged_newest_first(logged: Assistant, log: QuestionLog) -> None:
    logged.session().ask("Which keeper?")
    entries = log.entries()
    assert [entry.question for entry in entries] == [
        "Which keeper?",
        "Which zeppelin?",
        "Which period?",
    ]
    assert entries[2].answer == "period" and entries[1].answer == ""
    assert entries[2].documents == ("handbook.txt",) and entries[2].seconds >= 0
    assert entries[2].library == str(logged.library.path)
    (citation,) = entries[2].citations
    assert logged.library.show(citation.partition(":")[0]).title == "handbook.txt"
    assert [entry.question for entry in log.entries(limit=1)] == ["Which keeper?"]
    assert [entry.question for entry in log.entries("PERIOD handbook")] == ["Which period?"]
    assert log.entries("submarine") == []
    assert all(isinstance(entry, LogEntry) and entry.to_dict() for entry in entries)


def test_only_its_owner_may_read_it(logged: Assistant, log: QuestionLog) -> None:
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.path.parent.stat().st_mode) == 0o700


def test_forgetting_a_document_removes_what_cites_it(
    logged: Assistant, log: QuestionLog, handbook: Path
) -> None:
    other = handbook.with_name("other.txt")
    other.write_text("The zeppelin lands at noon.")
    logged.ingest(other)
    logged.ask("Which zeppelin?", documents="other.txt")
    logged.library.remove("other.txt")
    assert len(log.entries()) == 3
    logged.library.remove("handbook.txt", forget=True)
    assert [entry.documents for entry in log.entries()] == [("other.txt",)]
    assert b"thirty" not in log.path.read_bytes() and b"Which period" not in log.path.read_bytes()


def test_clearing_deletes_it(logged: Assistant, log: QuestionLog) -> None:
    assert log.clear() == 2 and not log.path.exists()
    assert log.clear() == 0 and log.entries() == []
    logged.ask("Which period?")
    assert len(log.entries()) == 1


@pytest.mark.few(2)
@pytest.mark.parametrize("fault", ["folder", "damaged", "link", "locked", "full", "name"])
def test_what_cannot_be_logged_costs_no_answer(
    fault: str,
    logged: Assistant,
    log: QuestionLog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    question, holder = "Which period?", None
    if fault == "folder":
        log.path.unlink()
        log.path.mkdir()
    elif fault == "damaged":
        log.path.write_bytes(b"no database" * 1000)
    elif fault == "link":
        log.path.rename(tmp_path / "elsewhere.db")
        log.path.symlink_to(tmp_path / "elsewhere.db")
    elif fault == "locked":
        holder = sqlite3.connect(log.path)
        holder.execute("BEGIN EXCLUSIVE")
    elif fault == "full":

        def full(*_: object) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "open", full)
    else:
        log.path.unlink()
        (tmp_path / "state").rename(tmp_path / "old")
        (tmp_path / "state").write_text("a file where a folder should be")
    with monkeypatch.context() as patch:
        if fault != "full":
            patch.undo()
        answer = logged.ask(question)
    assert answer.text == "period"
    if holder is not None:
        holder.close()


def test_a_damaged_log_is_told_and_can_be_cleared(log: QuestionLog) -> None:
    log.path.parent.mkdir()
    log.path.write_bytes(b"no database" * 1000)
    with pytest.raises(DrtError, match="is damaged .*`drt log --clear` deletes it"):
        log.entries()
    assert log.clear() == 0 and log.entries() == []
    with sqlite3.connect(log.path) as connection:
        connection.execute(
            "CREATE TABLE questions (number, time, library, question, answer,"
            " state, confidence, seconds, documents, citations)"
        )
        connection.execute("INSERT INTO questions VALUES (1,2,3,4,5,6,7,8,'{}','[1]')")
    connection.close()
    with pytest.raises(DrtError, match="no drt writes"):
        log.entries()
