"""What a model and a result depend on: settings, and the contents of the files that are read."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from drt_engine.errors import ConfigError
from drt_engine.model.weights import WEIGHTS
from drt_lab.config.load import load_table
from drt_lab.config.train import TrainConfig
from drt_lab.study.spec import EvaluationSpec, RunSpec, StudySpec
from drt_lab.train.tasks import TASKS

# Of the section "run": settings that change nothing of what is measured, or that each job has.
_LOCAL = ("out", "seed", "threads", "device", "minutes", "limit_minutes", "log_every", "workers")

_READ = ("qa", "docs", "corpus", "data", "questions", "folder")  # options that name files

_FILES = "files."  # what the keys of contents begin with


def result_settings(study: StudySpec, run: RunSpec, evaluation: EvaluationSpec) -> dict[str, Any]:
    """Return what a result depends on, as JSON gives it back."""
    options = {"task": evaluation.task, **evaluation.options}
    as_json: dict[str, Any] = json.loads(json.dumps({"evaluation": options}, default=str))
    settings = model_settings(study, run)
    settings["files"] |= _contents(evaluation_files(evaluation))
    return settings | as_json


def model_settings(study: StudySpec, run: RunSpec) -> dict[str, Any]:
    """Return what the model of a run depends on, as JSON gives it back.

    ``files`` are digests of what it reads. A model of the study that it starts from has none: that
    is made anew on each machine.
    """
    settings: dict[str, Any] = {"train": _train_settings(study, run)}
    reference = study.reference(run)
    if reference is not None:
        settings["compute_of"] = _train_settings(study, reference)
    as_json: dict[str, Any] = json.loads(json.dumps(settings, default=str))
    config = study.train_config(run, (run.seeds or study.seeds)[0])
    return as_json | {"files": _contents(_files_of(config, study))}


def expect_settings(
    settings: Mapping[str, Any], expected: Mapping[str, Any], what: str, advice: str
) -> None:
    """Raise ``ConfigError`` where ``what`` was made with other settings than a study has.

    Contents of files are compared where both have them: older results do not.
    """
    seen, needed = dict(_flat(settings)), dict(_flat(expected))
    for key in sorted({*needed, *seen}):
        if needed.get(key) == seen.get(key):
            continue
        if not key.startswith(_FILES):
            raise ConfigError(
                f"{what} with {key} = {seen.get(key)!r}, and the study has {needed.get(key)!r}; "
                f"name {advice}"
            )
        if key in needed and key in seen:
            raise ConfigError(
                f"{what} with other contents of {key.removeprefix(_FILES)} than it has now; put "
                f"back what was there, or name {advice}"
            )


def train_files(config: TrainConfig) -> Iterator[Path]:
    """Yield the files that the tasks of a run read."""
    for name in TASKS:
        section = getattr(config, name)
        if section.share > 0:
            yield from _named(vars(section))


def evaluation_files(evaluation: EvaluationSpec) -> Iterator[Path]:
    """Yield the files that an evaluation reads."""
    yield from _named(evaluation.options)


def _named(values: Mapping[str, Any]) -> Iterator[Path]:
    for name in _READ:
        value = values.get(name)
        for path in value if isinstance(value, list | tuple) else [value]:
            if isinstance(path, str | Path):
                yield Path(path)


def _files_of(config: TrainConfig, study: StudySpec) -> Iterator[Path]:
    """Yield all files that a trained model depends on."""
    yield from train_files(config)
    if config.start.tokenizer is not None:
        yield config.start.tokenizer
    model = config.start.model
    if model is not None and not model.is_relative_to(study.out):
        yield model / WEIGHTS


def _contents(paths: Iterator[Path]) -> dict[str, str]:
    """Return digests of the files that there are."""
    digests = {}
    for path in paths:
        if path.is_file():
            seen = path.stat()
            digests[str(path)] = _digest(path, seen.st_size, seen.st_mtime_ns)
    return digests


@functools.lru_cache(maxsize=256)
def _digest(path: Path, size: int, changed: int) -> str:  # noqa: ARG001  the key of the cache
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _train_settings(study: StudySpec, run: RunSpec) -> dict[str, Any]:
    """Return what the training configuration of a run is made of, by dotted key."""
    settings = dict(_flat(study.train))
    if run.config is not None:
        settings |= _flat(load_table(run.config))
    settings |= _flat(run.set)
    if run.after is not None:  # the same model with whatever seed, and how that was trained
        earlier = next(r for r in study.runs if r.name == run.after)
        before = _train_settings(study, earlier).items()
        settings |= {f"after.{key}": value for key, value in before}
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
