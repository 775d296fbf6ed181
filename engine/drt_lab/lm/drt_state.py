"""A stream that a DRT reads and continues: the decoder, over the chunks of the stream itself."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from drt_engine.generate.decode import Decoder
from drt_engine.model.drt import DRT
from drt_lab.lm.chunk_store import ChunkStore
from drt_lab.lm.held import held_bytes


class DRTState:
    """The window, the open chunk and the memory of all closed chunks; a ``DecodingState``."""

    def __init__(self, model: DRT, *, dtype: torch.dtype, store: ChunkStore | None = None) -> None:
        """Start an empty stream; without ``store``, chunk memory is on the model's device."""
        self._model = model
        self._store = ChunkStore(model.config) if store is None else store
        self._decoder = Decoder(model, self._store, dtype=dtype)
        self._open: list[int] = []
        self._position = 0

    @property
    def position(self) -> int:
        """How many tokens were read, without landmarks."""
        return self._position

    @property
    def state_bytes(self) -> int:
        """Bytes of all tensors that are kept for the next token, but of offloaded chunk memory.

        The retrieved chunks, which are copies beside the model, and their layout count, too.
        """
        return held_bytes(self, without=self._store.offloaded)

    def prefill(self, ids: Sequence[int]) -> Tensor:
        """Read tokens, closing each chunk that is full; return their last states [T, E]."""
        size, done = self._model.config.chunk, 0
        states: list[Tensor] = []
        while done < len(ids):
            if len(self._open) == size:
                self.close()
            part = ids[done : done + size - len(self._open)]
            states.append(self._decoder.feed(part))
            self._open.extend(part)
            done += len(part)
        self._position += len(ids)
        return torch.cat(states)

    def step(self, token: int) -> Tensor:
        """Read one token; return the logits [V] of the next, fp32."""
        return self._decoder.logits(self.prefill([token]))[0]

    def close(self) -> None:
        """End the open chunk with its landmark; what it retrieves is read by the next tokens."""
        if not self._open:
            return
        ids = torch.tensor([[self._open]], device=self._decoder.device)
        vectors = self._model.frozen_vectors(ids, torch.ones_like(ids, dtype=torch.bool))
        if vectors is not None:
            self._store.announce(vectors[0, 0])
        self._decoder.close()
        self._open = []
