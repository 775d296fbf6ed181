"""Question and passage pairs that teach the reader.

Each question comes with a passage that holds its evidence and with some of the chunks that search
ranks best for it, which are the passages it must be told apart from. A step needs neither a pool
of chunks, nor the lower stack, nor stored memory: only the reader runs.
"""

from __future__ import annotations

import random
import re
from itertools import accumulate
from pathlib import Path

import torch
from torch import Tensor

from drt_engine.errors import ConfigError
from drt_engine.model.drt import DRT
from drt_engine.runtime import Runtime
from drt_engine.text.words import STOP_WORDS
from drt_lab.train.answering.passage_loss import SpanTeachers, passage_loss
from drt_lab.train.answering.passage_pairs import (
    AskedQuestion,
    Passage,
    around,
    passage_batch,
    targets_in,
)
from drt_lab.train.answering.passages import PassageBatch, PassageData, PassageQuestion
from drt_lab.train.answering.ranking import add_ranks
from drt_lab.train.tasks.base import Task, TaskSetup


class PassagesTask(Task[PassageBatch]):
    """Questions of files, each with the passages that compete for it (``config.passages``)."""

    def __init__(self, setup: TaskSetup) -> None:
        self.config, self.model = setup.config.passages, setup.model
        self.share = self.config.share
        if self.model.reader is None:
            raise ConfigError("passages teach the reader; expected a model with [model.reader]")
        self.reader = self.model.reader
        self.data = PassageData(
            self.config,
            setup.tokenizer,
            chunk=self.model.chunk,
            reader=self.reader,
        )
        if self.config.ranks is not None:
            _search(self.data, setup, self.config.ranks)
        self.teachers = SpanTeachers(self.config.teachers)
        self._cumulative = list(accumulate(q.weight for q in self.data.questions))

    def draw(self, rng: random.Random) -> PassageBatch:
        """Draw ``config.questions`` questions, each with its passages."""
        data = self.data
        questions = rng.choices(
            data.questions, cum_weights=self._cumulative, k=self.config.questions
        )
        asked = []
        for question in questions:
            ids = self._question_ids(question, rng)
            margin = rng.choice(self.config.margins)
            bare = bool(self.reader.context) and rng.random() < self.config.bare
            passages = [
                self._passage(question, document, chunk, margin, bare=bare)
                for document, chunk in self._chunks(question, rng)
            ]
            asked.append(AskedQuestion(ids, passages, question.answer_type, question.verdict))
        return passage_batch(self.reader, asked, self.model.pad_id)

    def loss(
        self,
        model: DRT,
        batch: PassageBatch,
        generator: torch.Generator | None,
    ) -> tuple[Tensor, dict[str, float]]:
        """Return the loss of the reader and its parts; ``generator`` seeds what is dropped."""
        return passage_loss(model, batch, self.config, self.teachers, generator)

    def _chunks(self, question: PassageQuestion, rng: random.Random) -> list[tuple[int, int]]:
        """Choose a chunk with evidence, unless it is hidden, and hard negatives.

        Each is the number of a document and of a chunk of it.
        """
        count = rng.choice(self.config.passages)
        chunks: list[tuple[int, int]] = []
        if question.spans and rng.random() >= self.config.hidden:
            span = rng.choice(question.spans)
            token = span[rng.random() < self.config.by_end]  # its first, or its last
            chunks.append((question.document, token // self.model.chunk))
        chunks += self._negatives(question, rng, count - len(chunks))
        if not chunks:  # nothing shares a word with the question
            chunk_ids = range(len(self.data.documents[question.document].chunks))
            evidence = self.data.evidence_chunks(question)
            without_evidence = [c for c in chunk_ids if c not in evidence]
            chunks.append((question.document, rng.choice(without_evidence or chunk_ids)))
        return chunks

    def _passage(
        self, question: PassageQuestion, number: int, chunk: int, margin: int, *, bare: bool
    ) -> Passage:
        """Return a chunk of a document with the neighbours' tokens, and the evidence in it."""
        document, size = self.data.documents[number], self.model.chunk
        start, stop = around(chunk, size, margin, len(document.ids))
        spans = question.spans if number == question.document else []
        return Passage(
            document.ids[start:stop].tolist(),
            list(targets_in(spans, start, stop, region=question.region)),
            document.contexts[chunk] if document.contexts and not bare else [],
            question.log_probability(number, chunk),
        )

    def _negatives(
        self, question: PassageQuestion, rng: random.Random, count: int
    ) -> list[tuple[int, int]]:
        """Draw chunks that rank high for the question and do not hold its answer."""
        evidence = self.data.evidence_chunks(question)
        answer = question.answer.lower() if len(question.answer) > 3 else None
        ranked: list[tuple[int, int]] = []
        for document, chunk in self.data.search(question):
            if document == question.document and chunk in evidence:
                continue
            if answer and answer in self.data.documents[document].chunks[chunk].lower():
                continue  # perhaps an answer that nobody marked
            ranked.append((document, chunk))
            if len(ranked) == self.config.candidates:
                break
        return ranked if len(ranked) <= count else rng.sample(ranked, count)

    def _question_ids(self, question: PassageQuestion, rng: random.Random) -> list[int]:
        """Return the question's tokens, sometimes as people type: key words only."""
        if rng.random() >= self.config.keywords:
            return question.ids
        words = re.findall(r"\w[\w'.-]*", question.text)
        keywords = [word for word in words if word.lower() not in STOP_WORDS]
        if len(keywords) < 2:
            return question.ids
        return self.data.encode([" ".join(keywords)])[0]


def _search(data: PassageData, setup: TaskSetup, path: Path) -> None:
    """Rank the chunks for all questions with the model that the stage starts from."""
    folder = setup.config.start.model
    if folder is None:
        raise ConfigError("passages.ranks needs start.model, whose search ranks the passages")
    run = setup.config.run
    add_ranks(data, Runtime.load(folder, device=run.device, threads=run.threads), path)
