"""The main path, from a file to answers, by the real commands."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.e2e.conftest import Drt
from tests.model_folder import quoting

QUESTION = "Who keeps the key of the store?"
KEYS = ["question", "answer", "found", "state", "confidence", "quote_probability", "mode"]
KEYS += ["origin", "verdict", "hint", "sentence", "passage", "second_passage", "citations"]
KEYS += ["tokens_read", "seconds", "model", "unread_libraries", "scan"]
CITATION = ["document", "title", "source", "start", "end", "quote", "page", "section", "line"]
CITATION += ["source_start", "source_end", "span_start", "span_end", "probability", "metadata"]
CITATION += ["likely", "library", "more_items", "page_label", "sentence", "handle"]
ANY = ("--threshold", 0)


def test_read_ask_and_check_the_quote(drt: Drt, manual: Path, letters: Path) -> None:
    assert drt("ingest", manual, letters).code == 0
    assert "unchanged" in drt("ingest", manual).out
    answer = drt("ask", QUESTION, *ANY, "--json")
    assert (answer.code, answer.err) == (0, "")
    assert list(answer.json) == KEYS
    for citation in answer.json["citations"]:
        assert list(citation) == CITATION
        name, places = citation["document"], (citation["start"], citation["end"])
        shown = drt("library", "show", name, "--text", "--start", places[0], "--end", places[1])
        assert shown.out == citation["quote"]
    assert answer.json["answer"] == answer.json["citations"][0]["quote"]
    plain = drt("ask", QUESTION, *ANY)
    assert " ".join(answer.json["answer"].split()) in plain.out
    assert drt("ask", QUESTION, *ANY, "--stream").out.startswith(answer.json["answer"])


def test_what_is_not_found(drt: Drt, manual: Path) -> None:
    answer = drt("ask", QUESTION, manual, "--threshold", 1, model=quoting().folder)
    assert answer.code == 0
    assert answer.out.startswith("The document does not say.") and "Closest passage" in answer.out


@pytest.mark.thorough
def test_paths_restrict_the_question(drt: Drt, manual: Path, letters: Path) -> None:
    drt("ingest", manual)
    answer = drt("ask", QUESTION, letters, *ANY, "--json").json
    assert {citation["source"] for citation in answer["citations"]} == {str(letters)}
    answer = drt("ask", QUESTION, "--doc", "manual.md", *ANY, "--json").json
    assert {citation["source"] for citation in answer["citations"]} == {str(manual)}


@pytest.mark.thorough
def test_a_session_over_several_commands(drt: Drt, manual: Path) -> None:
    model = quoting().folder
    first = drt("ask", QUESTION, manual, "--session", "review", *ANY, "--json", model=model).json
    further = ("ask", "And what burns?", *ANY, "--json")
    second = drt(*further, "--session", "review", model=model).json
    alone = drt(*further, model=model).json
    assert second["confidence"] != alone["confidence"]
    assert "review" in drt("session", "list").out
    shown = drt("session", "show", "review").out
    assert QUESTION in shown and " ".join(first["answer"].split()) in " ".join(shown.split())
    chat = drt("chat", model=model, stdin=f"{QUESTION}\n/quit\n".encode())
    assert chat.code == 0 and chat.out


@pytest.mark.thorough
def test_free_text_ends(drt: Drt, manual: Path) -> None:
    arguments = ["ask", QUESTION, manual, *ANY, "--mode", "free", "--max-tokens", 12]
    answer = drt(*arguments, "--json").json
    assert answer["mode"] == "free" and answer["answer"] and answer["citations"]
    assert drt(*arguments, "--stream").code == 0


@pytest.mark.thorough
def test_summaries(drt: Drt, manual: Path) -> None:
    for mode in ("auto", "abstractive"):
        summary = drt("summarize", manual, "--mode", mode, "--length", "short", "--json")
        assert (summary.code, summary.err) == (0, "")
        assert 0 < len(summary.json["text" if "text" in summary.json else "summary"].split()) <= 60
    focused = drt("summarize", manual, "--focus", "bell and gun")
    assert focused.code == 0 and re.search(r"^\[1\] .*, [0-9a-f]{8}:\d+-\d+$", focused.out, re.M)


@pytest.mark.thorough
def test_trace_and_explain(drt: Drt, manual: Path) -> None:
    drt("ingest", manual)
    assert "answer chunk 1" in drt("trace", QUESTION).out
    assert "answer chunk 1" in drt("ask", QUESTION, *ANY, "--explain").out


def test_the_page_has_the_numbers_of_the_trace(drt: Drt, manual: Path, tmp_path: Path) -> None:
    page = tmp_path / "trace.html"
    trace = drt("trace", QUESTION, manual, *ANY, "--html", page, "--json").json
    text = page.read_text(encoding="utf-8")
    for group in trace["groups"]:
        for entry in group["entries"]:
            for share in (entry["probability"], entry["mass"]):
                assert share is None or f"<b>{share:.1%}</b>" in text
            assert f"<b>{entry['score']:.2f}</b>" in text
        for candidate in group["by_landmark"]:
            assert f'<span class="num">{candidate["score"]:.2f}</span>' in text
    answer = "".join(token["text"] for token in trace["tokens"] if token["part"] == "answer")
    assert answer == trace["answer"]["answer"]
    assert {document["id"] for document in trace["documents"]} == {
        entry["document"] for group in trace["groups"] for entry in group["entries"]
    }


def test_an_answers_citation_is_shown(drt: Drt, manual: Path) -> None:
    answer = drt("ask", QUESTION, manual, *ANY, "--json").json
    shown = drt("show", "1", "--json").json
    assert shown["quote"] == answer["citations"][0]["quote"]
    assert f"«{shown['quote']}»" in drt("show", "1").out


def test_changes_and_sections(drt: Drt, manual: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.md"
    old.write_text(manual.read_text().replace("thirty", "ten"), encoding="utf-8")
    changes = drt("summarize", manual, "--since", old)
    assert changes.code == 0 and "thirty [was: ten] days" in changes.out
    section = drt("summarize", manual, "--section", "fog", "--words", 20, "--json").json
    assert len(section["summary"].split()) <= 20
    assert {sentence["section"] for sentence in section["sentences"]} == {"Lighthouse manual > Fog"}
    wrong = drt("summarize", manual, "--section", "frog")
    assert wrong.code == 1 and "'Fog'" in wrong.sentence


def test_a_watched_folder(drt: Drt, manual: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("drt._assistant.time.sleep", interrupt)
    folder = manual.parent / "watched"
    folder.mkdir()
    os.utime(manual.rename(folder / "manual.md"), (1e9, 1e9))
    watched = drt("ingest", "--watch", folder)
    assert (watched.code, watched.out.split()[0]) == (130, "read")


@pytest.mark.thorough
def test_removing_a_document(drt: Drt, manual: Path, letters: Path) -> None:
    drt("ingest", manual, letters)
    assert drt("library", "remove", "letters.txt").code == 0
    answer = drt("ask", QUESTION, *ANY, "--json").json
    assert {citation["source"] for citation in answer["citations"]} == {str(manual)}
    checked = drt("library", "check")
    assert (checked.code, checked.out) == (0, "")
    assert drt("library", "stats", "--json").json["model"] == "drt-tiny"
