"""Language modelling on rows of a tokenised corpus, with a state that resumes at the next row.

An epoch cuts the corpus, from a place of its own on, into pieces as long as a row and takes each
once, shuffled. Place and order depend on the seed and the number of the epoch alone.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from drt_engine.errors import ConfigError
from drt_engine.model.protocol import LanguageModel
from drt_lab.data.token_shards import TokenShards, open_shards
from drt_lab.train.copying import Rows, Weights, counted_rows, rows_loss
from drt_lab.train.tasks.base import Task, TaskSetup


class StreamTask(Task[Rows]):
    """The next token of rows of a corpus (``config.stream``)."""

    stateful = True
    any_model = True

    def __init__(self, setup: TaskSetup) -> None:
        self.setup, self.config = setup, setup.config.stream
        self.share = self.config.share
        self.weights = Weights(far=self.config.far, labels=self.config.labels)
        run = setup.config.run
        tokens = self.config.tokens or run.out / "tokens"
        shards = open_shards(tokens, self.config.corpus, setup.tokenizer, team=setup.ranks)
        length = self.config.chunks * setup.model.chunk
        self.stream = TokenStream(shards, length, seed=run.seed)

    def draw(self, rng: random.Random) -> Rows:  # noqa: ARG002  the order is the stream's own
        """Take the next ``config.batch`` rows of the stream."""
        rows = self.stream.take(self.config.batch)
        chunks = rows.view(len(rows), -1, self.setup.model.chunk)
        return counted_rows(chunks, self.weights, window=self.setup.model.window)

    def skip(self) -> None:
        """Pass over as many rows, without reading them."""
        self.stream.skip(self.config.batch)

    def loss(
        self, model: LanguageModel, batch: Rows, generator: torch.Generator | None
    ) -> tuple[Tensor, dict[str, float]]:
        """Return the next-token loss at the weight of streams, and without it as ``lm``."""
        loss, values = rows_loss(model, batch, generator, self.weights)
        return self.config.loss * loss, values

    def state(self) -> dict[str, Any]:
        """Return where the stream is."""
        return asdict(self.stream.state)

    def load(self, state: dict[str, Any]) -> None:
        """Continue the stream from there."""
        self.stream.resume(StreamState(**state))


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

    def skip(self, count: int) -> None:
        """Pass over the next rows."""
        for _ in range(count):
            self._advance()

    def _next(self) -> Tensor:
        offset, order = self._order
        row = self._shards.read(offset + int(order[self.state.row]) * self._length, self._length)
        self._advance()
        return row

    def _advance(self) -> None:
        self.state = replace(self.state, row=self.state.row + 1)
        if self.state.row == len(self._order[1]):
            self.state = replace(self.state, epoch=self.state.epoch + 1, row=0)
            self._order = self._shuffled(self.state.epoch)

    def _shuffled(self, epoch: int) -> tuple[int, Tensor]:
        """Return where an epoch's first piece starts, and its pieces in the order of their rows."""
        rng = random.Random(f"{self._seed}/{epoch}")
        offset = rng.randrange(len(self._shards))
        generator = torch.Generator().manual_seed(rng.getrandbits(62))
        pieces = max(1, len(self._shards) // self._length)
        return offset, torch.randperm(pieces, generator=generator)
