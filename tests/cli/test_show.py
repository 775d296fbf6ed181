"""`drt show`: from a citation to its passage, and to the document."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from drt_cli import _open
from tests.cli.conftest import Drt


def test_the_number_of_the_last_answers_citation(drt: Drt, handbook: Path) -> None:
    drt("ask", "Which period?", handbook)
    result = drt("show", "1")
    assert (result.code, result.err) == (0, "")
    place, source, _, *text = result.out.splitlines()
    assert place.startswith("handbook.txt, page 3, Part > Terms, ") and place.endswith(":11-17")
    assert source == str(handbook)
    assert text[0].startswith("The notice «period» is thirty days.")


def test_the_handle_that_ask_prints(drt: Drt, handbook: Path) -> None:
    out = drt("ask", "Which period?", handbook).out
    handle = out.split("Terms, ")[1].split(",")[0]
    assert drt("show", handle).out == drt("show", "1").out
    assert drt("show", "handbook.txt:11-17", "--around", "0").out.endswith("\n«period»\n")


def test_a_number_means_the_library_that_was_asked(
    drt: Drt, handbook: Path, tmp_path: Path
) -> None:
    drt("--library", tmp_path / "other", "ask", "Which period?", handbook)
    assert drt("show", "1").code == 0


def test_summaries_and_traces_have_numbers_too(drt: Drt, handbook: Path) -> None:
    drt("summarize", handbook)
    assert "«The notice period is thirty days.»" in drt("show", "1").out


@pytest.mark.parametrize("citation", ["1", "7", "handbook.txt", "nobody.txt:1-2"])
def test_what_leads_nowhere_is_one_line(drt: Drt, handbook: Path, citation: str) -> None:
    drt("ingest", handbook)
    result = drt("show", citation)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("drt: ") and result.err.count("\n") == 1


def test_an_answer_of_a_program_is_remembered_too(drt: Drt, handbook: Path) -> None:
    drt("ask", "--json", "Which period?", handbook)
    assert drt("show", "--json", "1").json["quote"] == "period"


@pytest.mark.parametrize(
    ("viewer", "arguments"),
    [
        ("evince", ["--page-index=3", "FILE"]),
        ("okular", ["-p", "3", "FILE"]),
        ("zathura", ["--page=3", "FILE"]),
        ("mupdf", ["FILE", "3"]),
        (None, ["URI#page=3"]),
    ],
)
def test_a_pdf_is_opened_at_its_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, viewer: str | None, arguments: list[str]
) -> None:
    file = tmp_path / "a b.pdf"
    have = {viewer, "xdg-open"}
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(_open.shutil, "which", lambda name: name if name in have else None)
    command = _open.opener(file, 3)
    wanted = [a.replace("FILE", str(file)).replace("URI", file.as_uri()) for a in arguments]
    assert command == [viewer or "xdg-open", *wanted]


def test_other_systems_and_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_open.shutil, "which", lambda name: name)
    monkeypatch.setattr(sys, "platform", "linux")
    assert _open.opener(tmp_path / "a.txt", None) == ["xdg-open", str(tmp_path / "a.txt")]
    monkeypatch.setattr(sys, "platform", "darwin")
    assert _open.opener(tmp_path / "a.pdf", 2) == ["open", str(tmp_path / "a.pdf")]


def test_open_starts_the_program_and_prints_the_passage(
    drt: Drt, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []
    monkeypatch.setattr(_open.subprocess, "Popen", lambda command, **_: started.append(command))
    monkeypatch.setattr(_open.shutil, "which", lambda name: name)
    monkeypatch.setattr(sys, "platform", "linux")
    drt("ask", "Which period?", handbook)
    assert "«period»" in drt("show", "1", "--open").out
    assert started == [["xdg-open", str(handbook)]]
    handbook.unlink()
    gone = drt("show", "1", "--open")
    assert gone.code == 1 and "not there any more" in gone.err
