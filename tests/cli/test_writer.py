"""`drt ask --writer`: where text goes, what is printed, and exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

import drt
from drt import LocalWriter
from drt_cli import _local_writer
from tests.cli.conftest import Drt
from tests.sdk.writer.endpoint import Script, served

pytestmark = pytest.mark.skipif(find_spec("openai") is None, reason="no openai")
QUESTION = "Which period?"


@pytest.mark.thorough
def test_sentences_sources_and_quotes_are_printed(drt: Drt, handbook: Path) -> None:
    text = "The notice period is thirty days [1]. Whales sing [1]."
    with served(Script(text=text)) as script:
        words = ["ask", QUESTION, handbook, "--writer", script.url, "--writer-model", "m"]
        ended = drt(*words)
        assert ended.code == 0, ended.err
        assert "to the writer m at 127.0.0.1:" in ended.err
        lines = ended.out.splitlines()
        assert lines[0] == "The notice period is thirty days [1]."
        assert lines[1] == "Whales sing [1]. [unsupported: its sources do not say it]"
        assert '"period"' in lines and any(line.startswith("[1] ") for line in lines)
        assert drt(*words, "--strict", "--json").json["writing"]["state"] == "partly"
        assert len(drt(*words, "--jsonl").out.splitlines()) == 3
        script.status = 429
        failed = drt(*words, "--writer-timeout", 5)
        assert failed.code == 3 and "429" in failed.err and '"period"' in failed.out


@pytest.mark.thorough
def test_what_was_written_is_exported(drt: Drt, handbook: Path) -> None:
    text = "The notice period is thirty days [1]. Whales sing [1]."
    with served(Script(text=text)) as script:
        words = ["ask", QUESTION, handbook, "--writer", script.url, "--writer-model", "m"]
        ended = drt(*words, "--export", "html")
        assert ended.code == 0 and ended.out.startswith("<!doctype html>"), ended.err
        assert "Whales sing [1].</span> [unsupported:" in ended.out and "<mark>" in ended.out
        script.status = 429
        failed = drt(*words, "--export", "obsidian", "--writer-timeout", 5)
        assert failed.code == 3 and failed.out.startswith("## Which period?")
        assert drt(*words, "--markdown").code == 2


def test_wrong_usage(drt: Drt, handbook: Path) -> None:
    assert drt("ask", QUESTION, handbook, "--writer", "http://127.0.0.1:1").code == 2
    assert drt("ask", QUESTION, handbook, "--strict").code == 2
    words = ["ask", QUESTION, handbook, "--writer-model", "m", "--writer"]
    assert drt(*words, "http://127.0.0.1:1", "--stream").code == 2
    ended = drt(*words, "nonsense")
    assert ended.code == 1 and "expected an address" in ended.err


@pytest.mark.thorough
def test_a_conversation_is_written_and_goes_on_where_the_writer_fails(
    drt: Drt, handbook: Path
) -> None:
    drt("ingest", handbook)
    text = "The notice period is thirty days [1]. Whales sing [1]."
    with served(Script(text=text)) as script:
        words = ["chat", "--session", "talk", "--writer-timeout", 1, "--writer-model", "m"]
        words += ["--writer", script.url]
        ended = drt(*words, stdin="Which period?\nSummarize it\n")
        lines = ended.out.splitlines()
        assert ended.code == 0 and lines[0] == "The notice period is thirty days [1]."
        assert "[unsupported: its sources do not say it]" in lines[1] and '"period"' in lines
        assert len(script.requests) == 1  # a summary is drt's own
        for change, problem in (
            ({"status": 429}, "429"),
            ({"status": 200, "raw": b"data: {not json\n\n"}, "not send a stream"),
            ({"hangs": True}, "within 1 s"),
        ):
            vars(script).update(change)
            failed = drt(*words, stdin="Which period?\n")
            assert failed.code == 0 and problem in failed.err and '"period"' in failed.out
    turns = drt("session", "show", "--json", "talk").json["turns"]
    assert [turn["answer"] for turn in turns][-1] == "period"
    states = [turn["writing"] and turn["writing"]["state"] for turn in turns]
    assert states == ["partly", None, "failed", "failed", "failed"]


def test_what_was_written_is_shown_and_exported(drt: Drt, handbook: Path, tmp_path: Path) -> None:
    drt("ingest", handbook)
    text = "The notice period is thirty days [1]. Whales *sing* [1]."
    with served(Script(text=text)) as script:
        words = ["chat", "--session", "talk", "--writer-model", "m", "--writer", script.url]
        saved = [tmp_path / "talk.md", tmp_path / "talk.json"]
        lines = "".join(f"/save {file}\n" for file in saved)
        assert drt(*words, stdin=f"Which period?\n{lines}").code == 0
    shown = drt("session", "show", "talk").out.splitlines()
    assert shown[:2] == [
        "> Which period?",
        f"Written by m at {script.url[7:-3]}: some sentences are supported.",
    ]
    assert "[unsupported: its sources do not say it]" in " ".join(shown)
    assert shown[-3:-1] == ["Quotes:", "period"]
    exported = drt("session", "export", "talk").out
    assert "some sentences are supported" in exported and "Whales \\*sing\\*" in exported
    assert "- [1] handbook" in exported and "thirty days." in exported
    assert "Whales \\*sing\\*" in saved[0].read_text()
    assert json.loads(saved[1].read_text())[0]["writing"]["state"] == "partly"
    assert "talk, turn 1" in drt("session", "search", "whales").out


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets what is found on this machine."""

    def use(*writers: LocalWriter) -> None:
        monkeypatch.setitem(vars(drt), "local_writers", lambda: writers)

    return use


