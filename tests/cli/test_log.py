"""`drt log`: questions that were asked, for a reader and for a program, and how to keep none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Drt


def test_questions_are_listed_searched_and_cleared(drt: Drt, handbook: Path) -> None:
    assert drt("log").err == "No question is logged.\n"
    drt("ask", "Which period?", handbook)
    drt("ask", "Which zeppelin?")
    lines = drt("log").out.splitlines()
    assert len(lines) == 4 and lines[0].endswith("  Which zeppelin?")
    assert lines[1].startswith("  the documents do not say, handbook.txt, ")
    assert lines[3].startswith('  "period", handbook.txt, ')
    assert drt("log", "PERIOD", "handbook").out.splitlines() == lines[2:]
    assert drt("log", "--last", "1").out.splitlines() == lines[:2]
    shown = drt("log", "period", "--json").json
    assert [entry["answer"] for entry in shown["entries"]] == ["period"]
    assert drt("show", shown["entries"][0]["citations"][0]).code == 0
    assert drt("log", "submarine").err == "No question of the log contains this.\n"
    assert drt("log", "x", "--clear").code == 2
    assert drt("log", "--clear").out == "deleted  2 questions\n"
    assert drt("log").out == ""


def test_it_can_be_switched_off(drt: Drt, handbook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drt("ask", "Which period?", handbook, "--no-log")
    monkeypatch.setenv("DRT_LOG", "0")
    drt("ask", "Which period?")
    monkeypatch.delenv("DRT_LOG")
    drt("config", "set", "log", "false")
    drt("ask", "Which period?")
    assert drt("log").out == ""
    drt("ask", "Which keeper?", "--log")
    assert "Which keeper?" in drt("log").out


def test_forgetting_a_document_forgets_its_entries(drt: Drt, handbook: Path) -> None:
    drt("ask", "Which period?", handbook)
    drt("library", "remove", "handbook.txt", "--forget")
    assert drt("log").out == ""
