"""`drt ask`: what a reader sees, what a program gets, and the exit codes."""

from __future__ import annotations

import io
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from drt import Assistant
from drt_cli._output import print_citation
from drt_engine import errors
from drt_engine.store import Store
from tests.cli.conftest import Drt
from tests.sdk.fakes import FakeEngine

PLACE = r"\[1\] handbook.txt, page 3, Part > Terms, [0-9a-f]{8}:11-17"


def test_a_quote_with_its_place_and_its_sentence(drt: Drt, handbook: Path) -> None:
    result = drt("ask", "Which period?", handbook)
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert re.fullmatch(f"  {PLACE}", lines.pop(1))
    assert lines == [
        '"period"',
        "  The notice «period» is thirty days.",
        "",
        "probability that this is right: 50%",
    ]


def test_a_quote_that_answers_whole_has_no_marks_inside(
    drt: Drt, handbook: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Assistant(tmp_path / "marks.library") as assistant:
        assistant.ingest(handbook)
        (citation, *_) = assistant.ask("Which period?").citations
    quote = "The notice period is\nthirty days."
    for span, shown in (
        (quote, '"The notice period is thirty days."'),
        (quote.removesuffix("."), '"The notice period is thirty days."'),
        ("thirty days", '"The notice period is «thirty days»."'),
    ):
        at = citation.start + quote.index(span)
        words = {"span_start": at, "span_end": at + len(span)}
        print_citation(replace(citation, quote=quote, context=quote, **words))
        assert capsys.readouterr().out.splitlines()[0] == shown


def test_further_quotes_follow(drt: Drt, handbook: Path) -> None:
    handbook.write_text("One period. Another period.")
    lines = drt("ask", "Which period?", handbook).out.splitlines()
    assert [line for line in lines if line.startswith('"')] == ['"period"', '"period"']
    assert "  Another «period»." in lines
    assert lines.count("Other places that may answer:") == 1


def test_a_sentence_is_not_shown_twice(drt: Drt, handbook: Path) -> None:
    handbook.write_text("A period is a period. Another period.")
    lines = drt("ask", "Which period?", handbook).out.splitlines()
    assert sum("is a" in line for line in lines) == 1
    assert lines.count("Other places that may answer:") == 1
    assert "  Another «period»." in lines


def test_not_found_shows_the_closest_passage(drt: Drt, handbook: Path) -> None:
    result = drt("ask", "Which zeppelin?", handbook)
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0] == "The document does not say."
    assert lines[2:4] == ["Closest passage:", "  Before. See the annex. After."]
    assert lines[-2:] == ["probability that the document says it: 12%", "Try other words."]


def test_a_likely_passage_is_said_to_be_one(drt: Drt, handbook: Path) -> None:
    result = drt("ask", "Which zeppelin is likely?", handbook)
    lines = result.out.splitlines()
    assert lines[0] == "The document probably says it here:"
    assert lines[2].startswith("  Before. ") and "«the»" in lines[2].lower()
    assert lines[3].startswith("  [1] handbook.txt") and "%" not in lines[-1]
    assert lines[5] == "Or here:" and lines[6].startswith("  Then. ")
    assert lines[7].startswith("  [2] handbook.txt")
    assert drt("ask", "--json", "Which zeppelin is likely?", handbook).json["state"] == "likely"


def test_markdown_marks_the_words_and_notes_the_places(drt: Drt, handbook: Path) -> None:
    text = drt("ask", "--markdown", "Which period?", handbook).out
    assert text.startswith(
        "The notice **period** is thirty days.[^1]\n\n[^1]: handbook.txt, page 3"
    )
    likely = drt("ask", "--markdown", "Which zeppelin is likely?", handbook).out
    assert likely.startswith("The document probably says it here:\n\nBefore. ")
    assert "[^1]\n\nOr here:\n\nThen. " in likely
    wrong = drt("ask", "--markdown", "--json", "Which period?", handbook)
    assert (
        wrong.code == 2 and "--markdown prints whole answers as text; use it without" in wrong.err
    )


