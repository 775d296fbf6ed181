"""Chunk memory on disk: what was written comes back, and the best of all blocks are found."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from drt_engine.model.gca_layer import ChunkMemory
from drt_engine.model.selection import select
from drt_lab.lm import disk_memory
from drt_lab.lm.disk_memory import DiskMemory
from tests.engine.model.factories import make_model, tiny

CONFIG = tiny()


def memory_of(chunks: int, *, seed: int = 0) -> ChunkMemory:
    torch.manual_seed(seed)
    shape = (chunks, CONFIG.chunk, CONFIG.kv_heads, CONFIG.head_size)
    mask = torch.ones(shape[:2], dtype=torch.bool)
    return ChunkMemory(torch.randn(shape), torch.randn(shape), mask, torch.randn(chunks, 32))


def test_rows_come_back_and_can_be_written_again(tmp_path: Path) -> None:
    disk, first, second = DiskMemory(tmp_path, CONFIG), memory_of(9), memory_of(2, seed=1)
    disk.write(0, first)
    disk.write(4, second)
    gathered = disk.gather(torch.tensor([8, 4, 5, 0]))
    assert torch.equal(gathered.keys, torch.stack([first.keys[8], *second.keys, first.keys[0]]))
    assert disk.chunks == 9
    disk.close()


def test_a_chunk_of_another_shape_is_refused(tmp_path: Path) -> None:
    disk, whole = DiskMemory(tmp_path, CONFIG), memory_of(1)
    with pytest.raises(ValueError, match=r"keys are \(1, 7, 2, 8\), expected rows of \(8, 2, 8\)"):
        disk.write(0, ChunkMemory(whole.keys[:, :7], whole.values, whole.mask, whole.landmarks))
    disk.close()


def test_retrieval_over_blocks_is_that_over_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_memory, "_SCANNED", 4)
    model, memory = make_model(CONFIG), memory_of(11)
    disk = DiskMemory(tmp_path, CONFIG)
    disk.write(0, memory)
    queries, before = torch.randn(4, CONFIG.width), torch.tensor([0, 1, 6, 11])
    top = disk.best(model.scorer, queries, before, count=2)
    scores = model.scorer.scores(queries, memory.landmarks).total
    expected = select(scores, torch.arange(11) < before[:, None], 2)
    present = expected.scores.isfinite()
    assert torch.equal(top.index[present], expected.index[present])
    torch.testing.assert_close(top.probabilities, expected.probabilities)
    disk.close()
