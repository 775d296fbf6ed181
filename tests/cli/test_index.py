"""The approximate index on the command line: made, shown, measured, removed, and used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drt import IndexInfo, IndexRecall, Library, ScanInfo, SearchResult
from drt_cli import _output
from tests.cli.conftest import Drt

INFO = IndexInfo("index-0.ivf", 1000, 120, 3, 16, 8)


@pytest.fixture
def calls(drt: Drt, handbook: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the command asks of a library with an index, in order."""
    assert drt("ingest", handbook).code == 0
    calls: list[Any] = []

    def make_index(self: Library, **options: Any) -> IndexInfo:
        calls.append({name: value for name, value in options.items() if value is not None})
        return INFO

    monkeypatch.setattr(Library, "make_index", make_index)
    monkeypatch.setattr(Library, "index", lambda self: INFO)
    monkeypatch.setattr(Library, "remove_index", lambda self: True)
    monkeypatch.setattr(Library, "set_index_probes", lambda self, probes: calls.append(probes))
    rows = [IndexRecall(n, 16, 32, n / 16, n / 10, 5.0) for n in (1, 16)]
    monkeypatch.setattr(Library, "index_recall", lambda self, **options: rows)
    return calls


def test_it_is_made_shown_and_set(drt: Drt, calls: list[Any]) -> None:
    assert "chunks since" in drt("library", "index", "--approximate", "--lists", "16").out
    assert drt("library", "index", "--json").json == {"index": INFO.to_dict()}
    drt("library", "index", "--probes", "4")
    drt("library", "index", "--approximate", "--probes", "4", "--threads", "1")
    assert calls == [{"lists": 16}, 4, {"probes": 4, "threads": 1}]
    assert "removed" in drt("library", "index", "--remove").err


def test_what_removes_it_says_so(
    drt: Drt, handbook: Path, calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([INFO, INFO, INFO, None])
    monkeypatch.setattr(Library, "index", lambda self: next(answers))
    assert drt("library", "check").err.count("index") == 0
    removed = drt("library", "remove", "--forget", handbook.name)
    assert removed.code == 0 and removed.out.startswith("forgotten")
    assert "The approximate index is gone" in removed.err
    assert "drt library index --approximate makes it anew" in " ".join(removed.err.split())


def test_its_recall_is_a_table(drt: Drt, calls: list[Any]) -> None:
    lines = drt("library", "index", "--check").out.splitlines()
    assert lines[0].split() == ["lists", "of", "recall@32", "ms", "exact", "ms"]
    assert lines[2].split() == ["16", "16", "1.000", "1.6", "5.0"]
    assert drt("library", "index", "--check", "--json").json["recall"][0]["probes"] == 1


@pytest.mark.parametrize(
    "arguments", [["--remove", "--check"], ["--remove", "--json"], ["--lists", "4"]]
)
def test_options_that_do_not_fit(drt: Drt, calls: list[Any], arguments: list[str]) -> None:
    assert drt("library", "index", *arguments).code == 2 and calls == []


def test_without_one(drt: Drt, calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Library, "index", lambda self: None)
    monkeypatch.setattr(Library, "remove_index", lambda self: False)
    for arguments in ([], ["--remove"]):
        assert "There is no approximate index" in drt("library", "index", *arguments).err
    assert drt("library", "index", "--json").json == {"index": None}


def test_results_say_what_was_scanned(capsys: pytest.CaptureFixture[str]) -> None:
    _output.print_scan(ScanInfo(32, 2048))
    _output.print_scan(ScanInfo(2048, 2048))
    _output.print_scan(None)
    _output.note_unread(SearchResult("q", (), 0.1, "m", scan=ScanInfo(0, 0, ("no index",))))
    printed = capsys.readouterr()
    assert printed.out == "approximate: 32 of 2,048 lists of landmarks were scanned\n"
    assert printed.err == "drt: scanned in full: no index\n"