def test_json_has_the_documented_shape_and_nothing_else(drt: Drt, handbook: Path) -> None:
    result = drt("ask", "--json", "Which period?", handbook)
    keys = ["question", "answer", "found", "state", "confidence", "quote_probability", "mode"]
    keys += ["origin", "verdict", "hint", "sentence", "passage", "second_passage", "citations"]
    keys += ["tokens_read"]
    assert list(result.json) == [*keys, "seconds", "model", "unread_libraries", "scan"]
    assert list(result.json["citations"][0]) == [
        "document",
        "title",
        "source",
        "start",
        "end",
        "quote",
        "page",
        "section",
        "line",
        "source_start",
        "source_end",
        "span_start",
        "span_end",
        "probability",
        "metadata",
        "likely",
        "library",
        "more_items",
        "page_label",
        "sentence",
        "handle",
    ]
    assert result.json["answer"] == "period" and result.json["question"] == "Which period?"
    assert result.json["citations"][0]["sentence"] == "The notice period is thirty days."
    assert drt("show", result.json["citations"][0]["handle"], "--json").json["quote"] == "period"


def test_json_of_not_found_has_an_empty_answer(drt: Drt, handbook: Path) -> None:
    found = drt("ask", "--json", "Which zeppelin?", handbook).json
    assert (found["answer"], found["found"], len(found["citations"])) == ("", False, 1)


def test_paths_restrict_the_question(drt: Drt, engine: FakeEngine, handbook: Path) -> None:
    other = handbook.with_name("other.txt")
    other.write_text("The period of a pendulum.")
    assert drt("ingest", other, handbook).code == 0
    id = drt("library", "show", "--json", "handbook.txt").json["id"]
    drt("ask", "Which period?", handbook)
    assert engine.asked[-1]["documents"] == (id,)
    drt("ask", "Which period?", "--doc", "other.txt", handbook)
    assert len(engine.asked[-1]["documents"]) == 2
    drt("ask", "Which period?")
    assert "documents" not in engine.asked[-1] or engine.asked[-1]["documents"] is None


def test_options_reach_the_engine(drt: Drt, engine: FakeEngine, handbook: Path) -> None:
    drt("ingest", handbook)
    options = ["--mode", "free", "--top-k", "3", "--retriever", "landmark", "--no-reread"]
    drt("ask", "Which period?", *options, "--threshold", "0.4", "--max-tokens", "9")
    assert engine.asked[-1] == {
        "question": "Which period?",
        "documents": None,
        "mode": "free",
        "top_k": 3,
        "retriever": "landmark",
        "reread": False,
        "threshold": 0.4,
        "max_tokens": 9,
    }


def test_free_text_comes_before_its_evidence(drt: Drt, handbook: Path) -> None:
    lines = drt("ask", "--mode", "free", "Which period?", handbook).out.splitlines()
    assert lines[:3] == ["period", "", '"period"']


def test_a_stream_prints_the_same_answer(drt: Drt, handbook: Path) -> None:
    lines = drt("ask", "--stream", "--mode", "free", "Which period?", handbook).out.splitlines()
    assert lines[:3] == ["period", "", '"period"']
    lines = drt("ask", "--stream", "Which zeppelin?", handbook).out.split("\n")
    assert "The document does not say." in lines
    assert drt("ask", "--stream", "--json", "Which?", handbook).code == 2


def test_explain_adds_the_trace(drt: Drt, handbook: Path) -> None:
    result = drt("ask", "--explain", "Which period?", handbook)
    assert "question: Which period?" in result.out
    as_json = drt("ask", "--explain", "--json", "Which period?", handbook)
    assert as_json.json["found"] and "question: Which period?" in as_json.err


def test_a_session_is_continued(drt: Drt, handbook: Path) -> None:
    drt("ask", "--session", "review", "Which period?", handbook)
    drt("ask", "--session", "review", "Which keeper?")
    turns = drt("session", "show", "--json", "review").json["turns"]
    assert [turn["question"] for turn in turns] == ["Which period?", "Which keeper?"]


def test_one_bad_path_of_several_is_partly_done(drt: Drt, handbook: Path) -> None:
    missing = handbook.with_name("missing.txt")
    result = drt("ask", "Which period?", handbook, missing)
    assert result.code == 3
    assert result.err == f"drt: {missing} does not exist; check the path.\n"
    assert '"period"' in result.out
    only = drt("ask", "Which period?", missing)
    assert (only.code, only.out) == (1, "")


def test_a_conversation_of_no_name_is_refused(drt: Drt, handbook: Path) -> None:
    for command in ("ask", "chat"):
        arguments = ["Which period?", handbook] if command == "ask" else []
        result = drt(command, *arguments, "--session", "")
        assert result.code == 1 and "cannot name a session" in result.err
    assert drt("session", "list").out == ""


