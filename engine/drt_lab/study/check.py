"""Checks all of a study before its first run begins: models, data and evaluations."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from drt_engine.config.model import ModelConfig
from drt_engine.errors import ConfigError, EngineError
from drt_lab.config.load import build
from drt_lab.evaluate.passkeys.evaluation import PasskeyEvaluation, expect_possible
from drt_lab.evaluate.run import check_options, plain_options
from drt_lab.study.compute import expect_formula
from drt_lab.study.measures import MEASURES
from drt_lab.study.settings import evaluation_files, train_files
from drt_lab.study.spec import EvaluationSpec, StudySpec
from drt_lab.train.run import model_config, tokenizer_of


def check_study(study: StudySpec, *, only: Collection[str] = ()) -> None:
    """Raise ``ConfigError`` for the first run or evaluation that could not be carried out.

    ``only`` names the runs of a sitting: what others start from need not be there.
    """
    for evaluation in study.evaluations:
        _check_evaluation(evaluation)
    earlier: set[Path] = set()
    for run, seed in study.jobs():
        config = study.train_config(run, seed)
        missing = [path for path in train_files(config) if not path.exists()]
        if missing:
            raise ConfigError(f"run {run.name!r}: {missing[0]} does not exist, expected its data")
        start = config.start.model
        if start is not None and not start.exists():
            if start not in earlier and (not only or run.name in only):
                raise ConfigError(
                    f"run {run.name!r}: start.model is {start}, which does not exist; train it "
                    "first, or name another model's folder"
                )
            continue
        try:
            shape = model_config(config, tokenizer_of(config))
            for evaluation in study.evaluations:
                _check_measurable(evaluation, shape)
        except EngineError as error:
            raise ConfigError(f"run {run.name!r}: {error}") from None
        earlier.add(study.folder(run, seed) / "model")


def _check_evaluation(evaluation: EvaluationSpec) -> None:
    if evaluation.task in MEASURES:
        MEASURES[evaluation.task].options(evaluation.options)
    else:
        check_options(evaluation.task, evaluation.options, also=MEASURES)
    for path in evaluation_files(evaluation):
        if not path.exists():
            raise ConfigError(
                f"evaluation {evaluation.label!r}: {path} does not exist, expected its data"
            )


def _check_measurable(evaluation: EvaluationSpec, shape: ModelConfig) -> None:
    """Raise ``ConfigError`` for an evaluation that models of this shape cannot have."""
    if evaluation.task == "shape":
        expect_formula(shape)
    if evaluation.task == "passkey":
        expect_possible(build(PasskeyEvaluation, plain_options(evaluation.options)), shape)
