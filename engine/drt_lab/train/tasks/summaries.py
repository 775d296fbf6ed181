"""Summaries written by a language model: the loss is on the summary, after its document."""

from __future__ import annotations

import random

import torch
from torch import Tensor

from drt_engine.errors import ConfigError
from drt_engine.model.protocol import LanguageModel
from drt_lab.data.schema import SummaryItem, read_summaries
from drt_lab.data.summary_streams import (
    SummaryStreams,
    document_tokens,
    summary_losses,
    summary_streams,
    summary_tokens,
)
from drt_lab.lm.losses import stream_loss
from drt_lab.train.tasks.base import Task, TaskSetup


class SummariesTask(Task[SummaryStreams]):
    """Documents and their summaries from files (``config.summaries``), drawn at random."""

    any_model = True

    def __init__(self, setup: TaskSetup) -> None:
        self.config, self.model = setup.config.summaries, setup.model
        self.tokenizer = setup.tokenizer
        self.share = self.config.share
        self.items = [item for path in self.config.data for item in read_summaries(path)]
        if not self.items:
            raise ConfigError("summaries.data holds no summaries, expected files of at least one")

    def draw(self, rng: random.Random) -> SummaryStreams:
        """Draw ``config.batch`` documents with their summaries."""
        items = [rng.choice(self.items) for _ in range(self.config.batch)]
        return summary_streams([self._tokens(item) for item in items], self.model)

    def _tokens(self, item: SummaryItem) -> tuple[list[int], list[int]]:
        document, summary = (
            self.tokenizer.encode(text).ids for text in (item.document, item.summary)
        )
        return (
            document_tokens(document, self.model, chunks=self.config.chunks),
            summary_tokens(summary, self.model, longest=self.config.longest),
        )

    def loss(
        self, model: LanguageModel, batch: SummaryStreams, generator: torch.Generator | None
    ) -> tuple[Tensor, dict[str, float]]:
        """Return the mean loss of the summaries' tokens, logged as ``summary``."""
        losses, mask = stream_loss(model, batch.chunks, batch.valid, generator=generator)
        loss = summary_losses(losses, mask, batch).mean()
        return loss, {"summary": float(loss.detach())}
