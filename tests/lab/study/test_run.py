"""A study that is killed anywhere goes on, and ends with the bytes of one that was not."""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

from drt_engine.errors import ConfigError
from drt_lab.evaluate.run import load_for
from drt_lab.study import job, stored
from drt_lab.study.run import study
from drt_lab.study.spec import load_study
from drt_lab.study.table import make_table
from drt_lab.train import loop
from tests.forks import Forks
from tests.lab.study.tiny_study import write_study
from tests.tables import each_row

RUNS = ("drt-1", "drt-2", "base-lm-1")


@pytest.fixture(autouse=True, scope="module")
def fast() -> Iterator[None]:
    """Without waiting for the disk, which only a power cut would notice, and without plots."""
    with (
        mock.patch("os.fsync"),
        mock.patch("drt_lab.train.loop.plot"),
        mock.patch("drt_lab.study.run.draw_plots"),
    ):
        yield


def content(folder: Path) -> dict[str, bytes]:
    """The bytes of all models and tables of a study."""
    names = [f"{run}/model/model.safetensors" for run in RUNS]
    return {n: (folder / n).read_bytes() for n in (*names, "table.json", "table.md", "table.csv")}


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unbroken")
    study(write_study(folder))
    return folder / "results"


def kill_in(target: object, name: str, call: int) -> None:
    """Have this process killed when a function is called the so-manieth time."""
    function: Callable[..., Any] = getattr(target, name)
    calls = iter(range(1, call))

    def killing(*args: Any, **kwargs: Any) -> Any:
        if next(calls, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)

    setattr(target, name, killing)


def killed_study(file: Path, *where: Any) -> None:
    kill_in(*where)
    study(file)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "where",
    [
        (loop.Loop, "_one_step", 3),
        # Its train state is saved, the last model is not.
        pytest.param((loop, "save_model", 5), marks=pytest.mark.slow),
        pytest.param((stored, "write_whole", 1), marks=pytest.mark.slow),
        pytest.param((stored, "write_whole", 2), marks=pytest.mark.slow),
        pytest.param((stored, "write_whole", 3), marks=pytest.mark.slow),
        # In the run of equal compute.
        pytest.param((loop.Loop, "_one_step", 11), marks=pytest.mark.slow),
    ],
    ids=["training", "saving", "begun", "trained", "measured", "last run"],
)
def test_a_killed_study_ends_as_an_unbroken_one(
    unbroken: Path, tmp_path: Path, where: tuple[Any, ...]
) -> None:
    file = write_study(tmp_path)
    process = multiprocessing.get_context("fork").Process(target=killed_study, args=(file, *where))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    study(file)
    assert content(tmp_path / "results") == content(unbroken)


@pytest.mark.thorough
def test_a_finished_study_trains_nothing(unbroken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "train_stage", lambda config: pytest.fail("trained again"))
    before = content(unbroken)
    study(unbroken.parent / "study.toml")
    assert content(unbroken) == before


@pytest.mark.thorough
def test_a_model_trained_in_fp32_is_measured_in_fp32_on_every_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dtypes = []

    def load_recorded(*args: Any, **options: Any) -> Any:
        runtime = load_for(*args, **options)
        dtypes.append(runtime.dtype)
        return runtime

    monkeypatch.setattr("drt_engine.runtime.fast_bf16", lambda: True)
    monkeypatch.setattr(job, "load_for", load_recorded)
    file = write_study(tmp_path)
    study(file, ["seeds=[1]"], only=["DRT"])
    study(file, ["seeds=[1]", "train.run.bf16=true", f"out={tmp_path / 'bf16'}"], only=["DRT"])
    assert dtypes == [torch.float32, torch.bfloat16]


def test_the_table_has_means_deviations_and_quoted_rows(unbroken: Path) -> None:
    table = json.loads((unbroken / "table.json").read_text())
    assert [row["run"] for row in table["rows"]] == ["DRT", "Base LM", "YaRN-7B"]
    cell = table["rows"][0]["cells"][0]
    values = cell["values"]
    assert len(values) == 2 and cell["paper"] == 1.0
    assert cell["mean"] == pytest.approx(sum(values) / 2)
    assert cell["deviation"] == pytest.approx(abs(values[0] - values[1]) / 2**0.5)
    assert table["rows"][1]["cells"][0]["deviation"] is None
    rows = list(csv.DictReader((unbroken / "table.csv").read_text().splitlines()))
    assert {row["seed"] for row in rows if row["run"] == "DRT"} == {"1", "2", "paper"}
    text = (unbroken / "table.md").read_text()
    assert "| YaRN-7B (quoted: Table 2) | - (paper 0.5) | - |" in text
    assert "over 1 to 2 seeds" in text


def test_equal_compute_takes_more_steps_of_a_cheaper_model(unbroken: Path) -> None:
    assert json.loads((unbroken / "base-lm-1" / "steps.json").read_text())["steps"] > 4


@pytest.mark.thorough
def test_only_some_runs_and_one_that_failed_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, taken = write_study(tmp_path), []
    one_step = loop.Loop._one_step

    def failing(run: loop.Loop) -> Any:
        taken.append(run.step)
        return one_step(run) if len(taken) != 3 else 1 / 0

    monkeypatch.setattr(loop.Loop, "_one_step", failing)
    with pytest.raises(ZeroDivisionError):
        study(file, only=["Base LM"])
    assert not (tmp_path / "results" / "table.json").exists()
    table = study(file, only=["Base LM"])
    steps = json.loads((tmp_path / "results" / "base-lm-1" / "steps.json").read_text())["steps"]
    assert taken == [0, 1, 2, *range(2, steps)]  # none twice but the one that failed
    assert [len(row["seeds"]) for row in table["rows"]] == [0, 1, 0]


