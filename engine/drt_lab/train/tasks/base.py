"""What a task of training is: how often it is drawn, what a batch is, and what it costs."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from drt_engine.config.model import ModelConfig
from drt_engine.errors import ConfigError
from drt_engine.model.drt import DRT
from drt_engine.text.tokenizer import Tokenizer
from drt_lab.config.train import TrainConfig
from drt_lab.train.answering.batch import QuestionBatch
from drt_lab.train.answering.losses import answer_losses
from drt_lab.train.answering.teacher import LandmarkTeacher
from drt_lab.train.ranks import OneRank, Ranks

Batch = TypeVar("Batch")


@dataclass(frozen=True)
class TaskSetup:
    """What the tasks of a stage are made of; ``teacher`` is ``None`` where no stage names one.

    Tasks of all ranks are made at the same time, so that these can share the work.
    """

    config: TrainConfig
    model: ModelConfig
    tokenizer: Tokenizer
    teacher: LandmarkTeacher | None = None
    ranks: Ranks = field(default_factory=OneRank)

    def expect_reader_pass(self) -> None:
        """Raise ``ConfigError`` for a model without the parts that questions teach."""
        if not self.model.reread:
            raise ConfigError(
                "questions, needles and clozes teach the quote head; expected model.quote_head and "
                "model.reread to be true"
            )

    def answer_loss(
        self, model: DRT, batch: QuestionBatch, *, count: int, generator: torch.Generator | None
    ) -> tuple[Tensor, dict[str, float]]:
        """Return the loss of questions with ``count`` chunks retrieved, and its parts to log.

        The weights of the parts are those of the section ``questions`` for every kind of question.
        """
        losses = answer_losses(
            model,
            batch,
            count=count,
            generator=generator,
            teacher=self.teacher,
            ask_reader=self.config.questions.reader_loss > 0,
        )
        values = {**losses.values(), "asked": float(len(batch.questions))}
        return losses.weighted(self.config.questions), values


class Task(Protocol[Batch]):
    """A kind of training example.

    Batches are made on the CPU from a random generator alone, so that any process can make them;
    where ``stateful`` is true, a batch also depends on those before it and is made in order by the
    process that trains. Where ``any_model`` is true, the model need not be a DRT.
    """

    share: float
    stateful: bool = False
    any_model: bool = False

    def draw(self, rng: random.Random) -> Batch:
        """Return the next batch, on the CPU."""
        ...

    def skip(self) -> None:
        """Pass over a batch that another rank makes; a task without state has nothing to do."""

    def loss(
        self, model: Any, batch: Batch, generator: torch.Generator | None
    ) -> tuple[Tensor, dict[str, float]]:
        """Return the loss of a batch on the model's device, and what to log by name.

        ``model`` is a ``DRT``, or where ``any_model`` is true a ``LanguageModel``.
        ``generator`` draws the noise of choices, ``None``: no noise.
        """
        ...

    def state(self) -> dict[str, Any]:
        """Return what a resumed run needs as JSON; nothing for a task without state."""
        return {}

    def load(self, state: dict[str, Any]) -> None:
        """Continue from what ``state`` returned."""


def named(task: str, values: dict[str, float], keys: tuple[str, ...]) -> dict[str, float]:
    """Return the values of ``keys`` that there are, with the task's name before theirs."""
    return {f"{task}_{key}": values[key] for key in keys if key in values}
