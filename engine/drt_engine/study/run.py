"""Runs a study: each model is trained, then measured, and every result is a file of its own.

Whatever is killed goes on where it was: training from its last checkpoint, bit for bit as if it had
not been interrupted, and measurements from the last that has a file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from drt_engine.config.train import TrainConfig
from drt_engine.data.durable import write_whole
from drt_engine.evaluate.needle import length_name
from drt_engine.evaluate.run import evaluate, load_for
from drt_engine.study.check import check_study
from drt_engine.study.compute import equal_steps
from drt_engine.study.measures import MEASURES, measure
from drt_engine.study.plot import draw_plots
from drt_engine.study.results_file import (
    ResultsFile,
    expect_settings,
    model_settings,
    result_settings,
)
from drt_engine.study.spec import (
    EvaluationSpec,
    RunSpec,
    StudySpec,
    expect_runs,
    load_study,
    slug,
)
from drt_engine.study.table import Results, Table, make_table
from drt_engine.train.run import train_stage

# A file of this name says that the model of the folder is the final one, and with what settings.
_TRAINED = "trained"

_SETTINGS = ".settings.json"  # what the settings of a result are called, in place of ".json"


def study(
    path: Path,
    overrides: Sequence[str] = (),
    *,
    only: Collection[str] = (),
    results: Path | None = None,
) -> dict[str, Any]:
    """Run the study of a TOML file; return the folder of its results and the table as JSON."""
    spec = load_study(path, overrides)
    return {"folder": str(spec.out), **run_study(spec, only=only, results=results).to_dict()}


def run_study(
    study: StudySpec, *, only: Collection[str] = (), results: Path | None = None
) -> Table:
    """Train and measure what has no result yet, and write the table; return it.

    ``only`` names runs; the table has all that were measured so far. ``results`` is a file that
    every result is added to, and whose runs are not trained again. Raises ``ConfigError`` before
    anything is trained where something cannot be measured, or was measured with other settings.
    """
    expect_runs(study, only)
    file = None if results is None else ResultsFile(results, study)
    gathered = {} if file is None else file.read()
    check_study(study)
    _check_settings(study)
    jobs = [(run, seed) for run, seed in study.jobs() if not only or run.name in only]
    study.out.mkdir(parents=True, exist_ok=True)
    _put_results(study, gathered)
    for number, (run, seed) in enumerate(jobs, start=1):
        _Job(study, run, seed, place=f"{number} of {len(jobs)}").finish()
        write_tables(study)
        if file is not None:
            file.write(read_results(study))
    return write_tables(study)


def _put_results(study: StudySpec, results: Results) -> None:
    """Write results of other sittings into the study's folder, where it has none of its own."""
    for run, seed in study.jobs():
        for evaluation in study.evaluations:
            path = _result(study.folder(run, seed), evaluation)
            result = results.get((run.name, seed, evaluation.label))
            if result is not None and not path.exists():
                _put_result(study, run, evaluation, path, result)


def _put_result(
    study: StudySpec, run: RunSpec, evaluation: EvaluationSpec, path: Path, result: Any
) -> None:
    """Write a result, and before it the settings that it was measured with."""
    path.parent.mkdir(parents=True, exist_ok=True)
    settings = result_settings(study, run, evaluation)
    for file, content in ((path.with_suffix(_SETTINGS), settings), (path, result)):
        write_whole(file, json.dumps(content, indent=1) + "\n")


def _check_settings(study: StudySpec) -> None:
    """Raise ``ConfigError`` for models and results of the folder that have other settings."""
    for run, seed in study.jobs():
        folder, advice = study.folder(run, seed), "another folder with out=FOLDER"
        trained = folder / _TRAINED
        if trained.exists() and (text := trained.read_text("utf-8")):
            what = f"{folder}: {run.name!r}, seed {seed}, was trained"
            expect_settings(json.loads(text), model_settings(study, run), what, advice)
        for evaluation in study.evaluations:
            path = _result(folder, evaluation)
            file = path.with_suffix(_SETTINGS)
            if path.exists() and file.exists():
                what = f"{folder}: {run.name!r}, seed {seed}, was measured"
                expected = result_settings(study, run, evaluation)
                expect_settings(json.loads(file.read_text("utf-8")), expected, what, advice)


def write_tables(study: StudySpec) -> Table:
    """Write the table of what was measured so far as Markdown, JSON and CSV, and its plots."""
    table = make_table(study, read_results(study))
    for name, text in (
        ("table.md", table.as_markdown()),
        ("table.json", json.dumps(table.to_dict(), indent=1) + "\n"),
        ("table.csv", table.as_csv()),
    ):
        write_whole(study.out / name, text)
    draw_plots(table, study.out)
    return table


def read_results(study: StudySpec) -> dict[tuple[str, int, str], dict[str, Any]]:
    """Return the results that there are, by run, seed and evaluation."""
    results = {}
    for run, seed in study.jobs():
        for evaluation in study.evaluations:
            path = _result(study.folder(run, seed), evaluation)
            if path.exists():
                results[run.name, seed, evaluation.label] = json.loads(path.read_text("utf-8"))
    return results


def _result(folder: Path, evaluation: EvaluationSpec) -> Path:
    return folder / "results" / f"{slug(evaluation.label)}.json"


class _Job:
    """One run with one seed."""

    def __init__(self, study: StudySpec, run: RunSpec, seed: int, *, place: str) -> None:
        self.study, self.run, self.seed, self.place = study, run, seed, place
        self.folder = study.folder(run, seed)

    def finish(self) -> None:
        """Train the model unless it is trained, and measure what has no result."""
        missing = [e for e in self.study.evaluations if not _result(self.folder, e).exists()]
        for evaluation in missing:
            if evaluation.task in MEASURES:
                # Names of measured columns end with the length.
                lengths = MEASURES[evaluation.task].options(evaluation.options).lengths
                self._say(f"{evaluation.label} {', '.join(map(length_name, lengths))}")
                result = measure(evaluation.task, self._config(), evaluation.options)
            else:
                self._train()
                self._say(evaluation.label)
                run = self._config().run
                runtime = load_for(
                    evaluation.task,
                    self.folder / "model",
                    device=run.device,
                    threads=run.threads,
                    # What the processor or GPU prefers would differ between machines.
                    dtype="auto" if run.bf16 else "fp32",
                )
                result = evaluate(runtime, evaluation.task, evaluation.options)
            _put_result(self.study, self.run, evaluation, _result(self.folder, evaluation), result)

    def _train(self) -> None:
        if (self.folder / _TRAINED).exists():
            return
        config = self._with_steps()
        self._say(f"training {config.optim.steps:,} steps")
        train_stage(config)
        settings = model_settings(self.study, self.run)
        write_whole(self.folder / _TRAINED, json.dumps(settings, indent=1) + "\n")

    def _config(self) -> TrainConfig:
        return self.study.train_config(self.run, self.seed)

    def _with_steps(self) -> TrainConfig:
        """Return the configuration with the steps of equal compute, counted once."""
        config = self._config()
        if self.run.compute_of is None:
            return config
        path = self.folder / "steps.json"
        if not path.exists():
            reference = next(r for r in self.study.runs if r.name == self.run.compute_of)
            steps = equal_steps(config, self.study.train_config(reference, self.seed))
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps({"steps": steps}) + "\n")
        steps = json.loads(path.read_text("utf-8"))["steps"]
        return replace(config, optim=replace(config.optim, steps=steps))

    def _say(self, what: str) -> None:
        line = f"{self.place}: {self.run.name}, seed {self.seed}: {what}"
        print(line, file=sys.stderr, flush=True)
