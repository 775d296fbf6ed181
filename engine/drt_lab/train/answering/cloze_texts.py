"""Pieces of corpus texts with cloze questions about them, drawn at random."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from drt_lab.data.clozes import Cloze, make_clozes
from drt_lab.train.answering.batch import load_texts

_CHARACTERS_PER_TOKEN = 4.3
_MOST_COUNTED = 200_000  # characters of a text by which it is drawn: books would crowd out others


class ClozeTexts:
    """The texts of corpus files, from which pieces of some number of tokens are drawn."""

    def __init__(self, corpus: Sequence[Path], section: str) -> None:
        self._texts = load_texts(corpus, section)
        self._weights = [min(len(text), _MOST_COUNTED) for text in self._texts]

    def draw(
        self, rng: random.Random, *, tokens: int, count: int, recurring: float
    ) -> tuple[str, list[Cloze]]:
        """Return a piece of about ``tokens`` tokens and up to ``count`` clozes in random order.

        About ``recurring`` of the clozes are of that kind.
        """
        text = rng.choices(self._texts, self._weights)[0]
        size = int(tokens * _CHARACTERS_PER_TOKEN)
        start = rng.randrange(max(1, len(text) - size))
        piece, clozes = make_clozes(
            text[start : start + size], rng, count=count, recurring=recurring
        )
        rng.shuffle(clozes)
        return piece, clozes
