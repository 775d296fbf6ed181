"""Cloze questions that are made from corpus text while training runs."""

from __future__ import annotations

import random

import torch
from torch import Tensor

from drt_engine.model.drt import DRT
from drt_lab.train.answering.batch import (
    QuestionBatch,
    QuestionItem,
    TokenDocument,
    fit_prompt,
    token_spans,
)
from drt_lab.train.answering.builder import BatchBuilder
from drt_lab.train.answering.cloze_texts import ClozeTexts
from drt_lab.train.tasks.base import Task, TaskSetup, named

_LOGGED = ("reread", "stored", "retrieval", "hit")


class ClozeTask(Task[QuestionBatch]):
    """Cloze questions on pieces of corpus text (``config.cloze``)."""

    def __init__(self, setup: TaskSetup) -> None:
        self.setup, self.config = setup, setup.config.cloze
        self.share = self.config.share
        setup.expect_reader_pass()
        self.texts = ClozeTexts(self.config.corpus, "cloze")

    def draw(self, rng: random.Random) -> QuestionBatch:
        """Draw ``config.windows`` pieces of text with questions on each.

        ``config.questions`` of a batch are read for, and ``config.more`` only retrieve.
        """
        config, builder = self.config, BatchBuilder(self.setup.model, rng)
        num_questions = -(-(config.questions + config.more) // config.windows)  # a window
        num_readers = -(-config.questions // config.windows)
        while len(builder.windows) < config.windows:
            document = self._document(rng, num_questions)
            if document is not None:
                readers = document.items[:num_readers]
                retriever_items = document.items[num_readers:]
                builder.add(document, readers, config.window, retriever_items=retriever_items)
        return builder.build()

    def loss(
        self, model: DRT, batch: QuestionBatch, generator: torch.Generator | None
    ) -> tuple[Tensor, dict[str, float]]:
        """Return the answer loss at the weight of clozes, and its main parts."""
        loss, values = self.setup.answer_loss(
            model, batch, count=self.config.retrieved, generator=generator
        )
        return self.config.loss * loss, named("cloze", values, _LOGGED)

    def _document(self, rng: random.Random, count: int) -> TokenDocument | None:
        """Draw a piece of text with up to ``count`` questions; ``None`` where none can be made."""
        chunk, tokenizer = self.setup.model.chunk, self.setup.tokenizer
        piece, clozes = self.texts.draw(
            rng,
            tokens=self.config.window * chunk,
            count=count,
            recurring=self.config.recurring,
        )
        if not clozes:
            return None
        encoding = tokenizer.encode(piece)
        questions = tokenizer.encode_batch([cloze.question for cloze in clozes])
        answers = tokenizer.encode_batch([cloze.answer for cloze in clozes])
        items = []
        for cloze, question, answer in zip(clozes, questions, answers, strict=True):
            spans = token_spans(encoding, cloze.evidence)
            ids, answer_ids = fit_prompt(question.ids, answer.ids, chunk)
            if spans and ids:
                items.append(QuestionItem(cloze.question, ids, answer_ids, spans, "extractive"))
        return TokenDocument.of(encoding, piece, "cloze", items, chunk=chunk) if items else None
