"""What a study keeps in its folder for each run and seed: what it was begun with, and results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drt_engine.errors import ConfigError
from drt_lab.data.durable import alone_with, write_whole
from drt_lab.study.settings import expect_settings, model_settings, result_settings
from drt_lab.study.spec import EvaluationSpec, StudySpec, slug

# What a model is trained with, written before its first step; and the same once it is the final
# one, which says that it is. Older studies have an empty file.
BEGUN, TRAINED = "begun", "trained"

_SETTINGS = ".settings.json"  # what the settings of a result are called, in place of ".json"


@dataclass(frozen=True)
class Measured:
    """A result, and what it depended on when it was measured."""

    settings: Mapping[str, Any]
    result: Mapping[str, Any]


Places = Mapping[tuple[str, int, str], Measured]  # by run, seed and evaluation


def result_path(folder: Path, evaluation: EvaluationSpec) -> Path:
    """Return where the result of a run's folder is."""
    return folder / "results" / f"{slug(evaluation.label)}.json"


def write_object(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object, all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(content, indent=1) + "\n")


def read_object(path: Path) -> dict[str, Any]:
    """Return the object of a JSON file; ``ConfigError`` for a damaged one."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("no object")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path} is damaged ({type(error).__name__}), expected what the study wrote; remove "
            "it, and the study makes it again"
        ) from None
    return content


def put_measured(folder: Path, evaluation: EvaluationSpec, measured: Measured) -> None:
    """Write a result, and before it what it depended on."""
    path = result_path(folder, evaluation)
    write_object(path.with_suffix(_SETTINGS), measured.settings)
    write_object(path, measured.result)


def put_missing(study: StudySpec, places: Places) -> None:
    """Write results of other sittings into the study's folder, where it has none of its own."""
    with alone_with(study.out / "table.md"):
        for run, seed in study.jobs():
            for evaluation in study.evaluations:
                folder = study.folder(run, seed)
                measured = places.get((run.name, seed, evaluation.label))
                if measured is not None and not result_path(folder, evaluation).exists():
                    put_measured(folder, evaluation, measured)


def read_results(study: StudySpec) -> dict[tuple[str, int, str], dict[str, Any]]:
    """Return the results that there are, by run, seed and evaluation."""
    results = {}
    for run, seed in study.jobs():
        for evaluation in study.evaluations:
            path = result_path(study.folder(run, seed), evaluation)
            if path.exists():
                results[run.name, seed, evaluation.label] = result = read_object(path)
                expect_groups(result, str(path))
    return results


def read_measured(study: StudySpec) -> dict[tuple[str, int, str], Measured]:
    """Return the results of which is known what they depended on; older studies have others."""
    places = {}
    for (name, seed, label), result in read_results(study).items():
        run = next(r for r in study.runs if r.name == name)
        evaluation = next(e for e in study.evaluations if e.label == label)
        file = result_path(study.folder(run, seed), evaluation).with_suffix(_SETTINGS)
        if file.exists():
            places[name, seed, label] = Measured(read_object(file), result)
    return places


def expect_groups(result: Mapping[str, Any], where: str) -> None:
    """Raise ``ConfigError`` for a result whose metrics are not grouped."""
    metrics = result.get("metrics")
    if not isinstance(metrics, Mapping) or not all(
        isinstance(group, Mapping) for group in metrics.values()
    ):
        raise ConfigError(
            f"{where} holds no result of an evaluation, expected groups of metrics; remove it, and "
            "the study makes it again"
        )


def expect_same_study(study: StudySpec) -> None:
    """Raise ``ConfigError`` for models and results of the folder that have other settings."""
    for run, seed in study.jobs():
        folder, advice = study.folder(run, seed), "another folder with out=FOLDER"
        for name in (TRAINED, BEGUN):
            path = folder / name
            if path.exists() and path.stat().st_size:
                what = f"{folder}: {run.name!r}, seed {seed}, was {name}"
                expect_settings(read_object(path), model_settings(study, run), what, advice)
        for evaluation in study.evaluations:
            path = result_path(folder, evaluation)
            file = path.with_suffix(_SETTINGS)
            if path.exists() and file.exists():
                what = f"{folder}: {run.name!r}, seed {seed}, was measured"
                expected = result_settings(study, run, evaluation)
                expect_settings(read_object(file), expected, what, advice)
