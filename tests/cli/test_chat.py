"""`drt chat`: its commands, several lines, and what it writes."""

from __future__ import annotations

import csv
import json
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from drt import Library
from drt_cli._prompt import line_reader
from drt_cli.commands.chat import _completions
from drt_engine import errors
from drt_engine.store import Store
from tests.cli.conftest import Drt
from tests.sdk.fakes import FakeEngine


@pytest.fixture
def chat(drt: Drt, handbook: Path) -> Drt:
    assert drt("ingest", handbook).code == 0

    def talk(*lines: object, options: tuple[str, ...] = ()) -> object:
        return drt("chat", *options, stdin="".join(f"{line}\n" for line in lines))

    return talk  # type: ignore[return-value]


def test_a_passage_is_shown_by_its_number(chat: Drt) -> None:
    out = chat("Which period?", "/show 1").out
    assert "The notice «period» is thirty days. The keeper" in out
    wrong = chat("Which period?", "/show 9")
    assert "the last answer has 1 citation, 9 is none of them" in wrong.err
    assert "nothing was asked yet" in chat("/show 1").err


def test_sources_have_numbers(chat: Drt, handbook: Path) -> None:
    out = chat("Which period?", "/sources").out
    assert "[1] handbook.txt, page 3, Part > Terms, " in out and str(handbook) in out


def test_the_document_and_the_mode_can_be_changed(
    chat: Drt, engine: FakeEngine, handbook: Path
) -> None:
    first_lines = ("/doc handbook.txt", "/mode free", "Which period?")
    result = chat(*first_lines, "/doc", "/mode quote", "Which?")
    assert result.code == 0
    first, second = engine.asked[-2:]
    assert len(first["documents"]) == 1 and first["mode"] == "free"
    assert second["documents"] is None and second["mode"] == "quote"
    assert "Asking only handbook.txt." in result.out and "Answering in free mode." in result.out
    wrong = chat("/doc nobody.txt", "/mode loud", "/nothing")
    assert wrong.code == 0 and wrong.err.count("\ndrt: ") + wrong.err.startswith("drt: ") == 3


def test_several_lines_are_one_question(chat: Drt, engine: FakeEngine) -> None:
    chat("Which \\", "period?", '"""', "Which", "keeper?", '"""', "Which log?")
    assert [one["question"] for one in engine.asked] == [
        "Which \nperiod?",
        "Which\nkeeper?",
        "Which log?",
    ]


def test_an_open_block_ends_with_the_input(chat: Drt, engine: FakeEngine) -> None:
    assert chat('"""', "Which period?").code == 0
    assert chat("Which period?\\").code == 0
    assert [one["question"].strip() for one in engine.asked] == ["Which period?"] * 2


def test_lines_of_json(chat: Drt) -> None:
    out = chat("Which period?", "Which zeppelin?", options=("--jsonl",)).out
    answers = [json.loads(line) for line in out.splitlines()]
    assert [one["found"] for one in answers] == [True, False]


@pytest.mark.parametrize("name", ["talk.md", "talk.csv", "talk.json"])
def test_a_conversation_is_saved(chat: Drt, tmp_path: Path, name: str) -> None:
    result = chat("Which period?", "Which zeppelin?", f"/save {tmp_path / name}")
    assert result.code == 0 and name in result.out
    text = (tmp_path / name).read_text(encoding="utf-8")
    if name.endswith(".csv"):
        rows = list(csv.DictReader(text.splitlines()))
        assert [row["quote"] for row in rows] == ["period", "the"]
        assert rows[1]["answer"] == ""
    elif name.endswith(".json"):
        assert [one["question"] for one in json.loads(text)] == ["Which period?", "Which zeppelin?"]
    else:
        assert "## Which period?\n\nperiod\n" in text and "The document does not say." in text


def test_what_cannot_be_saved_is_a_sentence(chat: Drt, tmp_path: Path) -> None:
    result = chat("/save", "/save talk.exe", f"/save {tmp_path / 'no' / 'folder.md'}")
    assert result.code == 0 and result.err.count("drt: ") == 3