def test_rows_gather_in_a_file_over_several_machines(
    unbroken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "data" / "results.json"
    first = write_study(unbroken.parent)  # measured already: its results are only written
    study(first, results=results)
    shared = results.read_bytes()
    monkeypatch.setattr(job, "train_stage", lambda config: pytest.fail("trained again"))
    (tmp_path / "other").mkdir()
    table = study(write_study(tmp_path / "other"), results=results)
    assert table["rows"] == json.loads((unbroken / "table.json").read_text())["rows"]
    assert results.read_bytes() == shared
    # A sitting with fewer runs leaves the others' rows in the file.
    (tmp_path / "fewer").mkdir()
    fewer = study(write_study(tmp_path / "fewer"), ["seeds=[1]"], results=results)
    assert [row["seeds"] for row in fewer["rows"][:2]] == [[1], [1]]
    assert results.read_bytes() == shared


ADDING = """
import sys
from pathlib import Path
from drt_lab.study.results_file import ResultsFile
from drt_lab.study.spec import load_study
from drt_lab.study.stored import Measured
study = load_study(Path(sys.argv[1]), ["seeds=" + sys.argv[3]])
file = ResultsFile(Path(sys.argv[2]), study)
results = {
    (run.name, seed, study.evaluations[0].label): Measured({}, {"metrics": {"64": {}}})
    for run, seed in study.jobs()
}
print("ready", flush=True)
sys.stdin.readline()
for place in results:
    file.write({place: results[place]})
"""


@pytest.mark.thorough
def test_two_studies_at_the_same_time_lose_no_results(tmp_path: Path, forks: Forks) -> None:
    results = tmp_path / "results.json"
    seeds = list(range(20)), list(range(20, 40))
    path = write_study(tmp_path)
    studies = [forks.start(ADDING, path, results, json.dumps(some)) for some in seeds]
    for process in studies:
        assert process.stdout.readline() == "ready\n"
    for process in studies:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in studies:
        _, err = process.communicate()
        assert process.returncode == 0, err
    entries = json.loads(results.read_text())["results"]
    written = [entry["seed"] for entry in entries if entry["run"] == "DRT"]
    assert sorted(written) == list(range(40))


@each_row(
    ("override", "message"),
    [
        (
            "train.optim.steps=5",
            r"'DRT', seed 1, .* train.optim.steps = 4, and the study has 5; name",
        ),
        ("train.optim.lr=0.5", "train.optim.lr = None, and the study has 0.5"),
        ("train.run.threads=1", ""),
    ],
)
def test_results_of_other_settings_are_refused(
    unbroken: Path, tmp_path: Path, override: str, message: str
) -> None:
    results = tmp_path / "results.json"
    study(unbroken.parent / "study.toml", results=results)
    if message:
        with pytest.raises(ConfigError, match=message):
            study(write_study(tmp_path), [override], results=results)
        assert not (tmp_path / "results").exists()
    else:  # what is local to a machine may differ
        study(write_study(tmp_path), [override], results=results)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.optim.steps=5", r"'DRT', seed 1, was trained with train.optim.steps = 4, .* has 5"),
        ("train.optim.lr=0.5", "was trained with train.optim.lr = None"),
    ],
)
def test_a_finished_study_with_other_settings_is_refused(
    unbroken: Path, monkeypatch: pytest.MonkeyPatch, override: str, message: str
) -> None:
    monkeypatch.setattr(job, "train_stage", lambda config: pytest.fail("trained again"))
    before = content(unbroken)
    with pytest.raises(ConfigError, match=f"{message}.*another folder"):
        study(unbroken.parent / "study.toml", [override])
    assert content(unbroken) == before


def test_a_measurement_with_other_options_is_refused(unbroken: Path, tmp_path: Path) -> None:
    change = ("cases = 4", "cases = 5")
    other = write_study(tmp_path, change=change)
    message = "'DRT', seed 1, was measured with evaluation.cases = 4, and the study has 5"
    with pytest.raises(ConfigError, match=message):
        study(other, [f"out={json.dumps(str(unbroken))}"])


def test_a_value_is_of_the_seed_that_measured_it(tmp_path: Path) -> None:
    spec = load_study(write_study(tmp_path))
    result = {"metrics": {"64": {"tokens right": 0.5}}}
    table = make_table(
        spec, {("DRT", 1, "passkey"): {"metrics": {}}, ("DRT", 2, "passkey"): result}
    )
    (cell,) = table.rows[0].cells
    assert (table.rows[0].seeds, cell.values, cell.mean) == ((1, 2), (None, 0.5), 0.5)
    assert "DRT,2,passkey,64,tokens right,0.5" in table.as_csv()
    assert "DRT,1," not in table.as_csv()


@each_row("text", ["", "{}", '{"results": [{"run": "DRT"}]}'])
def test_a_file_that_holds_no_results_is_left_alone(text: str, tmp_path: Path) -> None:
    results = tmp_path / "notes.txt"
    results.write_text(text)
    with pytest.raises(ConfigError, match=r"notes.txt holds no results of a study .*another file"):
        study(write_study(tmp_path), results=results)
    assert results.read_text() == text
