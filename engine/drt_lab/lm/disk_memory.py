"""The closed chunks of one stream on disk: written once, scanned by landmark, read by chunk.

For reading many chunks at a time; a ``ChunkStore`` takes one. Three files of fixed rows in one
folder. Nothing is mapped: what is resident does not grow with the stream. Knows no tokens; whoever
makes the folder removes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from drt_engine.config.model import ModelConfig
from drt_engine.files import read_at, write_at
from drt_engine.model.gca_layer import ChunkMemory
from drt_engine.model.scorer import LandmarkScorer
from drt_engine.model.selection import Selection, select, selection_of

_SCANNED = 1 << 16  # landmarks read at a time, 16 MiB of 64 numbers


class DiskMemory:
    """Memory of chunks 0, 1, ... as fp32 rows: keys and values [S, Hk, D], landmarks [E].

    All of their tokens exist.
    """

    def __init__(self, folder: Path, config: ModelConfig) -> None:
        """Make empty files in ``folder`` for the chunks of a model."""
        shape = (config.chunk, config.kv_heads, config.head_size)
        self._shapes = {"keys": shape, "values": shape, "landmarks": (config.width,)}
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC
        self._files = {name: os.open(folder / name, flags, 0o600) for name in self._shapes}
        self.chunks = 0

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            os.close(file)
        self._files = {}

    def write(self, first: int, memory: ChunkMemory) -> None:
        """Write the memory of P chunks in the places of chunks ``first``, ``first + 1``, ..."""
        for name, shape in self._shapes.items():
            rows = getattr(memory, name).float().contiguous().cpu()
            if rows.shape[1:] != shape:
                raise ValueError(f"{name} are {tuple(rows.shape)}, expected rows of {shape}")
            _write_all(self._files[name], rows, self._bytes(name) * first)
        self.chunks = max(self.chunks, first + len(memory.keys))

    def landmarks(self) -> Iterator[tuple[int, Tensor]]:
        """Yield the landmarks of all chunks in blocks [n, E], each with its first chunk."""
        for first in range(0, self.chunks, _SCANNED):
            yield first, self._rows("landmarks", first, min(_SCANNED, self.chunks - first))

    def best(
        self, scorer: LandmarkScorer, queries: Tensor, before: Tensor, *, count: int
    ) -> Selection:
        """Choose for each query [Q, E] the best ``count`` chunks with numbers below ``before`` [Q].

        The index of the selection is a chunk's number, on the CPU, as ``before`` is.
        """
        scores = queries.new_full((len(queries), count), float("-inf"))
        chunks = torch.zeros(scores.shape, dtype=torch.long)
        # The best so far compete with the chunks of the next block.
        for first, keys in self.landmarks():
            block = scorer.scores(queries, keys.to(queries.device)).total  # [Q, P]
            numbers = torch.arange(first, first + len(keys)).expand(len(queries), -1)
            competing = torch.cat([chunks, numbers], dim=1)
            allowed = torch.cat([scores.isfinite().cpu(), numbers < before[:, None]], dim=1)
            top = select(torch.cat([scores, block], dim=1), allowed.to(scores.device), count)
            scores, chunks = top.scores, competing.gather(1, top.index.cpu())
        places = torch.arange(count, device=scores.device).expand_as(scores)
        top = selection_of(scores, places, scores.isfinite())
        return Selection(chunks, top.scores, top.probabilities)

    def gather(self, chunks: Tensor) -> ChunkMemory:
        """Return the memory of the chunks of these numbers [n]."""
        parts = {
            name: torch.cat([self._rows(name, chunk, 1) for chunk in chunks.tolist()])
            for name in self._shapes
        }
        mask = torch.ones(parts["keys"].shape[:2], dtype=torch.bool)
        return ChunkMemory(parts["keys"], parts["values"], mask, parts["landmarks"])

    def _bytes(self, name: str) -> int:
        return 4 * int(torch.Size(self._shapes[name]).numel())

    def _rows(self, name: str, first: int, count: int) -> Tensor:
        size = self._bytes(name)
        data = bytearray(read_at(self._files[name], size * count, size * first))
        return torch.frombuffer(data, dtype=torch.float32).view(count, *self._shapes[name])


def _write_all(file: int, rows: Tensor, offset: int) -> None:
    data = memoryview(rows.numpy().tobytes())
    while data:
        written = write_at(file, data, offset)
        data, offset = data[written:], offset + written
