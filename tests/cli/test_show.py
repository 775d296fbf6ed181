"""`drt show`: from a citation to its passage, and to the document."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from drt_cli import _open, _state
from drt_engine.documents import Source
from drt_engine.ingest.identity import file_digest
from drt_engine.store import Store
from tests.cli.conftest import Drt
from tests.tables import each_row


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
    handle = out.split("Terms, ")[1].split()[0]
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


@each_row(
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


def at_terminal(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(_state, "this_terminal", lambda: name)


def test_a_number_is_of_this_library_and_this_terminal(
    drt: Drt, handbook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_terminal(monkeypatch, "one")
    drt("ask", "Which period?", handbook)
    at_terminal(monkeypatch, "two")
    drt("ask", "Which keeper?")
    for terminal, quote in (("two", "«keeper»"), ("one", "«period»")):
        at_terminal(monkeypatch, terminal)
        shown = drt("show", "1")
        assert quote in shown.out and shown.err == ""
    at_terminal(monkeypatch, "three")
    other = drt("show", "1")
    assert "«keeper»" in other.out and "'Which keeper?', asked in another terminal." in other.err
    at_terminal(monkeypatch, "one")
    place = tmp_path / "other"
    drt("--library", place, "ask", "The annex?", handbook)
    of_this = drt("show", "1")
    assert "«period»" in of_this.out and "'Which period?', asked earlier." in of_this.err
    drt("library", "remove", "handbook.txt")
    assert "«annex»" in drt("--library", place, "show", "1").out


def test_an_answer_of_another_library_says_so(drt: Drt, handbook: Path, tmp_path: Path) -> None:
    place = tmp_path / "other"
    drt("--library", place, "ask", "Which period?", handbook)
    shown = drt("show", "1")
    assert "«period»" in shown.out and f"asked of the library at {place}." in shown.err


def test_what_is_remembered_is_private_and_limited(
    drt: Drt, handbook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_state, "MOST", 3)
    for terminal in range(5):
        at_terminal(monkeypatch, str(terminal))
        drt("ask", "Which period?", handbook)
    file = tmp_path / "state" / _state.NAME
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(json.loads(file.read_text())["answers"]) == 3


@pytest.mark.parametrize("text", ["", "[" * 20_000, "[]", '{"answers": [1]}', "\udcff"])
def test_a_broken_memory_is_none(drt: Drt, handbook: Path, tmp_path: Path, text: str) -> None:
    drt("ingest", handbook)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / _state.NAME).write_text(text, errors="surrogateescape")
    shown = drt("show", "1")
    assert shown.code == 1 and "no answer is remembered" in shown.err
    assert drt("ask", "Which period?").code == 0 and drt("show", "1").code == 0


def test_a_handle_that_ends_before_it_begins_says_so(drt: Drt, handbook: Path) -> None:
    drt("ingest", handbook)
    for handle in ("handbook.txt:50-10", "handbook.txt:5-5"):
        result = drt("show", handle)
        assert result.code == 1 and f"'{handle}' ends where it begins or before" in result.err


def test_a_file_that_has_changed_since_is_named(
    drt: Drt, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(handbook.parent)
    drt("ingest", handbook)
    digest = file_digest(Source.from_path(handbook))
    assert digest is not None
    with Store.open(handbook.with_name("library")) as store:  # the fake one notes nothing
        store.note_source(str(handbook), digest, store.documents()[0].id)
    handbook.touch()
    assert drt("ask", "Which period?").err == drt("show", "1").err == ""
    handbook.write_text("Another text.", encoding="utf-8")
    changed = (
        "handbook.txt has changed since it was read; drt ingest handbook.txt reads it again.\n"
    )
    for words in (("ask", "Which period?"), ("ask", "Which period?", "--json"), ("show", "1")):
        result = drt(*words)
        assert result.code == 0 and result.err == changed and "thirty days" in result.out
    assert drt("show", "1", "--quiet").err == ""
    os.utime(handbook, (1_000_000_000, 1_000_000_000))  # not since
    assert drt("show", "1").err == ""
    handbook.unlink()
    gone = "handbook.txt is not there any more; the answer is from what was read of it.\n"
    assert drt("show", "1").err == gone


@pytest.mark.thorough
def test_a_page_of_a_pdf_is_written_as_a_picture(drt: Drt, handbook: Path, tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    from tests.engine.documents.helpers import make_pdf

    file = tmp_path / "a.pdf"
    file.write_bytes(make_pdf([["The keeper signs every log."]]))
    drt("ask", "Which keeper?", file)
    picture = tmp_path / "page.png"
    result = drt("show", "1", "--png", picture)
    assert (result.code, result.err) == (0, "")
    assert picture.read_bytes().startswith(b"\x89PNG")
    inside = drt("show", "1", "--png", tmp_path / "library" / "page.png")
    assert inside.code == 1 and "inside the library" in inside.err
    drt("ask", "Which period?", handbook)
    assert "not a PDF" in drt("show", "1", "--png", picture).err
