"""Results of a study in one small file, so that its rows gather over several sittings or machines.

A study's folder has models and checkpoints and is never shared; the file has what was measured,
with the settings that it was measured with. Runs in it are not trained again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from drt_engine.config.load import load_table
from drt_engine.data.durable import alone_with, write_whole
from drt_engine.errors import ConfigError
from drt_engine.study.spec import EvaluationSpec, RunSpec, StudySpec
from drt_engine.study.table import Results

# Of the section "run": settings that change nothing of what is measured, or that each job has.
_LOCAL = ("out", "seed", "threads", "device", "minutes", "limit_minutes", "log_every", "workers")


class ResultsFile:
    """The file of a study: ``read`` gives the results of the study's runs, ``write`` adds to it.

    Runs and seeds of the file that the study does not have stay in it. Raises ``ConfigError`` for
    a file of something else, and for results that were measured with other settings.
    """

    def __init__(self, path: Path, study: StudySpec) -> None:
        self._path, self._study = path, study
        if path.exists() and not path.is_file():
            raise ConfigError(f"{path} is a folder, expected a file for the results of a study")

    def read(self) -> dict[tuple[str, int, str], dict[str, Any]]:
        """Return the results that the file has for the study, by run, seed and evaluation."""
        entries = self._entries()
        results = {}
        for run, seed in self._study.jobs():
            for evaluation in self._study.evaluations:
                entry = entries.get((run.name, seed, evaluation.label))
                if entry is not None:
                    expect_settings(
                        entry["settings"],
                        result_settings(self._study, run, evaluation),
                        f"{self._path}: {run.name!r}, seed {seed}, was measured",
                        "another file for its results",
                    )
                    results[run.name, seed, evaluation.label] = entry["result"]
        return results

    def write(self, results: Results) -> None:
        """Write the file with these results beside those that it has."""
        evaluations = {evaluation.label: evaluation for evaluation in self._study.evaluations}
        runs = {run.name: run for run in self._study.runs}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with alone_with(self._path):  # another study may add to it now
            entries = self._entries()
            for (name, seed, label), result in results.items():
                entries[name, seed, label] = {
                    "run": name,
                    "seed": seed,
                    "evaluation": label,
                    "settings": result_settings(self._study, runs[name], evaluations[label]),
                    "result": dict(result),
                }
            content = {"title": self._study.title, "results": list(entries.values())}
            write_whole(self._path, json.dumps(content, indent=1) + "\n")

    def _entries(self) -> dict[tuple[str, int, str], dict[str, Any]]:
        if not self._path.exists():
            return {}
        try:
            entries = json.loads(self._path.read_text(encoding="utf-8"))["results"]
            by_place = {(e["run"], e["seed"], e["evaluation"]): e for e in entries}
            if not all(isinstance(e["result"]["metrics"], dict) for e in entries):
                raise ValueError("a result has no metrics")
            if not all(isinstance(e["settings"], dict) for e in entries):
                raise ValueError("a result has no settings")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{self._path} holds no results of a study ({type(error).__name__}: {error}); name "
                "another file, which is made"
            ) from None
        return by_place


def expect_settings(
    settings: Mapping[str, Any], expected: Mapping[str, Any], what: str, advice: str
) -> None:
    """Raise ``ConfigError`` where ``what`` was made with other settings than a study has."""
    seen, needed = dict(_flat(settings)), dict(_flat(expected))
    for key in sorted({*needed, *seen}):
        if needed.get(key) != seen.get(key):
            raise ConfigError(
                f"{what} with {key} = {seen.get(key)!r}, and the study has {needed.get(key)!r}; "
                f"name {advice}"
            )


def result_settings(study: StudySpec, run: RunSpec, evaluation: EvaluationSpec) -> dict[str, Any]:
    """Return what a result depends on, as JSON gives it back."""
    options = {"task": evaluation.task, **evaluation.options}
    as_json: dict[str, Any] = json.loads(json.dumps({"evaluation": options}, default=str))
    return model_settings(study, run) | as_json


def model_settings(study: StudySpec, run: RunSpec) -> dict[str, Any]:
    """Return what the model of a run depends on, as JSON gives it back."""
    settings: dict[str, Any] = {"train": _train_settings(study, run)}
    if run.compute_of is not None:
        reference = next(r for r in study.runs if r.name == run.compute_of)
        settings["compute_of"] = _train_settings(study, reference)
    as_json: dict[str, Any] = json.loads(json.dumps(settings, default=str))
    return as_json


def _train_settings(study: StudySpec, run: RunSpec) -> dict[str, Any]:
    """Return what the training configuration of a run is made of, by dotted key."""
    settings = dict(_flat(study.train))
    if run.config is not None:
        settings |= _flat(load_table(run.config))
    settings |= _flat(run.set)
    return {
        key: value
        for key, value in settings.items()
        if key not in {f"run.{name}" for name in _LOCAL}
    }


def _flat(data: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested tables by their dotted keys."""
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value
