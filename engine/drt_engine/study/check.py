"""Checks all of a study before its first run begins: models, data and evaluations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from drt_engine.config.train import TrainConfig
from drt_engine.errors import ConfigError, EngineError
from drt_engine.evaluate.run import check_options
from drt_engine.study.measures import MEASURES
from drt_engine.study.spec import EvaluationSpec, StudySpec
from drt_engine.train.run import model_config, tokenizer_of
from drt_engine.train.tasks import TASKS

_READ = ("qa", "docs", "corpus", "data", "questions", "folder")  # options that name files


def check_study(study: StudySpec) -> None:
    """Raise ``ConfigError`` for the first run or evaluation that could not be carried out."""
    for evaluation in study.evaluations:
        _check_evaluation(evaluation)
    for run, seed in study.jobs():
        config = study.train_config(run, seed)
        missing = [path for path in _inputs(config) if not path.exists()]
        if missing:
            raise ConfigError(f"run {run.name!r}: {missing[0]} does not exist, expected its data")
        if config.start.model is not None and not config.start.model.exists():
            continue  # an earlier run may make it
        try:
            model_config(config, tokenizer_of(config))
        except EngineError as error:
            raise ConfigError(f"run {run.name!r}: {error}") from None


def _check_evaluation(evaluation: EvaluationSpec) -> None:
    if evaluation.task in MEASURES:
        MEASURES[evaluation.task].options(evaluation.options)
    else:
        check_options(evaluation.task, evaluation.options, also=MEASURES)
    for path in _files(evaluation.options, _READ):
        if not path.exists():
            raise ConfigError(
                f"evaluation {evaluation.label!r}: {path} does not exist, expected its data"
            )


def _inputs(config: TrainConfig) -> Iterator[Path]:
    """Yield the files that the tasks of a run read."""
    for name in TASKS:
        section = getattr(config, name)
        if section.share > 0:
            yield from _files(vars(section), _READ)


def _files(values: Mapping[str, Any], names: tuple[str, ...]) -> Iterator[Path]:
    for name in names:
        value = values.get(name)
        for path in value if isinstance(value, list | tuple) else [value]:
            if isinstance(path, str | Path):
                yield Path(path)
