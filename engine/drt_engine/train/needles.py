"""Batches of needle questions: facts planted in pieces of corpus text, in the phrasings kept for
training.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from drt_engine.config.model import ModelConfig
from drt_engine.evaluate.needle_data import NeedleCase, NeedleOptions, make_needle
from drt_engine.tokenizer import Tokenizer
from drt_engine.train.questions import (
    BatchBuilder,
    Item,
    QuestionBatch,
    TokenDocument,
    read_texts,
    token_span,
)

_CHARACTERS_PER_TOKEN = 4.2


class NeedleSource:
    """Corpus texts that needles are planted in."""

    def __init__(
        self, corpus: Sequence[Path], *, tokenizer: Tokenizer, config: ModelConfig
    ) -> None:
        self.tokenizer, self.config = tokenizer, config
        self.texts = read_texts(corpus, "needles")

    def batch(
        self, rng: random.Random, *, needles: int, window: int, distractors: int
    ) -> QuestionBatch:
        """Return ``needles`` questions, each on a piece of its own of about ``window`` chunks."""
        builder = BatchBuilder(self.config, rng)
        while len(builder.items) < needles:
            case = self._case(rng, window, rng.randint(0, distractors))
            document = self._document(case)
            if document is not None:
                builder.add(document, document.items, window + 1)
        return builder.build()

    def _case(self, rng: random.Random, window: int, distractors: int) -> NeedleCase:
        # Short of the window, so that the needle is never cut off.
        tokens = int(self.config.chunk * window * 0.8)
        text = rng.choice(self.texts)
        size = int(tokens * _CHARACTERS_PER_TOKEN * 1.5)
        at = rng.randrange(max(1, len(text) - size))
        options = NeedleOptions(
            tokens=tokens,
            depth=rng.random(),
            split="train",
            distractors=distractors,
            characters_per_token=_CHARACTERS_PER_TOKEN,
        )
        return make_needle(text[at : at + size], options, seed=rng.getrandbits(32))

    def _document(self, case: NeedleCase) -> TokenDocument | None:
        encoding = self.tokenizer.encode(case.text)
        spans = [token_span(encoding, a, b) for a, b in case.evidence]
        question = self.tokenizer.encode(case.question).ids[: self.config.chunk - 2]
        answer = self.tokenizer.encode(case.answer).ids[: self.config.chunk - 2 - len(question)]
        known = [s for s in spans if s is not None]
        if not known or not question:
            return None
        item = Item(case.question, question, answer, known, "extractive")
        return TokenDocument(encoding, case.text, "needle", [item])
