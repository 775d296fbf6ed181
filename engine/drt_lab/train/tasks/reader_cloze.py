"""Cloze questions that teach the reader: which passage of a text has the span, and where.

The competing passages are what BM25 ranks best in the same piece of text.
"""

from __future__ import annotations

import random

import torch
from torch import Tensor

from drt_engine.errors import ConfigError
from drt_engine.model.drt import DRT
from drt_engine.text.lexical import LexicalIndex
from drt_engine.text.tokenizer import Encoding
from drt_lab.data.clozes import Cloze
from drt_lab.train.answering.batch import chunk_texts, token_spans
from drt_lab.train.answering.cloze_texts import ClozeTexts
from drt_lab.train.answering.passage_loss import passage_loss
from drt_lab.train.answering.passage_pairs import (
    AskedQuestion,
    Passage,
    around,
    passage_batch,
    targets_in,
)
from drt_lab.train.answering.passages import PassageBatch
from drt_lab.train.tasks.base import Task, TaskSetup, named


class ReaderClozeTask(Task[PassageBatch]):
    """Clozes of corpus text, each with the passages that compete for it (``reader_cloze``)."""

    def __init__(self, setup: TaskSetup) -> None:
        self.config, self.model = setup.config.reader_cloze, setup.model
        self.passages = setup.config.passages  # whose weights of the losses count here, too
        self.share = self.config.share
        if self.model.reader is None:
            raise ConfigError(
                "reader_cloze teaches the reader; expected a model with [model.reader]"
            )
        self.reader = self.model.reader
        self.tokenizer = setup.tokenizer
        self.texts = ClozeTexts(self.config.corpus, "reader_cloze")

    def draw(self, rng: random.Random) -> PassageBatch:
        """Draw ``config.questions`` clozes, up to ``config.of_each`` of a piece of text."""
        asked: list[AskedQuestion] = []
        config = self.config
        while len(asked) < config.questions:
            piece, clozes = self.texts.draw(
                rng,
                tokens=config.window * self.model.chunk,
                count=config.of_each,
                recurring=config.recurring,
            )
            if clozes:
                asked += self._asked(piece, clozes, rng)
        return passage_batch(self.reader, asked[: config.questions], self.model.pad_id)

    def loss(
        self, model: DRT, batch: PassageBatch, generator: torch.Generator | None
    ) -> tuple[Tensor, dict[str, float]]:
        """Return the loss of spans at the weight of clozes."""
        loss, values = passage_loss(model, batch, self.passages, generator=generator)
        return self.config.loss * loss, named("reader_cloze", values, ("span",))

    def _asked(self, piece: str, clozes: list[Cloze], rng: random.Random) -> list[AskedQuestion]:
        """Return the clozes of a piece that have evidence in tokens, with their passages."""
        encoding = self.tokenizer.encode(piece)
        chunks = chunk_texts(encoding, piece, self.model.chunk)
        index = LexicalIndex(chunks)
        questions = self.tokenizer.encode_batch([cloze.question for cloze in clozes])
        asked = []
        for cloze, question in zip(clozes, questions, strict=True):
            spans = token_spans(encoding, cloze.evidence)
            ids = question.ids[: self.reader.longest_question]
            if spans and ids:
                ranked = [number for number, _ in index.search(cloze.question, 16)]
                passages = self._passages(encoding, spans, ranked, rng)
                asked.append(AskedQuestion(ids, passages))
        index.close()
        return asked

    def _passages(
        self,
        encoding: Encoding,
        spans: list[tuple[int, int]],
        ranked: list[int],
        rng: random.Random,
    ) -> list[Passage]:
        """Return a passage with the evidence, unless it is hidden, and hard negatives."""
        size, config = self.model.chunk, self.config
        evidence = {c for first, last in spans for c in range(first // size, last // size + 1)}
        others = [chunk for chunk in ranked if chunk not in evidence][: config.candidates]
        count, margin = rng.choice(config.passages), rng.choice(config.margins)
        chosen = [] if others and rng.random() < config.hidden else [rng.choice(spans)[0] // size]
        chosen += rng.sample(others, min(len(others), count - len(chosen)))
        passages = []
        for chunk in chosen:
            start, stop = around(chunk, size, margin, len(encoding.ids))
            targets = list(targets_in(spans, start, stop))
            passages.append(Passage(encoding.ids[start:stop], targets, []))
        return passages
