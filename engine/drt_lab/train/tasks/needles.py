"""Needle questions: facts planted in pieces of corpus text, in the phrasings kept for training."""

from __future__ import annotations

import random

import torch
from torch import Tensor

from drt_engine.model.drt import DRT
from drt_lab.data.chunks import chunk_count
from drt_lab.data.needles import NeedleCase, NeedleOptions, make_needle
from drt_lab.train.answering.batch import (
    QuestionBatch,
    QuestionItem,
    TokenDocument,
    fit_prompt,
    load_texts,
    token_spans,
)
from drt_lab.train.answering.builder import BatchBuilder
from drt_lab.train.tasks.base import Task, TaskSetup, named

_CHARACTERS_PER_TOKEN = 4.2
_LOGGED = ("reread", "hit")


class NeedlesTask(Task[QuestionBatch]):
    """Needles in pieces of corpus text, each asked for like a question (``config.needles``)."""

    def __init__(self, setup: TaskSetup) -> None:
        self.setup, self.config = setup, setup.config.needles
        self.share = self.config.share
        setup.expect_reader_pass()
        self.texts = load_texts(self.config.corpus, "needles")

    def draw(self, rng: random.Random) -> QuestionBatch:
        """Draw ``config.needles`` questions, each on a piece of about ``config.window`` chunks."""
        config, builder = self.config, BatchBuilder(self.setup.model, rng)
        while builder.num_readers < config.needles:
            hops = 2 if config.two_hops and rng.random() < config.two_hops else 1
            document = self._document(self._case(rng, hops=hops))
            if document is not None:
                # Both statements of two hops must be there, however many tokens the text has.
                num_chunks = chunk_count(len(document.ids), self.setup.model.chunk)
                builder.add(
                    document, document.items, config.window + 1 if hops == 1 else num_chunks
                )
        return builder.build()

    def loss(
        self, model: DRT, batch: QuestionBatch, generator: torch.Generator | None
    ) -> tuple[Tensor, dict[str, float]]:
        """Return the answer loss, and the parts that say whether needles are found."""
        loss, values = self.setup.answer_loss(
            model, batch, count=self.config.retrieved, generator=generator
        )
        return loss, named("needle", values, _LOGGED)

    def _case(self, rng: random.Random, *, hops: int) -> NeedleCase:
        distractors = rng.randint(0, self.config.distractors)
        # Short of the window, so that the needle is never cut off.
        tokens = int(self.setup.model.chunk * self.config.window * 0.8)
        text = rng.choice(self.texts)
        size = int(tokens * _CHARACTERS_PER_TOKEN * 1.5)
        start = rng.randrange(max(1, len(text) - size))
        options = NeedleOptions(
            tokens=tokens,
            depth=rng.random(),
            hops=hops,
            split="train",
            distractors=distractors,
            characters_per_token=_CHARACTERS_PER_TOKEN,
        )
        return make_needle(text[start : start + size], options, seed=rng.getrandbits(32))

    def _document(self, case: NeedleCase) -> TokenDocument | None:
        """Tokenise a case; ``None`` where its evidence or its question has no tokens."""
        tokenizer = self.setup.tokenizer
        encoding = tokenizer.encode(case.text)
        spans = token_spans(encoding, case.evidence)
        question, answer = fit_prompt(
            tokenizer.encode(case.question).ids,
            tokenizer.encode(case.answer).ids,
            self.setup.model.chunk,
        )
        if not spans or not question:
            return None
        bridges = token_spans(encoding, case.needles[:-1])
        item = QuestionItem(case.question, question, answer, spans, "extractive", bridges)
        chunk = self.setup.model.chunk
        return TokenDocument.of(encoding, case.text, "needle", [item], chunk=chunk)
