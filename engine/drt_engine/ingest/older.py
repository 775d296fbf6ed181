"""What a library holds of a document already: of its older version, or of an interrupted reading.

Knows the library and tokens, no model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from drt_engine.errors import StoreError
from drt_engine.ingest.segment import Chunk
from drt_engine.store.view import LibraryView

_TOGETHER = 1_024  # chunks read at a time


class OlderVersion:
    """The version of a document that stands at its place: which of its chunks can be kept.

    Segments, and the runtime's blocks in them, begin at the same chunks in every reading. So what
    is kept is, bit for bit, what reading it again would give: it depends on nothing after it.
    """

    def __init__(self, store: LibraryView, document_id: str, *, block: int, segment: int) -> None:
        self._store, self.document_id = store, document_id
        self._block, self._segment = block, segment
        self._chunk_ids: list[int] = store.chunk_ids([document_id])

    def chunks(self) -> Iterator[Chunk]:
        """Return its chunks as they are stored, up to the first that is damaged."""
        return stored_chunks(self._store, self._chunk_ids)

    def reaches(self, first: int) -> bool:
        """Return whether it may hold chunks from ``first`` on."""
        return len(self._chunk_ids) > first

    def shared(self, batch: Sequence[Chunk], first: int, size: int) -> int:
        """Return how many chunks of ``batch`` it holds from ``first`` on, up to a block's border.

        After one that is not, none is.
        """
        num_reused = sum(chunk.reused for chunk in batch)  # the first ones
        ids = self._chunk_ids[first + num_reused : first + len(batch)]
        num_same = self._same(ids, batch[num_reused : num_reused + len(ids)], size) if ids else 0
        stop = first + num_reused + num_same
        both_end = stop == first + len(batch) == len(self._chunk_ids)
        if stop < first + len(batch):
            self._chunk_ids = []
        if not both_end:  # where one ends, its last block has fewer rows
            stop -= stop % self._segment % self._block
        return max(0, stop - first)

    def _same(self, ids: list[int], batch: Sequence[Chunk], size: int) -> int:
        """Return how many of the first chunks are the same."""
        try:
            stored = self._store.read_tokens(ids)
        except StoreError:
            return 0  # damaged: read it again
        same = stored.lengths == torch.tensor([len(c.ids) for c in batch], dtype=torch.int32)
        for name in ("ids", "starts", "ends"):
            rows = table([getattr(c, name) for c in batch], size)
            same &= (getattr(stored, name) == rows).all(dim=1)
        return int(same.int().cumprod(dim=0).sum())


def stored_chunks(store: LibraryView, chunk_ids: Sequence[int]) -> Iterator[Chunk]:
    """Yield chunks of one document as they are stored, up to the first that is damaged or gone."""
    for begin in range(0, len(chunk_ids), _TOGETHER):
        ids = chunk_ids[begin : begin + _TOGETHER]
        try:
            texts, stored = store.chunk_rows(ids), store.read_tokens(ids)
        except StoreError:
            return
        tables = [t.tolist() for t in (stored.ids, stored.starts, stored.ends)]
        lengths = stored.lengths.tolist()
        for row, count, *tokens in zip(texts, lengths, *tables, strict=True):
            token_ids, starts, ends = (numbers[:count] for numbers in tokens)
            yield Chunk(token_ids, starts, ends, row.start, row.text, reused=True)


def table(rows: Sequence[Sequence[int]], size: int) -> torch.Tensor:
    """Return numbers of chunks as rows [C, S] int32, filled with zeros."""
    padded = [[*row, *([0] * (size - len(row)))] for row in rows]
    return torch.tensor(padded, dtype=torch.int32)
