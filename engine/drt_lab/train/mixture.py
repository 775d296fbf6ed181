"""The mixture of one stage: each step draws a task by its share and returns its loss."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from drt_engine.config.model import ModelConfig
from drt_engine.errors import ConfigError
from drt_engine.model.protocol import LanguageModel
from drt_engine.text.tokenizer import Tokenizer
from drt_lab.config.train import TrainConfig
from drt_lab.train.answering.teacher import LandmarkTeacher
from drt_lab.train.ranks import OneRank, Ranks
from drt_lab.train.tasks import TASKS
from drt_lab.train.tasks.base import Task, TaskSetup


@dataclass(frozen=True)
class Drawn:
    """A batch, the name of its task, and the seed of its Gumbel noise (``None``: no noise)."""

    task: str
    batch: Any
    noise: int | None

    def generator(self) -> torch.Generator | None:
        """Return what draws the noise: on the CPU, so that it is the same for every device."""
        return None if self.noise is None else torch.Generator().manual_seed(self.noise)


class TaskMixture:
    """Samples the tasks of a stage, and computes their losses on a device."""

    def __init__(
        self,
        config: TrainConfig,
        model: ModelConfig,
        tokenizer: Tokenizer,
        *,
        device: torch.device | str = "cpu",
        ranks: Ranks | None = None,
    ) -> None:
        self.config, self.device = config, torch.device(device)
        self.teacher: LandmarkTeacher | None = None
        if config.questions.teacher is not None:
            self.teacher = LandmarkTeacher(config.questions.teacher, model)
            self.teacher.model.to(self.device)
        if model.architecture != "drt":
            _expect_streams(config, model.architecture)
        setup = TaskSetup(config, model, tokenizer, self.teacher, ranks or OneRank())
        self.tasks: dict[str, Task[Any]] = {
            name: make_task(setup)
            for name, make_task in TASKS.items()
            if getattr(config, name).share > 0
        }

    def state(self) -> dict[str, Any]:
        """Return what resuming needs besides the step number, by task."""
        states = {name: task.state() for name, task in self.tasks.items()}
        return {name: state for name, state in states.items() if state}

    def load(self, state: dict[str, Any]) -> None:
        """Continue from ``state``."""
        for name, task in self.tasks.items():
            if name in state:
                task.load(state[name])

    def draw(self, rng: random.Random) -> Drawn:
        """Draw a task and make its batch, on the CPU."""
        return self.make(self.choose(rng), rng)

    def skip(self, rng: random.Random) -> None:
        """Pass over a batch that another rank makes."""
        self.tasks[self.choose(rng)].skip()

    def choose(self, rng: random.Random) -> str:
        """Draw the name of a task by the shares."""
        shares = [task.share for task in self.tasks.values()]
        return rng.choices(list(self.tasks), shares)[0]

    def make(self, name: str, rng: random.Random) -> Drawn:
        """Make a batch of a task; only that of a stateful one changes the state."""
        batch = self.tasks[name].draw(rng)
        return Drawn(name, batch, rng.getrandbits(62) if self.config.run.gumbel else None)

    def loss(self, model: LanguageModel, drawn: Drawn) -> tuple[Tensor, dict[str, float]]:
        """Return the loss of a batch, once moved to the device of the model, and what to log."""
        batch = drawn.batch.to(self.device)
        return self.tasks[drawn.task].loss(model, batch, drawn.generator())


def _expect_streams(config: TrainConfig, architecture: str) -> None:
    """Raise ``ConfigError`` where a task needs more of a model than to read streams."""
    for name, make_task in TASKS.items():
        share = getattr(config, name).share
        if share > 0 and not getattr(make_task, "any_model", False):
            raise ConfigError(
                f"{name}.share is {share}, but {name} needs a DRT; a model of the architecture "
                f"{architecture!r} learns from streams alone"
            )
