"""What reading computes, counted, and the records that it leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import pytest
import torch

from drt_engine.ingest import pipeline
from drt_engine.ingest.segment import Chunk
from drt_engine.runtime import Runtime
from drt_engine.store import ChunkBatch, Store

Reading = Callable[..., ChunkBatch]


class Counted:
    """Counts the chunks that go through the model, and keeps what comes out."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.batches: list[ChunkBatch] = []
        self._read: Reading = pipeline.read_chunks
        monkeypatch.setattr(pipeline, "read_chunks", self)

    def __call__(
        self, runtime: Runtime, warm_up: Sequence[Chunk], batch: Sequence[Chunk], **note: Any
    ) -> ChunkBatch:
        self.batches.append(self._read(runtime, warm_up, batch, **note))
        return self.batches[-1]

    @property
    def chunks(self) -> int:
        return sum(len(batch.lengths) for batch in self.batches)

    def joined(self) -> ChunkBatch:
        names = [field.name for field in fields(ChunkBatch)]
        return ChunkBatch(*(torch.cat([getattr(b, name) for b in self.batches]) for name in names))


def records(store: Store, id: str) -> ChunkBatch:
    return store.read_chunks(store.chunk_ids([id]))


def assert_same_bits(one: ChunkBatch, other: ChunkBatch) -> None:
    for field in fields(ChunkBatch):
        assert torch.equal(getattr(one, field.name), getattr(other, field.name)), field.name
