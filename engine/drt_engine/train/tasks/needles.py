"""Batches of needle questions: facts planted in pieces of corpus text, in the phrasings kept for
training.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from drt_engine.config.model import ModelConfig
from drt_engine.data.needles import NeedleCase, NeedleOptions, make_needle
from drt_engine.model.chunking import chunk_count
from drt_engine.text.tokenizer import Tokenizer
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
        self,
        rng: random.Random,
        *,
        needles: int,
        window: int,
        distractors: int,
        two_hops: float = 0.0,
    ) -> QuestionBatch:
        """Return ``needles`` questions, each on a piece of its own of about ``window`` chunks;
        a share of ``two_hops`` needs two statements.
        """
        builder = BatchBuilder(self.config, rng)
        while len(builder.items) < needles:
            hops = 2 if two_hops and rng.random() < two_hops else 1
            case = self._case(rng, window, rng.randint(0, distractors), hops=hops)
            document = self._document(case)
            if document is not None:
                # Both statements of two hops must be there, however many tokens the text has.
                whole = chunk_count(len(document.encoding), self.config.chunk)
                builder.add(document, document.items, window + 1 if hops == 1 else whole)
        return builder.build()

    def _case(self, rng: random.Random, window: int, distractors: int, *, hops: int) -> NeedleCase:
        # Short of the window, so that the needle is never cut off.
        tokens = int(self.config.chunk * window * 0.8)
        text = rng.choice(self.texts)
        size = int(tokens * _CHARACTERS_PER_TOKEN * 1.5)
        at = rng.randrange(max(1, len(text) - size))
        options = NeedleOptions(
            tokens=tokens,
            depth=rng.random(),
            hops=hops,
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
        bridges = [token_span(encoding, a, b) for a, b in case.needles[:-1]]
        support = [s for s in bridges if s is not None]
        item = Item(case.question, question, answer, known, "extractive", support)
        return TokenDocument(encoding, case.text, "needle", [item])