def test_the_answers_outlive_a_conversation_that_cannot_be_saved(
    chat: Drt, drt: Drt, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, failing = Store.save_session, [True, False, True]

    def refuse(store: Store, *arguments: Any, **options: Any) -> None:
        if failing.pop(0):
            raise errors.StorageFull("the disk is full.")
        save(store, *arguments, **options)

    monkeypatch.setattr(Store, "save_session", refuse)
    result = chat("Which period?", "Which keeper?", options=("--session", "review"))
    assert result.code == 0 and result.err.count("the conversation was not saved") == 1
    assert '"period"' in result.out and '"keeper"' in result.out
    turns = drt("session", "show", "--json", "review").json["turns"]
    assert [turn["answer"] for turn in turns] == ["period", "keeper"]
    last = chat("Which period?", options=("--session", "review"))
    assert last.code == 3 and '"period"' in last.out


def test_a_summary_is_given_where_it_is_asked_for(chat: Drt, drt: Drt) -> None:
    result = chat("Summarize it", options=("--session", "review"))
    lines = result.out.splitlines()
    assert lines[0] == "The notice period is thirty days. [1]" and lines[2].startswith("[1] ")
    assert drt("session", "show", "--json", "review").json["turns"][0]["mode"] == "summary"
    likely = chat("Which likely zeppelin?", options=("--session", "review"))
    assert "probably says it here" in likely.out
    shown = drt("session", "show", "review").out
    assert "The document probably says it here: See the annex." in shown


@pytest.mark.parametrize("goodbye", ["/quit", "quit", "EXIT", "/exit"])
def test_a_chat_is_ended_by_words_of_other_prompts(
    chat: Drt, engine: FakeEngine, goodbye: str
) -> None:
    assert chat("Which period?", goodbye, "Which log?").code == 0
    assert [one["question"] for one in engine.asked] == ["Which period?"]


def test_a_new_conversation_knows_nothing_of_the_last(chat: Drt) -> None:
    result = chat("Which period?", "/new", "/sources")
    assert "Another conversation" in result.out and "nothing was asked yet" in result.err


def test_copying_needs_a_terminal(chat: Drt) -> None:
    assert "/copy needs a terminal" in chat("Which period?", "/copy").err


def test_the_last_question_is_taken_back(chat: Drt, drt: Drt, engine: FakeEngine) -> None:
    stored = ("--session", "review")
    result = chat("Which period?", "Which keeper?", "/undo", "/sources", options=stored)
    assert "Taken back: Which keeper?" in result.out and result.code == 0
    turns = drt("session", "show", "review", "--json").json["turns"]
    assert [turn["question"] for turn in turns] == ["Which period?"]
    nothing = chat("/undo")
    assert nothing.code == 0 and "no question can be taken back" in nothing.err
    emptied = chat("Which period?", "/undo", "/sources")
    assert "nothing was asked yet" in emptied.err


def test_commands_and_their_arguments_are_completed(chat: Drt, tmp_path: Path) -> None:
    completions = partial(_completions, Library(tmp_path / "library"))
    assert completions("/s") == ["/sources", "/show", "/save"]
    assert completions("/doc HAND") == ["/doc handbook.txt"]
    assert completions("/mode f") == ["/mode free"]
    assert completions("Which per") == completions("") == completions("/save x") == []
    assert partial(_completions, Library(tmp_path / "nowhere"))("/doc x") == []


def typed(keys: str, tmp_path: Path, *, later: str = "") -> list[str | None]:
    """The lines that prompt_toolkit reads from keys, and from some that come later."""
    toolkit_input = pytest.importorskip("prompt_toolkit.input")
    output = pytest.importorskip("prompt_toolkit.output")
    completions = partial(_completions, Library(tmp_path / "library"))
    lines: list[str | None] = []
    with toolkit_input.create_pipe_input() as pipe:
        pipe.send_text(keys)
        timer = threading.Timer(1.0, pipe.send_text, [later])  # once it has completed
        timer.start()
        with line_reader(completions, input=pipe, output=output.DummyOutput()) as read:
            for _ in range((keys + later).count("\r") + (keys + later).count("\x04")):
                lines.append(read("> "))
        timer.cancel()
        timer.join()
    return lines


@pytest.mark.thorough
def test_a_terminal_completes_and_remembers(chat: Drt, tmp_path: Path) -> None:
    up, tab, end = "\x1b[A", "\t", "\x04"
    assert typed(f"/so{tab}", tmp_path, later=f"\r{end}") == ["/sources", None]
    assert typed("Which period?\r", tmp_path) == ["Which period?"]
    assert typed("", tmp_path, later=f"{up}\r") == ["Which period?"]  # of the one before
    history = tmp_path / "state" / "chat-lines"
    assert history.stat().st_mode & 0o077 == 0


def test_no_terminal_needs_no_toolkit(chat: Drt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prompt_toolkit", None)
    assert "period" in chat("Which period?").out
