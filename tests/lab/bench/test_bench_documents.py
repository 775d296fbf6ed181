"""The benchmark of a library of many small documents: what is measured, and what it leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from drt_engine.errors import ConfigError
from drt_engine.ingest.temporary import open_library
from drt_engine.runtime import Runtime
from drt_lab.bench import documents, many
from drt_lab.bench.run import bench


@pytest.fixture
def tiny(model_folder: Path, tmp_path: Path) -> Runtime:
    return many.tiny_runtime(tmp_path / "model", model_folder)


def test_a_library_goes_on_where_it_was(tiny: Runtime, tmp_path: Path) -> None:
    library, files = tmp_path / "library", tmp_path / "files"
    assert many.make_many(tiny, library, files, 2) == 2
    with open_library(tiny, library) as store:
        before = store.documents()
    assert many.make_many(tiny, library, files, 5) == 3
    with open_library(tiny, library) as store:
        assert store.documents()[:2] == before and store.count_documents() == 5
        for row in store.documents():
            assert "".join(store.iter_text(row.id)) == Path(row.source).read_text("utf-8")
        assert store.check() == []
    assert many.make_many(tiny, library, files, 5) == 0
    with pytest.raises(ConfigError, match="has 5 documents, expected 4"):
        many.make_many(tiny, library, files, 4)


@pytest.mark.thorough
def test_each_work_is_timed_at_three_sizes(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "LEAST", 8)
    monkeypatch.setattr(documents, "_STEP", 2)
    folder = tmp_path / "kept"
    options = {"model": model_folder, "repetitions": 1, "files": 8, "folder": folder}
    result = bench("documents", options)
    rows = {row["name"]: row for row in result["rows"]}
    works = {name.removesuffix(", 8 documents") for name in rows if name.endswith(", 8 documents")}
    assert works >= {"open", "list", "ask", "search", "stats", "check", "back up", "open files"}
    assert works >= {"read a document", "tag a document", "remove a document"}
    for work in works - {"open files"}:
        for clock in ("", ", processor"):
            least, largest = (rows[f"{work}, {size} documents{clock}"] for size in (2, 8))
            assert largest["against"] == least["name"] and least["against"] is None
            assert least["median"] > 0
    assert result["calibration"]["documents"] == 8
    assert result["model"] == "a random model of width 32"
    assert sorted(path.name for path in folder.iterdir()) == [
        *(f"documents-{size}" for size in (2, 4, 8)),
        *(f"files-{size}" for size in (2, 4, 8)),
        "model",
    ]
    with open_library(
        many.tiny_runtime(tmp_path / "again", model_folder), folder / "documents-8"
    ) as store:
        assert store.count_documents() == 8 and store.check() == []
