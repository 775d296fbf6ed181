"""`drt ingest` and `drt summarize`: reading, its exit codes, and being interrupted."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from drt import IngestProgress, ShardsProgress, _engine, schema
from drt_cli._options import Settings
from drt_cli._output import MOST_REMARKS, note_skipped, print_line, progress_bar
from drt_cli._shards_bar import shards_bar
from drt_cli._status import LOADING
from drt_engine.cluster.shard_reader import DocumentResult
from drt_engine.documents import Source
from drt_engine.errors import EmptyDocument
from drt_engine.ingest.identity import file_digest
from drt_engine.store import DocumentRow, Store
from tests.cli.conftest import Drt
from tests.sdk.fakes import FakeEngine


def test_reading_says_what_was_read_and_what_was_not(drt: Drt, handbook: Path) -> None:
    first = drt("ingest", handbook)
    assert first.code == 0
    assert first.out.startswith("read  ") and "handbook.txt" in first.out
    assert "tokens in" in first.err
    again = drt("ingest", handbook)
    assert again.out.startswith("unchanged  ")
    assert (again.code, again.err) == (0, "")


def test_a_copy_is_told_from_an_unchanged_file(drt: Drt, handbook: Path) -> None:
    copy = handbook.with_name("copy.txt")
    copy.write_bytes(handbook.read_bytes())
    first, second = drt("ingest", handbook, copy).out.splitlines()
    assert first.startswith("read  ")
    assert second.startswith("copy  ") and second.endswith("  copy.txt: same text as handbook.txt")
    deep = handbook.parent / "deep"
    deep.mkdir()
    namesake = copy.rename(deep / "handbook.txt")
    out = drt("ingest", namesake).out
    assert out.endswith(f"{namesake}: same text as {handbook}\n")


def test_json_is_one_object(drt: Drt, handbook: Path) -> None:
    report = drt("ingest", "--json", handbook, handbook.with_name("missing.txt")).json
    assert list(report) == ["documents", "failures", "skipped", "notes", "tokens", "seconds"]
    assert report["documents"][0]["new"] is True
    assert report["failures"][0]["source"].endswith("missing.txt")


def test_exit_codes(drt: Drt, handbook: Path) -> None:
    empty = handbook.with_name("empty.txt")
    empty.touch()
    partly = drt("ingest", empty, handbook)
    assert (partly.code, partly.err.startswith("drt: ")) == (3, True)
    assert drt("ingest", empty).code == 1
    assert drt("ingest").code == 2


def test_standard_input_is_a_document(drt: Drt) -> None:
    assert drt("ingest", "-", stdin="Letters came by sea.").code == 0
    assert '"Letters"' in drt("ask", "Which Letters?").out


def test_quiet_is_quiet(drt: Drt, handbook: Path) -> None:
    assert drt("ingest", "--quiet", handbook).err == ""


def test_files_passed_over_are_named_in_one_sentence(drt: Drt, handbook: Path) -> None:
    folder = handbook.with_name("folder")
    folder.mkdir()
    handbook.rename(folder / handbook.name)

    def sentence() -> str:
        result = drt("ingest", folder)
        assert result.code == 0
        (line,) = (line for line in result.err.splitlines() if line.startswith("Passed over"))
        return line

    (folder / "00.bin").write_bytes(bytes(range(256)))
    assert sentence() == f"Passed over: {folder / '00.bin'} (no reader knows its type)"
    (folder / "01.bin").write_bytes(bytes(range(256)))
    assert sentence().endswith(" (no reader knows their types)")
    for number in range(2, 31):  # more than have a note of their own
        (folder / f"{number:02}.bin").write_bytes(bytes(range(256)))
    line = sentence()
    assert line.startswith(f"Passed over: {folder / '00.bin'}") and len(line) <= 200
    shown = line.count(".bin")
    assert line.endswith(f" and {31 - shown} more (no reader knows their types)")


def test_one_remark_more_is_not_many(capsys: pytest.CaptureFixture[str]) -> None:
    for count, ending in (
        (MOST_REMARKS + 1, "... and 1 more remark; drt ingest --json lists it.\n"),
        (MOST_REMARKS + 2, "... and 2 more remarks; drt ingest --json lists them.\n"),
    ):
        note_skipped(Settings(), [], [f"a{number}" for number in range(count)])
        assert capsys.readouterr().err.endswith(ending)


@pytest.mark.thorough
def test_what_many_documents_hold_is_one_remark(drt: Drt, tmp_path: Path) -> None:
    for number in range(5):
        page = f"<nav>Home and about us</nav><main><p>The period {number} ends.</p></main>"
        (tmp_path / f"{number}.html").write_text(f"<html><body>{page}</body></html>")
    pages = sorted(tmp_path.glob("*.html"))
    (together,) = [line for line in drt("ingest", *pages).err.splitlines() if "passed" in line]
    assert together.startswith("5 documents: passed over 20 words around the main part (menus,")
    each = drt("ingest", *pages[:2]).err
    assert each.count(": passed over 4 words around the main part") == 2


@pytest.mark.thorough
def test_what_was_passed_over_is_a_short_remark(drt: Drt, handbook: Path) -> None:
    with zipfile.ZipFile(handbook.with_name("box.zip"), "w") as box:
        box.writestr("../out\x1b[2J.txt", "It leads out.")
        for number in range(15):
            box.writestr(f"/{number}" + "x" * 300, "Away.")
        box.writestr("in.txt", "It stays in this period.")
    box_path = handbook.with_name("box.zip")
    result = drt("ingest", box_path)
    remarks = [line for line in result.err.splitlines() if line.startswith("Passed over: ")]
    assert len(remarks) == 10 and all(len(line) <= 200 for line in remarks)
    assert "leads out of the archive" in remarks[0] and "\x1b" not in result.err
    assert "... and 6 more remarks" in result.err
    assert drt("ingest", "--quiet", box_path).err == ""
    assert len(drt("ingest", "--json", box_path).json["notes"]) == 16
    assert "Passed over: " in drt("ask", "Which period?", box_path).err
    assert drt("ask", "--quiet", "Which period?", box_path).err == ""


def test_lines_end_with_what_was_passed_over(drt: Drt, handbook: Path) -> None:
    box_path = handbook.with_name("box.zip")
    with zipfile.ZipFile(box_path, "w") as box:
        box.writestr("../out.txt", "It leads out.")
        box.writestr("inner.txt", "The inner text.")
        box.writestr("picture.bin", bytes(range(256)))
    result = drt("ingest", "--jsonl", handbook, box_path)
    lines = [json.loads(line) for line in result.out.splitlines()]
    assert result.code == 0
    assert [line["document"] is not None for line in lines] == [True, True, False]
    assert [line["source"] for line in lines][2] == str(box_path)
    assert lines[2]["error"] is None and lines[2]["skipped"] == 1
    leads_out, unknown = lines[2]["notes"]
    assert "leads out of the archive" in leads_out
    assert unknown == f"{box_path}!/picture.bin (no reader knows its type)"
    assert all(line["skipped"] == 0 and line["notes"] == [] for line in lines[:2])


def test_an_archive_of_nothing_readable_fails_and_says_why(drt: Drt, handbook: Path) -> None:
    box_path = handbook.with_name("box.zip")
    with zipfile.ZipFile(box_path, "w") as box:
        box.writestr("../out.txt", "It leads out.")
    result = drt("ingest", "--jsonl", box_path)
    failed, passed = (json.loads(line) for line in result.out.splitlines())
    assert result.code == 1
    assert "holds no file" in failed["error"] and len(passed["notes"]) == 1


def test_an_interruption_is_quiet_and_says_that_reading_continues(
    drt: Drt, engine: FakeEngine, handbook: Path
) -> None:
    engine.raises["ingest"] = KeyboardInterrupt()
    result = drt("ingest", handbook)
    assert (result.code, result.out) == (130, "")
    assert "continues there" in result.err and "Traceback" not in result.err
    del engine.raises["ingest"]
    assert drt("ingest", handbook).code == 0


def test_an_interrupted_question_is_quiet(drt: Drt, engine: FakeEngine, handbook: Path) -> None:
    drt("ingest", handbook)
    engine.raises["ask"] = KeyboardInterrupt()
    result = drt("ask", "Which period?")
    assert (result.code, result.out, result.err.strip()) == (130, "", "")


def test_summaries_read_a_file_first(drt: Drt, engine: FakeEngine, handbook: Path) -> None:
    result = drt("summarize", handbook, "--length", "long", "--focus", "notice")
    id = drt("library", "show", "--json", "handbook.txt").json["id"]
    assert result.out.splitlines() == [
        "About handbook.txt",
        "",
        "The notice period is thirty days. [1]",
        "",
        f"[1] handbook.txt, page 3, {id[:8]}:0-33",
    ]
    given = {"length": "long", "mode": "auto", "focus": "notice"}
    drt("summarize", "handbook.txt", "--since", handbook)
    assert engine.calls.pop()[1]["length"] is None
    assert engine.calls[-1][1] == {**given, "words": None, "section": None, "since": None}
    plain = drt("summarize", "handbook.txt", "--no-cite")
    assert plain.out == "The notice period is thirty days.\n"
    keys = ["summary", "about", "mode", "sentences", "changes", "changes_omitted", "tokens_read"]
    keys += ["seconds", "model", "unread_libraries"]
    assert list(drt("summarize", "--json", "handbook.txt").json) == keys


def test_a_summary_as_markdown_has_its_places_as_footnotes(drt: Drt, handbook: Path) -> None:
    lines = drt("summarize", handbook, "--markdown").out.splitlines()
    assert lines[:2] == ["About handbook.txt", ""]
    assert lines[2:4] == ["The notice period is thirty days.[^1]", ""]
    assert lines[4].startswith("[^1]: handbook.txt, page 3, ")
    plain = drt("summarize", handbook, "--markdown", "--no-cite").out
    assert plain == "The notice period is thirty days.\n"
    lines = drt("summarize", handbook, "--markdown", "--since", handbook).out.splitlines()
    assert lines[:2] == ["- Removed: Gone.", "- Changed: The notice period is thirty days.[^1]"]


def test_changes_are_numbered_and_what_is_left_out_is_counted(drt: Drt, handbook: Path) -> None:
    lines = drt("summarize", handbook, "--since", handbook).out.splitlines()
    assert lines[:2] == ["Removed: Gone.", "Changed: The notice period is thirty days. [1]"]
    assert lines[3].startswith("[1] handbook.txt")
    few = drt("summarize", handbook, "--since", handbook, "--words", 9)
    assert "... and 4 more of 6 changes" in few.out
    assert (
        drt("summarize", handbook, "--since", handbook, "--words", 9, "--json").json[
            "changes_omitted"
        ]
        == 4
    )
    told = drt("summarize", handbook, "--since", handbook, "--words", 9, "--jsonl").out.splitlines()
    first, second, third = map(json.loads, told)
    line_schema = jsonschema.Draft202012Validator(schema("summarize-line"))
    for line in (first, second, third):
        line_schema.validate(line)
    assert third == {"changes_omitted": 4}
    assert first == {"kind": "removed", "old": "Gone."}
    assert second["kind"] == "changed" and second["quote"].startswith("The notice")


def test_summaries_of_nothing_are_a_sentence(drt: Drt, handbook: Path) -> None:
    drt("ingest", handbook)
    result = drt("summarize", "handbuch.txt")
    assert result.code == 1
    assert "handbuch.txt" in result.err and result.err.count("\n") == 1
    handbook.with_name("empty.txt").touch()
    assert drt("summarize", handbook.with_name("empty.txt")).code == 1


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_progress_with_rate_and_time_left(
    drt: Drt, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    drt("ingest", handbook)
    drawn = screen.getvalue()
    assert "50%" in drawn and "4 tokens/s" in drawn and "00:03 left" in drawn
    screen.truncate(0)
    drt("ingest", "--quiet", handbook.rename(handbook.with_name("moved.txt")))
    assert "left" not in screen.getvalue()


def test_progress_knows_the_time_left_or_says_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    steps = [(500, 0, 0.1), (750, 100, 10.0), (1000, 200, 20.0)]  # half is known from before
    drawn: list[str] = []
    with progress_bar(Settings()) as progress:
        assert progress is not None
        for characters, tokens, seconds in steps:
            screen.seek(0)
            screen.truncate()
            progress(IngestProgress("/a/book.txt", characters, 1000, tokens, seconds))
            drawn.append(screen.getvalue())
    assert "50%" in drawn[0] and "left" not in drawn[0]
    assert "75%" in drawn[1] and "10 tokens/s, 00:10 left" in drawn[1] and "book.txt" in drawn[1]
    assert "100%" in drawn[2] and "left" not in drawn[2]
    assert not any("?" in one for one in drawn)


def test_the_bar_shows_pages_before_the_model_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.delitem(sys.modules, "drt_engine.runtime", raising=False)
    with progress_bar(Settings()) as progress:
        assert progress is not None
        for page in (1, 2):
            screen.seek(0)
            screen.truncate()
            progress(IngestProgress("/a/book.pdf", 0, 0, 0, 0.1, page, 2))
            assert f"book.pdf {50 * page:3}%" in screen.getvalue()
            assert f"page {page} of 2" in screen.getvalue()
        assert screen.getvalue().endswith(LOADING)
        progress(IngestProgress("/a/book.pdf", 500, 1000, 100, 10.0))
        assert " 50%" in screen.getvalue() and "10 tokens/s" in screen.getvalue()


def test_each_document_is_printed_when_it_is_read(
    drt: Drt, engine: FakeEngine, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = handbook.with_name("second.txt")
    second.write_text("The bell rings.")
    printed: list[str] = []

    class Output(io.StringIO):
        def flush(self) -> None:
            printed.append(self.getvalue())

    monkeypatch.setattr(sys, "stdout", Output())
    read = engine.ingest

    def noting(runtime: Any, store: Any, source: Any, **options: Any) -> Any:
        printed.append(f"reading {source.name}")
        return read(runtime, store, source, **options)

    monkeypatch.setattr(_engine, "ingest_source", noting)
    drt("ingest", handbook, second)
    begin = next(n for n, one in enumerate(printed) if one.endswith("second.txt"))
    assert any(one.startswith("read  ") and "handbook.txt" in one for one in printed[:begin])


@pytest.mark.parametrize("words", [(), ("--json",), ("--jsonl",)])
def test_an_interruption_lists_what_was_read(
    drt: Drt,
    engine: FakeEngine,
    handbook: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:
    read = engine.ingest

    def interrupted(runtime: Any, store: Any, source: Any, **options: Any) -> Any:
        if source.name.endswith("second.txt"):
            raise KeyboardInterrupt
        return read(runtime, store, source, **options)

    monkeypatch.setattr(_engine, "ingest_source", interrupted)
    second = handbook.with_name("second.txt")
    second.write_text("The bell rings.")
    result = drt("ingest", handbook, second, *words)
    assert result.code == 130
    assert "1 document was read" in result.err and "continues there" in result.err
    assert "handbook.txt" in result.out and "second.txt" not in result.out
    if words == ("--json",):
        assert [one["title"] for one in result.json["documents"]] == ["handbook.txt"]


def test_a_line_that_was_printed_counts_when_an_interruption_comes_behind_it(
    drt: Drt, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def print_and_stop(value: Any) -> None:
        print_line(value)
        raise KeyboardInterrupt

    monkeypatch.setattr("drt_cli.commands.ingest.print_line", print_and_stop)
    result = drt("ingest", "--jsonl", handbook)
    assert result.code == 130 and "handbook.txt" in result.out
    assert "1 document was read; what was read is kept" in result.err


def test_workers_are_not_for_watching(drt: Drt, tmp_path: Path) -> None:
    result = drt("ingest", "--watch", "--workers", "2", tmp_path)
    assert result.code == 2 and "--watch reads one file at a time; leave out" in result.err


def test_workers_are_one_at_least(drt: Drt, handbook: Path) -> None:
    result = drt("ingest", handbook, "--workers", "0")
    assert result.code == 2 and "0 is not in the range x>=1" in result.err


def test_shards_are_for_ray(drt: Drt, handbook: Path) -> None:
    result = drt("ingest", handbook, "--shards", "2")
    assert result.code == 2 and "--shards is for --ray ADDRESS" in result.err
    for words in (["--watch"], ["--workers", "2"]):
        result = drt("ingest", handbook.parent, "--ray", "local", *words)
        assert result.code == 2 and "--ray has workers of its own; leave out" in result.err


def test_ray_without_its_extra(drt: Drt, handbook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    library = handbook.with_name("papers")
    result = drt("--library", library, "ingest", handbook, "--ray", "local", "--shards", "2")
    assert result.code == 1 and not library.exists()
    assert result.err.endswith('pip install "drt-assistant[cluster]" installs it\n'), result.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--ray", "nowhere", "--shards", "2"], "'nowhere' is not the address of a Ray cluster"),
        (["--ray", "local", "--shards", "0"], "shards is 0, expected 1 to 4096"),
        (["--ray", "local"], "it is not said how many it is to have: say it with --shards"),
    ],
)
def test_no_shards(drt: Drt, handbook: Path, words: list[str], sentence: str) -> None:
    result = drt("--library", handbook.with_name("papers"), "ingest", handbook, *words)
    assert result.code == 1 and sentence in result.err and result.err.count("\n") == 1


def test_shards_are_reported_like_documents(
    drt: Drt, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[Any] = []

    def read(library: Any, paths: Any, *, address: str, options: Any, progress: Any) -> Any:
        assert (library.count, address, options.tags) == (2, "auto", ("new",))
        steps.append(progress)
        row = DocumentRow("ab", "Handbook", str(handbook), "text/plain", 9, 3, 1, "")
        yield DocumentResult(str(handbook), row, is_new=True, seconds=0.5, tokens=3)
        yield DocumentResult("bad.txt", error=EmptyDocument("bad.txt is empty; leave it out"))
        yield DocumentResult(
            "a.zip", skipped=("x.bin (no reader knows its type)",), skipped_files=1
        )

    monkeypatch.setattr(_engine, "ingest_shards", read)
    words = ["ingest", handbook, "--ray", "auto", "--shards", "2", "--tag", "new"]
    result = drt("--library", handbook.with_name("papers"), *words)
    assert result.code == 3 and result.out == "read  ab  Handbook  (3 tokens)\n"
    assert "bad.txt is empty" in result.err and "x.bin" in result.err
    assert f"drt --library {handbook.with_name('papers')} asks all shards." in result.err
    lines = drt("--library", handbook.with_name("papers"), *words, "--jsonl").out.splitlines()
    assert [json.loads(line)["source"] for line in lines] == [str(handbook), "bad.txt", "a.zip"]
    assert steps == [None, None]


def test_a_bar_of_all_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", screen)
    with shards_bar(Settings()) as bar:
        assert bar is not None
        book = IngestProgress("/books/long.txt", 50, 100, 500, 2.0)
        bar(ShardsProgress(3, 10, 4000, 2.0, (book, None)))
        bar.clear()
    assert "3 of 10 files" in screen.getvalue()
    assert "2,000 tokens/s, long.txt 50%" in screen.getvalue()
    with shards_bar(Settings(quiet=True)) as none:
        assert none is None


def test_what_needs_no_model_loads_none(
    drt: Drt, engine: FakeEngine, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = handbook.with_name("empty.txt")
    empty.touch()
    assert drt("ingest", empty).code == 1 and engine.loads == []
    drt("ingest", handbook)
    assert len(engine.loads) == 1
    digest = file_digest(Source.from_path(handbook))
    assert digest is not None
    with Store.open(handbook.with_name("library")) as store:  # the fake one notes nothing
        store.note_source(str(handbook), digest, store.documents()[0].id)
    assert drt("ingest", handbook, "--tag", "sea").out.startswith("unchanged  ")
    assert drt("library", "list", "--tag", "sea").out != ""
    assert drt("summarize", "nofile").code == 1
    assert len(engine.loads) == 1
    handbook.write_text("Another text.", encoding="utf-8")
    assert drt("ingest", handbook).out.startswith("read  ") and len(engine.loads) == 2


def test_empty_files_of_a_folder_are_one_line(
    drt: Drt, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(handbook.parent)
    folder = handbook.parent / "folder"
    folder.mkdir()
    handbook.rename(folder / "handbook.txt")
    for name in ("__init__.py", "a.txt", "b.pdf"):
        (folder / name).touch()
    result = drt("ingest", "folder")
    assert result.code == 0 and result.out.count("\n") == 1
    names = "folder/__init__.py, folder/a.txt, folder/b.pdf"
    assert f"Passed over 3 empty files: {names}\n" in result.err
    one = drt("ingest", f"{folder}/*.py", "--json")
    assert one.code == 1 and one.json["notes"] == [f"{folder}/__init__.py (it is empty)"]


def test_an_address_is_no_file(drt: Drt, engine: FakeEngine) -> None:
    result = drt("ingest", "https://example.com/report?x=1")
    assert result.code == 1 and engine.loads == []
    assert "is an address of the web; --fetch fetches it, or save the page" in result.err
    other = drt("ingest", "ftp://example.com/report")
    assert other.code == 1 and "is an address" in other.err


@pytest.mark.thorough
def test_files_with_the_same_fault_are_one_line(drt: Drt, tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    folder = tmp_path / "bad"
    folder.mkdir()
    for name in ("a.pdf", "b.pdf", "c.pdf"):
        (folder / name).write_bytes(b"%PDF-1.4\n")
    (folder / "d.docx").write_bytes(b"no zip file")
    result = drt("ingest", folder)
    assert result.code == 1 and result.err.count("not a whole PDF") == 1
    (line,) = [line for line in result.err.splitlines() if "the same as" in line]
    assert "a.pdf: " in line and "b.pdf" in line and "c.pdf" in line and "docx" not in line
    assert "d.docx" in result.err


@pytest.mark.thorough
def test_what_a_document_holds_is_said_once_whatever_copies_it_has(
    drt: Drt, tmp_path: Path
) -> None:
    page = "<nav>Home and about us</nav><main><p>The period ends.</p></main>"
    for name in "ab":
        (tmp_path / f"{name}.html").write_text(f"<html><body>{page}</body></html>")
    ended = drt("ingest", tmp_path / "a.html", tmp_path / "b.html")
    assert "copy" in ended.out and ended.err.count(": passed over 4 words") == 1
