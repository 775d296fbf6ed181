"""Reads a context of any length with a DRT in flat memory, and predicts its last chunk.

What ``DRT.forward`` computes, in another order. The memory of a chunk needs the lower stack and the
chunk encoder alone, so the context is read segment by segment into a ``DiskMemory``. The upper
stack then reads the last chunks only: as many as the last one depends on.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from drt_engine.model.chunking import shift_chunks
from drt_engine.model.drt import DRT, Span
from drt_engine.model.gca_layer import ChunkMemory, Retrieved
from drt_lab.data.passkeys import PasskeyContext
from drt_lab.lm.disk_memory import DiskMemory

_TOKENS_AT_ONCE = 1 << 14


class LongContext:
    """A passkey context and its memory on disk."""

    def __init__(self, model: DRT, memory: DiskMemory) -> None:
        self.model, self.memory = model, memory
        self._device = model.embedding.weight.device
        self._context: PasskeyContext | None = None

    def read(self, context: PasskeyContext) -> None:
        """Read a context; after another one of the same filler, only where the two differ."""
        earlier, self._context = self._context, context
        if earlier is None:
            size = max(1, _TOKENS_AT_ONCE // self.model.config.chunk)
            for start in range(0, context.chunks, size):
                self._read_segment(context, start, min(start + size, context.chunks))
            return
        # A token changes the states of the window after it, in each layer.
        reach = self.model.config.warm_up_chunks
        changed = sorted({*earlier.planted_chunks, *context.planted_chunks})
        done = 0
        for chunk in changed:
            start, stop = max(done, chunk), min(chunk + reach + 1, context.chunks)
            if start < stop:
                self._read_segment(context, start, stop)
                done = stop

    def _read_segment(self, context: PasskeyContext, start: int, stop: int) -> None:
        """Write the memory of chunks ``start`` to ``stop``."""
        warm_up = min(start, self.model.config.warm_up_chunks)
        ids = context.tokens(start - warm_up, stop)[None].to(self._device)
        _, encoded = self.model.read(ids, torch.ones_like(ids, dtype=torch.bool), skip=warm_up)
        self.memory.write(start, self.model.remember(encoded))

    def logits(self, count: int) -> Tensor:
        """Return the logits [count, V] after each of the last chunk's first ``count`` tokens."""
        context = self._context
        assert context is not None, "read comes before logits"
        first = max(0, context.chunks - self._upper_reach())
        warm_up = min(first, self.model.config.warm_up_chunks)
        ids = context.tokens(first - warm_up, context.chunks)[None].to(self._device)
        states, mask = self.model.chunk_states(ids, torch.ones_like(ids, dtype=torch.bool))
        states, mask = states[:, warm_up:], mask[:, warm_up:]
        landmarks = self._landmarks(states, mask)
        number = torch.arange(first, context.chunks)

        def plan(group: int, x: Tensor) -> Sequence[Span]:
            border = x.unflatten(1, (len(number), -1))[0, :, -1]  # [C, E]
            queries = self.model.scorer.queries(border, landmarks, group)
            return [Span(0, x.shape[1], self._retrieved(queries, number))]

        out = self.model.upper_states(states.flatten(1, 2), mask.flatten(1), plan)
        last = out.unflatten(1, (len(number), -1))[0, -1, :count]
        return self.model.logits(last)

    def _upper_reach(self) -> int:
        """Return how many chunks the last one's upper states depend on, itself included."""
        config = self.model.config
        # Each layer looks back over its window; each group reads what an earlier chunk retrieved.
        slots = config.upper_layers * (config.window - 1) + config.groups * config.slots
        return 1 + -(-slots // config.slots)

    def _landmarks(self, states: Tensor, mask: Tensor) -> Tensor:
        """Return the landmarks [C, E] of the chunks of the tail."""
        return self.model.encode(states.flatten(0, 1), mask.flatten(0, 1)).landmarks

    def _retrieved(self, queries: Tensor, number: Tensor) -> Retrieved:
        """Return what the chunks ``number`` [C] read: what their predecessors' queries retrieved.

        Chunk t retrieves for its query [C, E] from the chunks before it.
        """
        count = self.model.config.retrieved
        top = self.memory.best(self.model.scorer, queries, number, count=count)
        # Each place has a row of its own in the gathered memory.
        memory = self.memory.gather(top.index.flatten())
        index = torch.arange(top.index.numel(), device=self._device).view_as(top.index)
        return Retrieved(
            ChunkMemory(*(part.to(self._device) for part in vars(memory).values())),
            shift_chunks(index[None]),
            shift_chunks(top.scores[None], float("-inf")),
            shift_chunks(top.probabilities[None], 0.0),
        )
