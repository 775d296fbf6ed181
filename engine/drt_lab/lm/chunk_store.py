"""The closed chunks of one stream: landmarks in memory, chunk memory there or offloaded.

A ``Source`` of the decoder, which retrieves what training retrieves. Only landmarks are scanned,
and only retrieved chunks are copied, so reading stays linear in the length of the stream.
"""

from __future__ import annotations

import ctypes
import tempfile
import weakref
from pathlib import Path
from typing import Literal, Protocol

import torch
from torch import Tensor

from drt_engine.config.model import ModelConfig
from drt_engine.model.frozen import Ranking, random_ranking, vector_scores
from drt_engine.model.gca_layer import ChunkMemory, Retrieved
from drt_engine.model.scorer import LandmarkScorer
from drt_engine.model.selection import select
from drt_engine.retrieval.sources import Retrieval

Place = Literal["device", "cpu", "disk"]


class ChunkStore:
    """Chunks of a stream, of which the landmark of chunk t retrieves those with numbers < t.

    ``place`` is where chunk memory is: on the model's device, in the machine's memory, or in a
    temporary file in ``folder``. A ``ranking`` chooses in place of the scores, and without
    ``retrieval`` nothing is chosen.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        place: Place = "device",
        folder: Path | None = None,
        retrieval: bool = True,
        ranking: Ranking | None = None,
    ) -> None:
        self._config, self._place, self._retrieval = config, place, retrieval
        drawn = ranking is None and config.retriever == "random"
        self._ranking = random_ranking if drawn else ranking
        self._memory: dict[str, _Rows] = {}
        for name in ("keys", "values", "mask"):
            self._memory[name] = FileRows(folder) if place == "disk" else GrowingRows()
        self._landmarks, self._vectors = GrowingRows(), GrowingRows()
        self._query_vector: Tensor | None = None
        self._group = 0  # that asks next: groups ask in their order at every border

    @property
    def offloaded(self) -> tuple[object, ...]:
        """The parts that are not in the memory of the model's device."""
        return () if self._place == "device" else tuple(self._memory.values())

    def announce(self, vector: Tensor) -> None:
        """Take the vector [F] of the chunk that is closed next, for the fixed retriever."""
        self._query_vector = vector

    def add(self, memory: ChunkMemory) -> None:
        """Make one more chunk (P = 1) retrievable for later landmarks."""
        for name, rows in self._memory.items():
            tensor: Tensor = getattr(memory, name).detach()
            rows.append(tensor if self._place == "device" else tensor.cpu())
        self._landmarks.append(memory.landmarks.detach())
        if self._query_vector is not None:
            self._vectors.append(self._query_vector[None])
        self._group = 0

    def find(
        self,
        query: Tensor,
        scorer: LandmarkScorer,
        query_chunk: ChunkMemory,  # noqa: ARG002  a stream is scored by landmarks alone
    ) -> Retrieval | None:
        """Retrieve the best chunks so far for a query vector [E]; ``None`` where there are none."""
        group, count = self._group, len(self._landmarks)
        self._group += 1
        if not count or not self._retrieval:
            return None
        if self._query_vector is not None:
            scores = vector_scores(self._query_vector[None], self._vectors.all())
        else:
            scores = scorer.scores(query[None], self._landmarks.all()).total  # [1, P]
        ranks = None
        if self._ranking is not None:
            ranks = self._ranking(group, torch.tensor([count], device=query.device), count)
        every = torch.ones_like(scores, dtype=torch.bool)
        top = select(scores, every, self._config.retrieved, ranking=ranks)
        index = top.index[0]
        parts = {name: rows.at(index).to(query.device) for name, rows in self._memory.items()}
        memory = ChunkMemory(**parts, landmarks=query.new_zeros(0))
        places = torch.arange(len(index), device=query.device)[None, None]
        retrieved = Retrieved(memory, places, top.scores[None], top.probabilities[None])
        return Retrieval(retrieved, tuple(-1 - i for i in index.tolist()))


class _Rows(Protocol):
    """Rows of a tensor that grows."""

    def append(self, rows: Tensor) -> None:
        """Add rows [n, ..]."""
        ...

    def at(self, index: Tensor) -> Tensor:
        """Return a copy of the rows ``index`` [R]."""
        ...


class GrowingRows:
    """Rows in memory: twice the room whenever it is full."""

    def __init__(self) -> None:
        self._room: Tensor | None = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, rows: Tensor) -> None:
        """Add rows [n, ..]; those with fewer tokens than the others are padded with zeros."""
        if self._room is None:
            self._room = rows.new_empty(16, *rows.shape[1:])
        if rows.dim() > 1 and rows.shape[1] != self._room.shape[1]:
            longest = max(rows.shape[1], self._room.shape[1])
            self._room, rows = _padded(self._room, longest), _padded(rows, longest)
        count = self._count + len(rows)
        if count > len(self._room):
            room = self._room.new_empty(2 * count, *self._room.shape[1:])
            room[: self._count] = self.all()
            self._room = room
        self._room[self._count : count] = rows
        self._count = count

    def all(self) -> Tensor:
        """Return all rows, without copying them."""
        assert self._room is not None
        return self._room[: self._count]

    def at(self, index: Tensor) -> Tensor:
        """Return a copy of the rows ``index`` [R]."""
        rows = self.all()
        return rows[index.to(rows.device)]


class FileRows:
    """Rows of P = 1 in a temporary file without a name, read one by one."""

    def __init__(self, folder: Path | None = None) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  open as long as this is
        weakref.finalize(self, self._file.close)
        self._places: list[tuple[int, torch.Size]] = []
        self._dtype = torch.float32

    def append(self, rows: Tensor) -> None:
        """Add one row [1, ..]."""
        self._dtype = rows.dtype
        self._places.append((self._file.seek(0, 2), rows.shape[1:]))
        data = rows.contiguous()
        # A view of the tensor's memory: a copy through Python numbers would take a hundred times.
        self._file.write((ctypes.c_char * data.nbytes).from_address(data.data_ptr()))

    def at(self, index: Tensor) -> Tensor:
        """Return the rows ``index`` [R], the shorter ones padded with zeros."""
        rows = []
        for number in index.tolist():
            place, shape = self._places[number]
            self._file.seek(place)
            data = self._file.read(shape.numel() * self._dtype.itemsize)
            rows.append(torch.frombuffer(bytearray(data), dtype=self._dtype).view(1, *shape))
        longest = max(row.shape[1] for row in rows)
        return torch.cat([_padded(row, longest) for row in rows])


def _padded(rows: Tensor, length: int) -> Tensor:
    """Give rows [n, T, ..] the length ``length``, with zeros behind them."""
    if rows.shape[1] == length:
        return rows
    missing = rows.new_zeros(len(rows), length - rows.shape[1], *rows.shape[2:])
    return torch.cat([rows, missing], dim=1)
