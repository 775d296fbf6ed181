"""Chunk memory on disk: what was written comes back, and retrieval is that of memory."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from drt_engine.lm import disk_memory
from drt_engine.lm.disk_memory import DiskMemory, DiskSource
from drt_engine.lm.drt_state import DRTState
from drt_engine.model.gca_layer import ChunkMemory
from tests.engine.model.factories import make_model, random_ids, tiny

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


def test_a_stream_over_the_disk_is_one_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_memory, "_SCANNED", 4)  # several blocks
    model = make_model(tiny(groups=2))
    ids = random_ids(model.config, 150).tolist()
    disk = DiskMemory(tmp_path, model.config)
    source = DiskSource(disk, model.config.retrieved)
    with torch.inference_mode():
        states = [
            DRTState(model, dtype=torch.float32, store=store).prefill(ids)
            for store in (None, source)
        ]
    torch.testing.assert_close(states[0], states[1], atol=1e-5, rtol=1e-4)
    disk.close()