def answer_with(monkeypatch: pytest.MonkeyPatch, number: int) -> list[str]:
    """Let a terminal choose a number; returns what it was asked."""
    asked: list[str] = []

    def prompt(text: str, **_: object) -> int:
        asked.append(text)
        return number

    monkeypatch.setattr(_local_writer.click, "prompt", prompt)
    monkeypatch.setattr(_local_writer, "_is_terminal", lambda: True)
    return asked


def test_a_writer_on_this_machine_is_asked_for_once(
    drt: Drt, handbook: Path, found: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["ask", QUESTION, handbook, "--writer", "auto"]
    with served(Script(text="The notice period is thirty days [1].")) as script:
        found(LocalWriter("Ollama", script.url, ("small", "large")))
        piped = drt(*words)
        assert piped.code == 1 and "asks once on a terminal" in piped.err
        assert script.requests == []
        asked = answer_with(monkeypatch, 2)
        chosen = drt(*words)
        assert chosen.code == 0 and chosen.out.startswith("The notice period is thirty days [1].")
        assert "  2  large (Ollama, " in chosen.err and script.requests[-1]["model"] == "large"
        monkeypatch.setattr(_local_writer, "_is_terminal", lambda: False)
        assert drt(*words).code == 0 and script.requests[-1]["model"] == "large"
        assert len(asked) == 1  # and remembered without a terminal
        found(LocalWriter("Ollama", script.url, ("small",)))
        assert drt(*words).code == 1  # it is gone
        assert drt(*words, "--writer-model", "small").code == 0  # named, so it need not be asked


def test_nothing_is_sent_without_a_yes(
    drt: Drt, handbook: Path, found: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["ask", QUESTION, handbook, "--writer", "auto"]
    with served(Script(text="x")) as script:
        found(LocalWriter("Ollama", script.url, ("small",)))
        answer_with(monkeypatch, 0)
        assert drt(*words).code == 130 and script.requests == []
        missing = drt(*words, "--writer-model", "huge")
        assert missing.code == 1 and "has a language model 'huge'" in missing.err
        found()
        none = drt(*words)
        assert none.code == 1 and "no language model is found" in none.err
