"""The benchmark of the library with a tiny model: what is measured, beside what."""

from __future__ import annotations

from pathlib import Path

import pytest

from drt_engine.bench import ask, library, parts
from drt_engine.bench.parts import ProcessTimes
from drt_engine.bench.run import bench


def test_every_number_stands_beside_another(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "_SIDE", 64)
    for part in (ask, library):
        monkeypatch.setattr(part, "run_process", lambda command: ProcessTimes(0.1, 0.2, None))
    monkeypatch.setattr(library, "SMALL_DOCUMENTS", 5)
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    options = {"model": model_folder, "device": "cpu", "threads": 1, "repetitions": 2}
    result = bench("library", {**options, "tokens": 1_000, "files": 4})
    rows = {row["name"]: row for row in result["rows"]}
    assert {name: row["against"] for name, row in rows.items() if row["against"]} == {
        "write records": "write and fsync a file",
        "check records": "crc32 of the same bytes",
        "ask": "ask over 4k tokens",
        "search": "search over 4k tokens",
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
