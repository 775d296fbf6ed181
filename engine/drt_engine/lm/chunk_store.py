"""The closed chunks of one stream: landmarks in memory, chunk memory there or offloaded.

A ``Source`` of the decoder, which retrieves what training retrieves. Only landmarks are scanned,
and only retrieved chunks are copied, so reading stays linear in the length of the stream.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from drt_engine.model.gca_layer import ChunkMemory, Retrieved
from drt_engine.model.scorer import LandmarkScorer
from drt_engine.model.selection import select
from drt_engine.retrieval.sources import Retrieval

Place = Literal["device", "cpu"]


class ChunkStore:
    """Chunks of a stream, of which the landmark of chunk t retrieves ``top_k`` with numbers < t."""

    def __init__(self, top_k: int, *, place: Place = "device") -> None:
        self._top_k, self._place = top_k, place
        self._rows: dict[str, _Rows] = {}

    @property
    def nbytes(self) -> int:
        """Bytes in the memory of the model's device."""
        parts = self._rows if self._place == "device" else ["landmarks"]
        return sum(self._rows[name].nbytes for name in parts if name in self._rows)

    def add(self, memory: ChunkMemory) -> None:
        """Make one more chunk (P = 1) retrievable for later landmarks."""
        for name, tensor in vars(memory).items():
            if self._place == "cpu" and name != "landmarks":
                tensor = tensor.cpu()
            self._rows.setdefault(name, _Rows()).append(tensor)

    def find(
        self,
        query: Tensor,
        scorer: LandmarkScorer,
        query_chunk: ChunkMemory,  # noqa: ARG002  a stream is scored by landmarks alone
    ) -> Retrieval | None:
        """Retrieve the best chunks so far for a query vector [E]; ``None`` where there are none."""
        if not self._rows:
            return None
        scores = scorer.scores(query[None], self._rows["landmarks"].all()).total  # [1, P]
        top = select(scores, torch.ones_like(scores, dtype=torch.bool), self._top_k)
        index = top.index[0]
        parts = {
            name: self._rows[name].at(index).to(query.device) for name in ("keys", "values", "mask")
        }
        memory = ChunkMemory(**parts, landmarks=parts["keys"].new_zeros(0))
        places = torch.arange(len(index), device=query.device)[None, None]
        retrieved = Retrieved(memory, places, top.scores[None], top.probabilities[None])
        return Retrieval(retrieved, tuple(-1 - int(i) for i in index))


class _Rows:
    """Rows of a tensor that grows: twice the room whenever it is full."""

    def __init__(self) -> None:
        self._room: Tensor | None = None
        self._count = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that there are."""
        return 0 if self._room is None else self._room[: self._count].nbytes

    def append(self, rows: Tensor) -> None:
        """Add rows [n, ..]; those with fewer tokens than the others are padded with zeros."""
        rows = rows.detach()
        if self._room is None:
            self._room = rows.new_empty(16, *rows.shape[1:])
        if rows.dim() > 1 and rows.shape[1] != self._room.shape[1]:
            self._room, rows = _padded(self._room, rows)
        count = self._count + len(rows)
        if count > len(self._room):
            grown = self._room.new_empty(2 * count, *self._room.shape[1:])
            grown[: self._count] = self._room[: self._count]
            self._room = grown
        self._room[self._count : count] = rows
        self._count = count

    def all(self) -> Tensor:
        """Return all rows, without copying them."""
        assert self._room is not None
        return self._room[: self._count]

    def at(self, index: Tensor) -> Tensor:
        """Return a copy of the rows ``index`` [R]."""
        return self.all()[index.to(self.all().device)]


def _padded(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Give rows of two lengths the longer one, with zeros behind the shorter ones."""
    longest = max(first.shape[1], second.shape[1])
    out = []
    for rows in (first, second):
        grown = rows.new_zeros(len(rows), longest, *rows.shape[2:])
        grown[:, : rows.shape[1]] = rows
        out.append(grown)
    return out[0], out[1]
