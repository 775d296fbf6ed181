"""Rows of records in token space: text in which retrieval decides, and what it needs is known.

A chunk is a record: a name, its values, filler, an arrow and the name of the next record, so that
a chunk's landmark knows what the next chunk needs. The values of a name are the same for all of a
row, and another row has others: a name's first record cannot be predicted, and each later one is a
copy of it. A name returns only once the window has passed it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch
from torch import Tensor

from drt_engine.errors import ConfigError
from drt_lab.data.passkeys import FIRST_SYMBOL, LINK

_LEAST_FILLER = 1  # without it the next record's name would follow the values


@dataclass(frozen=True)
class RecordLayout:
    """How rows are laid out: ``vocab`` token ids, ``chunk`` tokens a chunk.

    The first half of the symbols are names, the others values and filler. A row has ``names`` names
    with ``values`` values each, and a name does not return within ``apart`` chunks.
    """

    vocab: int
    chunk: int
    names: int
    values: int
    apart: int

    def __post_init__(self) -> None:
        if self.values < 1 or self.values + 3 + _LEAST_FILLER > self.chunk:
            raise ConfigError(
                f"records.values is {self.values}, expected 1 to {self.chunk - 3 - _LEAST_FILLER}: "
                f"a chunk of {self.chunk} tokens holds them with two names, an arrow and filler"
            )
        most = (self.vocab - FIRST_SYMBOL) // 2
        if not self.apart + 2 <= self.names <= most:
            raise ConfigError(
                f"records.names is {self.names}, expected {self.apart + 2} to {most}: a name "
                f"returns after {self.apart} others, and half of {self.vocab} token ids are names"
            )

    @property
    def first_value(self) -> int:
        """The first token id that is no name."""
        return FIRST_SYMBOL + (self.vocab - FIRST_SYMBOL) // 2


def record_row(rng: random.Random, layout: RecordLayout, chunks: int) -> Tensor:
    """Draw a row of ``chunks`` records, [C, S]."""
    symbols = range(layout.first_value, layout.vocab)
    names = rng.sample(range(FIRST_SYMBOL, layout.first_value), layout.names)
    values = {name: rng.choices(symbols, k=layout.values) for name in names}
    order: list[int] = []
    for _ in range(chunks + 1):
        recent = order[-layout.apart - 1 :]
        order.append(rng.choice([name for name in names if name not in recent]))
    filler = layout.chunk - layout.values - 3
    return torch.tensor(
        [
            [name, *values[name], *rng.choices(symbols, k=filler), LINK, following]
            for name, following in zip(order[:-1], order[1:], strict=True)
        ]
    )
