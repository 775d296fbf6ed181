"""Questions about files in their own formats: what counts as right, and bad input."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from drt_engine.answer.result import AnswerResult
from drt_engine.documents import Source, expand_paths
from drt_engine.errors import ConfigError
from drt_engine.ingest.pipeline import ingest_source
from drt_engine.ingest.temporary import open_library
from drt_engine.results import Trace
from drt_engine.runtime import Runtime
from drt_lab.evaluate import files
from drt_lab.evaluate.report import EvalReport
from drt_lab.evaluate.run import evaluate
from tests.lab.evaluate_runs.conftest import LAKE, MINE, WriteLines


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A text file and an archive with another."""
    files = tmp_path / "files"
    files.mkdir()
    (files / "lake.txt").write_text(f"{LAKE}\n\nA paragraph of its own.\n")
    with zipfile.ZipFile(files / "all.zip", "w") as archive:
        archive.writestr("mine.md", f"# Mine\n\n{MINE[:80]}\n\n{MINE[80:]}\n")
    return files


def rows(*changes: dict[str, Any]) -> list[dict[str, Any]]:
    base = {"file": "lake.txt", "type": "who", "question": "Who is the captain?", "answer": "."}
    return [{**base, **change} for change in changes]


def run(
    runtime: Runtime,
    write_lines: WriteLines,
    folder: Path,
    *changes: dict[str, Any],
    **more: Any,
) -> dict[str, Any]:
    options = {"questions": str(write_lines("q.jsonl", rows(*changes))), "folder": str(folder)}
    return evaluate(runtime, "files", {**options, **more})


