"""One run of a study with one seed: its model is trained, then measured.

Whatever is killed goes on where it was: training from its last checkpoint, bit for bit as if it had
not been interrupted, and measurements from the last that has a file.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from drt_engine.errors import ConfigError
from drt_engine.files import lock, unlock
from drt_lab.config.train import TrainConfig
from drt_lab.evaluate.needle import length_name
from drt_lab.evaluate.run import evaluate, load_for
from drt_lab.study.compute import equal_steps
from drt_lab.study.measures import MEASURES, measure
from drt_lab.study.settings import model_settings, result_settings
from drt_lab.study.spec import EvaluationSpec, RunSpec, StudySpec
from drt_lab.study.stored import (
    BEGUN,
    TRAINED,
    Measured,
    put_measured,
    read_object,
    result_path,
    write_object,
)
from drt_lab.train.run import steps_done, train_stage


class Job:
    """A run with a seed; ``place`` says which of how many it is, on stderr."""

    def __init__(self, study: StudySpec, run: RunSpec, seed: int, *, place: str) -> None:
        self.study, self.run, self.seed, self.place = study, run, seed, place
        self.folder = study.folder(run, seed)

    def finish(self) -> None:
        """Train the model unless it is trained, and measure what has no result.

        Raises ``ConfigError`` while another process does so, and where a limit of time ended the
        training.
        """
        if not self._missing():
            return
        with self._alone():
            for evaluation in self._missing():  # what another process has not measured since
                result = self._measured(evaluation)
                settings = result_settings(self.study, self.run, evaluation)
                put_measured(self.folder, evaluation, Measured(settings, result))

    def _missing(self) -> list[EvaluationSpec]:
        return [e for e in self.study.evaluations if not result_path(self.folder, e).exists()]

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes out of the folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("ab") as file:
            if not lock(file):
                raise ConfigError(
                    f"another process trains or measures {self.folder}, expected one alone; wait "
                    "for it, or take other runs with --only"
                )
            try:
                yield
            finally:
                unlock(file)

    def _measured(self, evaluation: EvaluationSpec) -> dict[str, Any]:
        """Return the result of an evaluation, for which the model is trained if that is needed."""
        if evaluation.task in MEASURES:
            # Names of measured columns end with the length.
            lengths = MEASURES[evaluation.task].options(evaluation.options).lengths
            self._say(f"{evaluation.label} {', '.join(map(length_name, lengths))}")
            return measure(evaluation.task, self._config(), evaluation.options)
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
        return evaluate(runtime, evaluation.task, evaluation.options)

    def _train(self) -> None:
        if (self.folder / TRAINED).exists():
            return
        settings = model_settings(self.study, self.run)
        write_object(self.folder / BEGUN, settings)
        config = self._with_steps()
        self._say(f"training {config.optim.steps:,} steps")
        train_stage(config)
        done = steps_done(config)
        if done < config.optim.steps:
            raise ConfigError(
                f"{self.run.name!r}, seed {self.seed}, was trained for {done:,} of "
                f"{config.optim.steps:,} steps when run.limit_minutes were over; the same command "
                "goes on"
            )
        write_object(self.folder / TRAINED, settings)

    def _config(self) -> TrainConfig:
        return self.study.train_config(self.run, self.seed)

    def _with_steps(self) -> TrainConfig:
        """Return the configuration with the steps of equal compute, counted once."""
        config = self._config()
        reference = self.study.reference(self.run)
        if reference is None:
            return config
        path = self.folder / "steps.json"
        if not path.exists():
            steps = equal_steps(config, self.study.train_config(reference, self.seed))
            write_object(path, {"steps": steps})
        steps = read_object(path)["steps"]
        return replace(config, optim=replace(config.optim, steps=steps))

    def _say(self, what: str) -> None:
        line = f"{self.place}: {self.run.name}, seed {self.seed}: {what}"
        print(line, file=sys.stderr, flush=True)
