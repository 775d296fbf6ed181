"""Rows of records in token space, whose loss is on what an earlier record holds."""

from __future__ import annotations

import random

import torch
from torch import Tensor

from drt_engine.model.protocol import LanguageModel
from drt_lab.data.records import RecordLayout, record_row
from drt_lab.train.copying import Rows, Weights, counted_rows, rows_loss
from drt_lab.train.tasks.base import Task, TaskSetup, named


class RecordsTask(Task[Rows]):
    """Rows of some records (``config.records``)."""

    any_model = True

    def __init__(self, setup: TaskSetup) -> None:
        self.config = config = setup.config.records
        self.share = config.share
        self.window = setup.model.window
        self.weights = Weights(rest=config.rest, labels=config.labels)
        self.layout = RecordLayout(
            vocab=setup.model.vocab,
            chunk=setup.model.chunk,
            names=config.names,
            values=config.values,
            apart=config.apart,
        )

    def draw(self, rng: random.Random) -> Rows:
        """Draw a length and ``config.batch`` rows of it."""
        length = rng.choice(self.config.chunks)
        rows = [record_row(rng, self.layout, length) for _ in range(self.config.batch)]
        return counted_rows(torch.stack(rows), self.weights, window=self.window)

    def loss(
        self, model: LanguageModel, batch: Rows, generator: torch.Generator | None
    ) -> tuple[Tensor, dict[str, float]]:
        """Return the loss of copies, with that of other tokens and of labels at their weights."""
        loss, values = rows_loss(model, batch, generator, self.weights)
        return loss, named("records", values, ("lm", "far", "labels", "score_sd"))