@pytest.mark.thorough
def test_written_answers_are_judged_with_their_support(
    runtime: Runtime, write_lines: WriteLines, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = "Ida Holm steers the ferry. Cows fly over it. [unsupported]"

    def ask(*_: object, **__: object) -> AnswerResult:
        return AnswerResult(answer, True, 0.9, "free", (), 1, Trace("", ()))

    monkeypatch.setattr(files, "ask", ask)
    result = run(runtime, write_lines, folder, {"answer": "(?i)ida holm"}, mode="free")
    every = result["metrics"]["all"]
    assert every["right_quote"] == 1.0 and every["supported"] == 0.5


@pytest.mark.thorough
def test_answers_are_judged_by_their_patterns(
    runtime: Runtime, write_lines: WriteLines, folder: Path
) -> None:
    result = run(
        runtime,
        write_lines,
        folder,
        {},
        {"answer": "no such words", "type": "what"},
        {"answer": "ida  holm|IDA HOLM", "type": "where"},
        {"answer": None, "type": "none"},
        {"file": "all.zip", "question": "What did the mine give?", "answer": "goats graze"},
        lexical=True,
    )
    every = result["metrics"]["all"]
    assert result["n"] == 5 and every["n_answerable"] == 4 and every["n_unanswerable"] == 1
    who, what, where = (result["metrics"][name] for name in ("who", "what", "where"))
    assert who["right_any_threshold"] >= 0.5  # "." matches whatever is quoted
    assert what["right_any_threshold"] == what["right_nearby"] == 0.0
    assert where["right_nearby"] == 1.0  # all of the small file is near, whatever is quoted
    assert set(result["metrics"]) >= {"none", ".txt", ".zip", "all", "confidence 0.00-0.10"}
    paragraph = result["baselines"]["bm25 paragraph"]
    assert paragraph["where"]["right_nearby"] == 1.0
    assert paragraph["who"]["right_nearby"] == 0.5  # the archive's goats are in another paragraph
    assert set(result["baselines"]) == {"bm25 paragraph", "lexical"}
    assert sum(v["n"] for k, v in result["metrics"].items() if k.startswith("confidence")) == 5
    for first in ("right_shown", "right_nearby"):  # what a second place adds is counted apart
        assert every[first] <= every[f"{first}_either"]
    assert "right_nearby" in EvalReport(**result).as_table()
    json.dumps(result, allow_nan=False)


def test_shown_and_precise_are_what_was_shown_as_an_answer(
    runtime: Runtime, write_lines: WriteLines, folder: Path
) -> None:
    metrics = run(runtime, write_lines, folder, {}, {"answer": None, "type": "none"})["metrics"]
    shown = metrics["who"]["right_quote"] + (metrics["none"]["wrongly_found"] or 0)
    precision = metrics["all"]["precision"]
    assert metrics["who"]["wrongly_not_found"] == 1 - metrics["who"]["right_quote"]
    assert precision is None if shown == 0 else precision == metrics["who"]["right_quote"] / shown


@pytest.mark.thorough
def test_all_files_are_asked_as_one_library(
    runtime: Runtime, write_lines: WriteLines, folder: Path
) -> None:
    changes = [{}, {"file": "all.zip", "question": "What did the mine give?"}]
    keep = folder.parent / "kept"
    result = run(runtime, write_lines, folder, *changes, joint=True, lexical=True, keep=str(keep))
    assert result["n"] == 2 and {".txt", ".zip"} <= set(result["metrics"])
    assert len(list(keep.iterdir())) == 1
    paragraph = result["baselines"]["bm25 paragraph"]["all"]
    assert paragraph["right_nearby"] == 1.0  # "." matches the paragraph of either file
    with pytest.raises(ConfigError, match=r"gone\.txt cannot be asked"):
        run(runtime, write_lines, folder, {}, {"file": "gone.txt"}, joint=True)


def test_a_library_that_holds_the_files_among_others_is_asked(
    runtime: Runtime, write_lines: WriteLines, folder: Path, tmp_path: Path
) -> None:
    changes = [{"answer": "."}, {"file": "all.zip", "answer": "."}]
    with open_library(runtime, tmp_path / "library") as store:
        for source in expand_paths([str(folder)]):
            if isinstance(source, Source):
                ingest_source(runtime, store, source)
    among = {"among": str(tmp_path / "library")}
    alone = run(runtime, write_lines, folder, *changes, **among)
    assert alone["metrics"]["all"]["right_shown_either"] == 1.0  # of its own file, whatever it is
    joint = run(runtime, write_lines, folder, *changes, **among, joint=True)
    assert joint["n"] == 2 and joint["metrics"]["all"]["right_shown"] < 1.0  # not of both files
    with pytest.raises(ConfigError, match=r"library holds no document of gone\.txt"):
        run(runtime, write_lines, folder, {"file": "gone.txt"}, **among)


@pytest.mark.thorough
def test_a_limit_and_a_file_choose_questions(
    runtime: Runtime, write_lines: WriteLines, folder: Path
) -> None:
    changes = [{}, {}, {}, {"type": "what"}, {"file": "all.zip"}]
    assert run(runtime, write_lines, folder, *changes, limit=1)["n"] == 2
    assert run(runtime, write_lines, folder, *changes, file="all.zip")["n"] == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answer": "("}, "line 1: 'answer' is not a regular expression"),
        ({"answer": 3}, "line 1: the field 'answer' holds the number 3"),
        ({"file": "gone.txt"}, "gone.txt cannot be asked"),
        ({"question": ""}, "line 1: the field 'question' holds an empty string"),
    ],
)
def test_bad_questions_end_in_a_sentence(
    runtime: Runtime,
    write_lines: WriteLines,
    folder: Path,
    change: dict[str, Any],
    message: str,
) -> None:
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        run(runtime, write_lines, folder, change)


def test_bad_options_end_in_a_sentence(
    runtime: Runtime, write_lines: WriteLines, folder: Path
) -> None:
    with pytest.raises(ConfigError, match="is not a folder"):
        run(runtime, write_lines, folder / "none", {})
    with pytest.raises(ConfigError, match="no question about 'other'"):
        run(runtime, write_lines, folder, {}, file="other")
    with pytest.raises(ConfigError, match="limit is 0"):
        run(runtime, write_lines, folder, {}, limit=0)