def test_text_cannot_drive_the_terminal(drt: Drt, engine: FakeEngine, handbook: Path) -> None:
    handbook.write_text("Before \x9b31mperiod\x9b0m and \u202eafter the period.")
    result = drt("ask", "Which period?", handbook)
    assert "\x9b" not in result.out and "\u202e" not in result.out
    assert "\\x9b31m" in result.out or "31m" in result.out
    assert "\\u202eafter" in result.out


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (errors.QuestionError("the question is longer than 20 chunks."), "20 chunks."),
        (errors.CorruptStore("segment 7 is damaged."), "segment 7 is damaged."),
        (errors.StorageFull("no room is left."), "no room is left."),
    ],
)
def test_an_engine_error_is_one_line(
    drt: Drt, engine: FakeEngine, handbook: Path, error: Exception, sentence: str
) -> None:
    drt("ingest", handbook)
    engine.raises["ask"] = error
    result = drt("ask", "Which period?")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("drt: ") and result.err.endswith(f"{sentence}\n")
    assert result.err.count("\n") == 1


def test_an_empty_library_and_a_missing_model_are_sentences(
    drt: Drt, engine: FakeEngine, tmp_path: Path, handbook: Path
) -> None:
    result = drt("ask", "Which period?")
    library = tmp_path / "library"
    empty = f"drt: the library at {library} holds no documents; read one first with "
    empty += "`drt ingest PATH`.\n"
    assert (result.code, result.err) == (1, empty)
    engine.raises["load_runtime"] = errors.WeightsError("no model folder nowhere.")
    assert drt("--model", "nowhere", "ask", "Q", handbook).err == "drt: no model folder nowhere.\n"


def test_another_models_library_is_a_sentence(drt: Drt, engine: FakeEngine, handbook: Path) -> None:
    drt("ingest", handbook)
    engine.fingerprint = "fake-2"
    result = drt("ask", "Which period?")
    assert result.code == 1
    assert "fake-1" in result.err and "fake-2" in result.err and result.err.count("\n") == 1


def test_a_terminal_shows_the_quote_in_bold(
    drt: Drt, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    drt("ask", "Which period?", handbook)
    assert "The notice \x1b[1mperiod\x1b[22m is thirty days." in screen.getvalue()


UNSAVED = "drt: the question was answered, but the conversation was not saved: the disk is full.\n"


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise errors.StorageFull("the disk is full.")

    monkeypatch.setattr(Store, "save_session", refuse)


@pytest.mark.parametrize("options", [[], ["--stream"], ["--json"], ["--jsonl"]], ids=str)
def test_an_answer_outlives_a_conversation_that_cannot_be_saved(
    drt: Drt, handbook: Path, full_disk: None, options: list[str]
) -> None:
    alone = drt("ask", *options, "Which period?", handbook)
    result = drt("ask", "--session", "review", *options, "Which period?")
    assert (result.code, result.err) == (3, UNSAVED)
    if options == ["--json"]:
        assert {**result.json, "seconds": 0} == {**alone.json, "seconds": 0}
    elif options == ["--jsonl"]:
        assert json.loads(result.out)["citations"] == json.loads(alone.out)["citations"]
    else:
        assert result.out == alone.out and '"period"' in result.out


def test_all_questions_are_answered_where_none_can_be_saved(
    drt: Drt, handbook: Path, full_disk: None
) -> None:
    lines = "Which period?\nWhich keeper?\n"
    drt("ingest", handbook)
    result = drt("ask", "--session", "review", "--jsonl", "-", stdin=lines)
    assert (result.code, result.err) == (3, UNSAVED * 2)
    answers = [json.loads(line)["answer"] for line in result.out.splitlines()]
    assert answers == ["period", "keeper"]


def test_every_place_that_answers(drt: Drt, handbook: Path) -> None:
    handbook.write_text("One period. Another period. See the annex.")
    result = drt("ask", "Which period?", handbook, "--all")
    lines = result.out.splitlines()
    assert lines[0] == '"period"  (2 places, confidence 0.75)' and result.code == 0
    assert lines[1].startswith("  [1] handbook.txt") and lines[3].startswith("  [2] handbook.txt")
    assert lines[4] == "      Another «period»." and lines[-1] == "4 passages read"
    assert "Another «period»." in drt("show", "2").out
    found = drt("ask", "Which period?", "--all", "--json").json
    assert [len(answer["citations"]) for answer in found["answers"]] == [2]
    (line,) = drt("ask", "-", "--all", "--jsonl", stdin="Which period?\n").out.splitlines()
    assert json.loads(line)["type"] == "answers"
    assert drt("ask", "Which zeppelin?", "--all").out.startswith("No place surely answers;")
    assert drt("ask", "Which period?", "--all", "--stream").code == 2
