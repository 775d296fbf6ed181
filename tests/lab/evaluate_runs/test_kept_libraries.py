"""Libraries that evaluations keep: read once, the same numbers, finished where reading ended."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drt_engine.errors import ConfigError
from drt_engine.ingest import pipeline
from drt_engine.runtime import Runtime
from drt_lab.evaluate.run import evaluate
from tests.lab.evaluate_runs.conftest import LAKE, WriteLines
from tests.sampling import sampled

Options = Callable[[str], dict[str, Any]]


@pytest.fixture
def options(qa_files: dict[str, object], write_lines: WriteLines, tmp_path: Path) -> Options:
    """Return the options of a task: questions about two texts, or about a file."""
    row = {"file": "lake.txt", "type": "who", "question": "Who is the captain?", "answer": "Ida"}
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "lake.txt").write_text(LAKE)
    files = {"questions": str(write_lines("q.jsonl", [row])), "folder": str(tmp_path / "files")}
    return lambda task: files if task == "files" else dict(qa_files)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many chunks each call of the model has read."""
    calls: list[int] = []
    real = pipeline.read_chunks

    def counted(runtime: Runtime, warm_up: Any, batch: Any, **named: Any) -> Any:
        calls.append(len(batch))
        return real(runtime, warm_up, batch, **named)

    monkeypatch.setattr(pipeline, "read_chunks", counted)
    return calls


@pytest.mark.parametrize("task", sampled(["qa", "retrieval", "files"], {2}, thorough={0, 1}))
def test_what_is_kept_is_not_read_again(
    runtime: Runtime, options: Options, read: list[int], tmp_path: Path, task: str
) -> None:
    once = evaluate(runtime, task, options(task))
    keep = options(task) | {"keep": str(tmp_path / "new" / "kept")}
    first = evaluate(runtime, task, keep)
    count = len(read)
    again = evaluate(runtime, task, keep)
    assert count > 0 and len(read) == count
    assert once["metrics"] == first["metrics"] == again["metrics"]
    assert once["baselines"] == first["baselines"] == again["baselines"]


def test_other_records_and_other_texts_are_read(
    runtime: Runtime, options: Options, read: list[int], tmp_path: Path
) -> None:
    keep = options("files") | {"keep": str(tmp_path / "kept")}
    evaluate(runtime, "files", keep)
    count = len(read)
    evaluate(runtime, "files", keep | {"records": "bf16"})
    assert len(read) == 2 * count
    (tmp_path / "files" / "lake.txt").write_text(LAKE + " Another sentence.")
    evaluate(runtime, "files", keep)
    assert len(read) == 3 * count
    assert len(list((tmp_path / "kept").iterdir())) == 3


@pytest.mark.thorough
def test_a_reading_that_failed_is_done_again(
    runtime: Runtime, options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = options("qa") | {"keep": str(tmp_path / "kept")}
    expected = evaluate(runtime, "qa", options("qa"))

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(pipeline, "read_chunks", interrupted)
        evaluate(runtime, "qa", keep)
    assert evaluate(runtime, "qa", keep)["metrics"] == expected["metrics"]
    for folder in (tmp_path / "kept").iterdir():  # a library that somebody removed
        shutil.rmtree(folder / "library")
    assert evaluate(runtime, "qa", keep)["metrics"] == expected["metrics"]


def test_a_file_is_no_folder_to_keep_libraries_in(
    runtime: Runtime, options: Options, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"file cannot keep libraries \(.*\); name another"):
        evaluate(runtime, "qa", options("qa") | {"keep": str(tmp_path / "file")})
