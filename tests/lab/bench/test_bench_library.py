"""The benchmark of the library with a tiny model: what is measured, beside what."""

from __future__ import annotations

from pathlib import Path

import pytest

from drt_engine.errors import ConfigError
from drt_engine.results import IndexInfo
from drt_engine.runtime import Runtime
from drt_engine.store import Store
from drt_lab.bench import ask, library, parts, phases, questions
from drt_lab.bench.made_up import make_library
from drt_lab.bench.parts import ProcessTimes
from drt_lab.bench.phases import PHASES, Stopwatch
from drt_lab.bench.questions import asking
from drt_lab.bench.run import bench
from drt_lab.bench.shards import _predicted, simulated_shards
from tests.engine.store.test_index import plan


@pytest.mark.slow  # .ci/run measures a library, too
def test_every_number_stands_beside_another(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(parts, "_SIDE", 64)
    for part in (ask, library):
        monkeypatch.setattr(part, "run_process", lambda command: ProcessTimes(0.1, 0.2, None))
    monkeypatch.setattr(library, "SMALL_DOCUMENTS", 5)
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    options = {"model": model_folder, "device": "cpu", "threads": 1, "repetitions": 2}
    sizes = {"tokens": 1_000, "files": 4, "shards": 3, "folder": tmp_path / "kept"}
    result = bench("library", {**options, **sizes})
    rows = {row["name"]: row for row in result["rows"]}
    compared = {name: row["against"] for name, row in rows.items() if row["against"]}
    timed_phases = {name for name in compared if name.startswith("ask: ")}
    assert {f"ask: {name}" for name in (*PHASES[:3], PHASES[-1])} <= timed_phases
    for name in timed_phases:
        assert compared.pop(name) == name.replace("ask:", "ask over 4k tokens:")
    assert compared == {
        "write records": "write and fsync a file",
        "check records": "crc32 of the same bytes",
        "ask": "ask over 4k tokens",
        "ask, processor": "ask over 4k tokens, processor",
        "search": "search over 4k tokens",
        "search, processor": "search over 4k tokens, processor",
        "ask after opening": "ask",
        "cold `drt ask`, first output": "python importing torch",
        "`drt library list`": "python",
        "read unchanged files again": "read and hash these files",
        "append 1% to a large document": "read it whole",
    }
    assert all(row["median"] > 0 for row in result["rows"])
    assert 900 <= result["calibration"]["tokens"] <= 1_000
    assert result["calibration"]["small_documents"] == 5
    assert result["calibration"]["files_read_again"] == 4
    assert result["calibration"]["bytes_per_token"] > 0
    assert rows["append 1% to a large document"]["ratio"] < 1
    shards = {name for name in rows if name.startswith("3 shards, ")}
    assert {name.rpartition(": ")[2] for name in shards} == {
        "open",
        "landmark scan",
        "bm25",
        "landmarks in memory, computed",
        "disk, computed",
    }


def test_a_library_that_is_kept_is_made_once(runtime: Runtime, tmp_path: Path) -> None:
    assert make_library(runtime, tmp_path / "kept", tokens=500)
    assert make_library(runtime, tmp_path / "kept", tokens=500) is None
    with pytest.raises(ConfigError, match=r"chunks, expected .* remove it"):
        make_library(runtime, tmp_path / "kept", tokens=5_000)
    other = tmp_path / "file"
    other.write_text("")
    with pytest.raises(ConfigError, match="expected a folder for libraries"):
        parts.BenchOptions(folder=other)


def test_the_cost_of_many_shards_is_checked_against_one_number_that_was_not_fitted() -> None:
    row = _predicted("scan", {1: [12.0], 2: [22.0, 90.0, 22.0], 4: [42.0], 8: [100.0]}, 8)
    assert row.name == "scan, predicted from 1, 2, 4" and row.against == "scan"
    assert (row.median, row.ratio) == (pytest.approx(82.0), pytest.approx(0.82))


def test_fewer_shards_are_timed_beside_many(runtime: Runtime, tmp_path: Path) -> None:
    make_library(runtime, tmp_path / "library", tokens=300)
    options = parts.BenchOptions(device="cpu", threads=1, repetitions=1, shards=4)
    rows = simulated_shards(runtime, tmp_path / "library", options)
    names = [row.name.rpartition(": ")[2] for row in rows if row.ratio is not None]
    assert names == [f"{part}, predicted from 1, 2" for part in ("open", "landmark scan", "bm25")]


def test_a_phase_counts_its_own_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(100))
    monkeypatch.setattr(
        phases.Seconds, "now", classmethod(lambda cls: cls(float(next(clock)), 0.0))
    )

    class Work:
        def outer(self) -> str:
            return self.inner() + self.inner()

        def inner(self) -> str:
            return "x"

    watched = ((Work, "outer", "a"), (Work, "inner", "b"))
    originals = (Work.outer, Work.inner)
    monkeypatch.setattr(phases, "_WATCHED", watched)
    stopwatch = Stopwatch()
    with stopwatch.watching():
        assert Work().outer() == "xx"
    seconds = {name: taken.wall for name, taken in stopwatch.phases.items()}
    # The clock moves by one each time that it is looked at, which is twice for each phase.
    assert seconds == {"b": 2.0, "a": 3.0, phases.REST: 2.0}
    with pytest.raises(RuntimeError, match="broken"), Stopwatch().watching():
        raise RuntimeError("broken")
    assert (Work.outer, Work.inner) == originals


@pytest.mark.thorough
def test_questions_by_an_approximate_index_have_rows_of_their_own(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def make_index(store: Store, _: object) -> IndexInfo:
        with store.snapshot() as view:  # as FAISS would, which need not be there
            store.make_index(view, plan(view), probes=2)
        info = store.index.info()
        assert info is not None
        return info

    monkeypatch.setattr(questions, "make_index", make_index)
    monkeypatch.setattr(questions, "cold_processes", lambda command, repetitions: [])
    for name, tokens in (("small", 300), ("large", 600)):
        make_library(runtime, tmp_path / name, tokens=tokens)
    options = parts.BenchOptions(device="cpu", threads=1, repetitions=1, approximate=True)
    rows = asking(runtime, tmp_path / "small", tmp_path / "large", options)
    names = [row.name for row in rows]
    assert len(names) == len(set(names))
    against = {row.name: row.against for row in rows}
    assert against["ask by 2 of 5 lists, processor"] == "ask over 4k tokens, processor"
    assert "ask by 2 of 5 lists: landmark scan" in names and "ask: landmark scan" in names
