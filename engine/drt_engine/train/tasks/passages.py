"""Question and passage pairs that teach the reader.

Each question comes with a passage that holds its evidence and with some of the chunks that search
ranks best for it, which are the passages it must be told apart from. A step needs neither a pool
of chunks, nor the lower stack, nor stored memory: only the reader runs.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import torch
from torch import Tensor

from drt_engine.errors import ConfigError
from drt_engine.model.drt import DRT
from drt_engine.model.reader import pack_pairs
from drt_engine.runtime import Runtime
from drt_engine.text.words import STOP_WORDS
from drt_engine.train.answering.passage_loss import passage_loss
from drt_engine.train.answering.passages import PassageBatch, PassageData, PassageQuestion
from drt_engine.train.answering.ranking import add_ranks
from drt_engine.train.tasks.base import Task, TaskSetup

# A passage: number of its document, first token and last token + 1.
Window = tuple[int, int, int]


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
        self._cumulative = list(accumulate(q.weight for q in self.data.questions))

    def draw(self, rng: random.Random) -> PassageBatch:
        """Draw ``config.questions`` questions, each with its passages."""
        data = self.data
        questions = rng.choices(
            data.questions, cum_weights=self._cumulative, k=self.config.questions
        )
        # One row per pair: the question's tokens, its passage, and the number of the question.
        question_ids: list[list[int]] = []
        windows: list[Window] = []
        contexts: list[list[int]] = []
        log_probabilities: list[float] = []
        owners: list[int] = []
        for number, question in enumerate(questions):
            ids = self._question_ids(question, rng)
            margin = rng.choice(self.config.margins)
            bare = bool(self.reader.context) and rng.random() < self.config.bare
            for document, chunk in self._chunks(question, rng):
                question_ids.append(ids)
                windows.append(self._window(document, chunk, margin))
                contexts.append([] if bare else self._context(document, chunk))
                log_probabilities.append(question.log_probability(document, chunk))
                owners.append(number)
        passages = [data.documents[d].ids[first:stop].tolist() for d, first, stop in windows]
        pairs, offsets = pack_pairs(
            self.reader, question_ids, passages, contexts=contexts, pad_id=self.model.pad_id
        )
        # Targets [P, T]: the borders of the evidence, moved to where its passage is in the pair.
        starts, ends = (torch.zeros_like(pairs.passage) for _ in range(2))
        answered = torch.zeros(len(questions), dtype=torch.bool)
        for row, (owner, window, offset) in enumerate(zip(owners, windows, offsets, strict=True)):
            shift = offset - window[1]
            for first, last in _targets(questions[owner], window):
                for targets, token in ((starts, first), (ends, last)):
                    if token is None:  # the passage is right, wherever in it
                        targets[row] |= pairs.passage[row]
                    else:
                        targets[row, token + shift] = True
                answered[owner] = True
        return PassageBatch(
            pairs=pairs,
            question=torch.tensor(owners),
            log_probability=torch.tensor(log_probabilities),
            starts=starts,
            ends=ends,
            answered=answered,
            answer_type=torch.tensor([q.answer_type for q in questions]),
            verdict=torch.tensor([q.verdict for q in questions]),
        )

    def loss(
        self,
        model: DRT,
        batch: PassageBatch,
        generator: torch.Generator | None,  # noqa: ARG002  nothing is chosen, so nothing is noisy
    ) -> tuple[Tensor, dict[str, float]]:
        """Return the loss of the reader and its parts."""
        return passage_loss(model, batch, self.config)

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

    def _context(self, document: int, chunk: int) -> list[int]:
        contexts = self.data.documents[document].contexts
        return contexts[chunk] if contexts else []

    def _window(self, document: int, chunk: int, margin: int) -> Window:
        size, end = self.model.chunk, len(self.data.documents[document].ids)
        return document, max(0, chunk * size - margin), min(end, (chunk + 1) * size + margin)

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


def _targets(question: PassageQuestion, window: Window) -> Iterator[tuple[int | None, int | None]]:
    """Yield first and last tokens of the evidence inside a window.

    ``None`` where a border is not known: both of a region, and the one that the window cuts off.
    Marking every token of the evidence instead blurred the borders of all quotes.
    """
    document, start, stop = window
    if document != question.document:
        return
    for first, last in question.spans:
        if first < stop and last >= start:
            yield (
                first if first >= start and not question.region else None,
                last if last < stop and not question.region else None,
            )
