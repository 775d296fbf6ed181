"""Reading in segments equals reading in one go; padding is never seen."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from drt_engine.model.drt import DRT
from drt_engine.model.gca_layer import ChunkMemory
from drt_lab.data.chunks import to_chunks
from tests.engine.model.factories import full, make_model, random_ids, small_like, tiny
from tests.sampling import sampled

Reading = tuple[Tensor, ChunkMemory]
CONFIGS = {"paper": tiny(window=11), "small": small_like(window=11)}


@pytest.fixture(scope="module", params=CONFIGS)
def model(request: pytest.FixtureRequest) -> DRT:
    return make_model(CONFIGS[request.param])


def in_one_go(model: DRT, ids: Tensor) -> Reading:
    chunks, valid = to_chunks(ids[None], model.config.chunk, model.config.pad_id)
    states, encoded = model.read(chunks, valid)
    return states[0], model.remember(encoded)


def in_segments(model: DRT, ids: Tensor, size: int, warm_up: int) -> Reading:
    """Read ``size`` chunks at a time, with up to ``warm_up`` chunks before them."""
    chunks, valid = to_chunks(ids[None], model.config.chunk, model.config.pad_id)
    states, memories = [], []
    for at in range(0, chunks.shape[1], size):
        skip = min(warm_up, at)
        part = slice(at - skip, at + size)
        lower, encoded = model.read(chunks[:, part], valid[:, part], skip=skip)
        states.append(lower[0, skip:])
        memories.append(model.remember(encoded))
    joined = [
        torch.cat([getattr(m, name) for m in memories])
        for name in ("keys", "values", "mask", "landmarks")
    ]
    return torch.cat(states), ChunkMemory(*joined)


def differences(one: Reading, other: Reading) -> dict[str, float]:
    """Largest difference of each part, over tokens that exist."""
    (states, memory), (other_states, other_memory) = one, other
    assert torch.equal(memory.mask, other_memory.mask)
    here = torch.nn.functional.pad(memory.mask, (0, 1), value=True)
    pairs = {
        "states": (states[here], other_states[here]),
        "keys": (memory.keys[memory.mask], other_memory.keys[memory.mask]),
        "values": (memory.values[memory.mask], other_memory.values[memory.mask]),
        "landmarks": (memory.landmarks, other_memory.landmarks),
    }
    return {name: (a - b).abs().max().item() for name, (a, b) in pairs.items()}


# drt-tiny has chunks of 8: a chunk less one, one, and one more, then as in the issue, then windows.
@pytest.mark.few(4)
@pytest.mark.parametrize("length", sampled([1, 7, 8, 9, 25, 63, 64, 65, 150], {0, 3, 7, 8}))
@pytest.mark.parametrize("size", sampled([1, 2, 3, 5], {0, 2}))
@torch.no_grad()
def test_segments_equal_one_go(model: DRT, length: int, size: int) -> None:
    ids = random_ids(model.config, length)
    segmented = in_segments(model, ids, size, model.config.warm_up_chunks)
    found = differences(in_one_go(model, ids), segmented)
    assert max(found.values()) < 1e-4, found


@pytest.mark.parametrize("length", [63, 64, 65, 193])
@torch.no_grad()
def test_segments_equal_one_go_at_the_papers_chunk(length: int) -> None:
    model = make_model(tiny(chunk=64, window=100, encoder=CONFIGS["paper"].encoder))
    ids = random_ids(model.config, length)
    segmented = in_segments(model, ids, 1, model.config.warm_up_chunks)
    found = differences(in_one_go(model, ids), segmented)
    assert max(found.values()) < 1e-4, found


@torch.no_grad()
def test_segments_equal_one_go_across_the_blocked_attention(model: DRT) -> None:
    ids = random_ids(model.config, 1100)  # in one go blocked, in segments dense
    segmented = in_segments(model, ids, 40, model.config.warm_up_chunks)
    found = differences(in_one_go(model, ids), segmented)
    assert max(found.values()) < 1e-4, found


@torch.no_grad()
def test_less_warm_up_would_change_something() -> None:
    config = tiny(window=16)
    model = make_model(config)
    ids = random_ids(config, 80)
    # Layers see window - 1 tokens back each: all but one of the chunks that are counted in full.
    reach = config.lower_layers * (config.window - 1)
    needed = -(-reach // config.slots)
    assert needed <= config.warm_up_chunks <= needed + 1
    whole = in_one_go(model, ids)
    assert max(differences(whole, in_segments(model, ids, 2, needed)).values()) < 1e-4
    less = differences(whole, in_segments(model, ids, 2, needed - 1))
    assert all(value > 1e-4 for value in less.values()), less


@torch.no_grad()
def test_ids_of_padding_never_matter(model: DRT) -> None:
    ids = random_ids(model.config, 3, model.config.chunk)[None]
    valid = torch.rand(ids.shape) < 0.6
    other = torch.where(valid, ids, 250)
    states, encoded = model.read(ids, valid)
    more_states, more_encoded = model.read(other, valid)
    here = torch.nn.functional.pad(valid, (0, 1), value=True)
    assert torch.equal(states[here], more_states[here])
    one, more = model.remember(encoded), model.remember(more_encoded)
    assert torch.equal(one.landmarks, more.landmarks)
    assert torch.equal(one.keys[one.mask], more.keys[one.mask])
    assert torch.equal(one.values[one.mask], more.values[one.mask])
    logits = model.logits(model(ids, valid)[here])
    torch.testing.assert_close(logits, model.logits(model(other, valid)[here]))


@torch.no_grad()
def test_where_padding_stands_in_a_chunk_never_matters(model: DRT) -> None:
    size = model.config.chunk
    tokens = random_ids(model.config, 3, 5)
    results = []
    for places in ([0, 1, 2, 3, 4], [3, 4, 5, 6, 7], [0, 2, 3, 6, 7]):
        ids, valid = torch.zeros(1, 3, size, dtype=torch.long), torch.zeros(1, 3, size) > 0
        ids[0, :, places], valid[0, :, places] = tokens, True
        here = torch.nn.functional.pad(valid, (0, 1), value=True)
        results.append((model(ids, valid)[here], model.remember(model.read(ids, valid)[1])))
    for states, memory in results[1:]:
        torch.testing.assert_close(states, results[0][0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(memory.landmarks, results[0][1].landmarks)
        first = results[0][1]
        torch.testing.assert_close(memory.keys[memory.mask], first.keys[first.mask])


@torch.no_grad()
def test_streams_of_a_batch_do_not_meet(model: DRT) -> None:
    ids = random_ids(model.config, 2, 4, model.config.chunk)
    together = model(ids, full(ids))
    for row in range(2):
        alone = model(ids[row : row + 1], full(ids[:1]))
        torch.testing.assert_close(together[row], alone[0], rtol=1e-4, atol=1e-5)
