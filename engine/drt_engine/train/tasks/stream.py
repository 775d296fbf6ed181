"""Rows of a tokenised corpus in shuffled order, with a state that resumes at the very next row.

An epoch cuts the corpus, from a place of its own on, into pieces as long as a row and takes each
once, shuffled. Place and order depend on the seed and the number of the epoch alone.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from drt_engine.errors import ConfigError
from drt_engine.train.shards import TokenShards


@dataclass(frozen=True)
class StreamState:
    """Number of the next row in its epoch, and of the epoch, for the shards named ``corpus``."""

    corpus: str
    epoch: int = 0
    row: int = 0


class TokenStream:
    """Takes rows of ``length`` tokens from shards, each row from another place.

    A row may hold the end of one document and the beginning of the next; the end token is between.
    Tokens that do not fill a row are left to another epoch, which cuts elsewhere.
    """

    def __init__(self, shards: TokenShards, length: int, *, seed: int) -> None:
        self._shards, self._length, self._seed = shards, length, seed
        self.state = StreamState(shards.name)
        self._order = self._shuffled(0)

    def resume(self, state: StreamState) -> None:
        """Continue from ``state``; raises ``ConfigError`` when it is of other tokens."""
        if state.corpus != self._shards.name:
            raise ConfigError(
                f"stream.corpus holds other tokens ({self._shards.name}) than the run began with "
                f"({state.corpus}); name the same files, or give the run another run.out"
            )
        self.state = state
        self._order = self._shuffled(state.epoch)

    def take(self, count: int) -> Tensor:
        """Return the next rows, [count, length]."""
        return torch.stack([self._next() for _ in range(count)])

    def _next(self) -> Tensor:
        offset, order = self._order
        row = self._shards.read(offset + int(order[self.state.row]) * self._length, self._length)
        self.state = replace(self.state, row=self.state.row + 1)
        if self.state.row == len(order):
            self.state = replace(self.state, epoch=self.state.epoch + 1, row=0)
            self._order = self._shuffled(self.state.epoch)
        return row

    def _shuffled(self, epoch: int) -> tuple[int, Tensor]:
        """Return where an epoch's first piece starts, and its pieces in the order of their rows."""
        rng = random.Random(f"{self._seed}/{epoch}")
        offset = rng.randrange(len(self._shards))
        generator = torch.Generator().manual_seed(rng.getrandbits(62))
        pieces = max(1, len(self._shards) // self._length)
        return offset, torch.randperm(pieces, generator=generator)
