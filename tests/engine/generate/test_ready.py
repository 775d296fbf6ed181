"""What a step finds laid out: the window, retrieved memory, the tensors of a graph."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from drt_engine.generate import graph
from drt_engine.generate.decode import Decoder
from drt_engine.model.attention import alibi_slopes
from drt_engine.model.cache import WindowCache
from drt_engine.model.drt import DRT
from drt_engine.model.gca_layer import ChunkMemory, Retrieved, laid_out
from drt_engine.retrieval.sources import StreamSource
from tests.engine.model.factories import make_model, random_ids, small_like, tiny
from tests.sampling import sampled
from tests.tables import each_row

HEADS, KV_HEADS, SIZE, WINDOW, ROOM = 4, 2, 8, 5, 4


def make_window(dtype: torch.dtype = torch.float32) -> WindowCache:
    shape = (2, KV_HEADS, SIZE)
    return WindowCache(shape, alibi_slopes(HEADS), window=WINDOW, room=ROOM, dtype=dtype)


def scalar(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Token after token, head after head: softmax with ALiBi over the window."""
    out = torch.zeros(len(query), HEADS, SIZE)
    for t in range(len(query)):
        seen = range(max(0, t - WINDOW + 1), t + 1)
        for head, slope in enumerate(alibi_slopes(HEADS).tolist()):
            k, v = (x[:, head // (HEADS // KV_HEADS)] for x in (keys, values))
            scores = [query[t, head] @ k[u] / SIZE**0.5 - slope * (t - u) for u in seen]
            weights = torch.softmax(torch.stack(scores), 0)
            out[t, head] = sum(w * v[u] for w, u in zip(weights, seen, strict=True))
    return out.flatten(1)


def stream(tokens: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(tokens, HEADS, SIZE, generator=generator)
    return query, *torch.randn(2, tokens, KV_HEADS, SIZE, generator=generator)


@each_row("parts", [[1] * 40, [4] * 10, [2, 1, 3, 4, 1] * 3, [3]], ids=len)
def test_the_ring_is_a_window_over_the_whole_stream(parts: list[int]) -> None:
    query, keys, values = stream(sum(parts))
    window, out, at = make_window(), [], 0
    for count in parts:
        window.begin(count)
        part = slice(at, at + count)
        for layer in (0, 1):  # the second is told the same, so it gives the same
            found = window.attend(layer, query[None, part], keys[None, part], values[None, part])
        out.append(found[0])
        at += count
    torch.testing.assert_close(torch.cat(out), scalar(query, keys, values))


def test_a_fixed_step_is_a_step() -> None:
    query, keys, values = stream(30)
    window, out = make_window(), []
    for t in range(30):
        window.begin_fixed() if t % 3 else window.begin(1)
        part = slice(t, t + 1)
        out.append(window.attend(0, query[None, part], keys[None, part], values[None, part])[0])
    torch.testing.assert_close(torch.cat(out), scalar(query, keys, values))


@each_row("tokens", [0, 1, 8, 9, 10, 40])
def test_a_state_says_which_token_lies_where(tokens: int) -> None:
    """The layout of sessions that were saved before: [layers, 1, slots, Hk, D]."""
    window = make_window()
    for number in range(tokens):
        window.begin(1)
        key = torch.full((1, 1, KV_HEADS, SIZE), float(number))
        window.attend(1, torch.zeros(1, 1, HEADS, SIZE), key, -key)
    state = window.state(slice(1, 2))
    assert state["keys"].shape == (1, 1, WINDOW + ROOM, KV_HEADS, SIZE)
    held = state["positions"][0]
    assert sorted(p for p in held.tolist() if p >= 0) == [*range(max(0, tokens - 9), tokens)]
    for slot, position in enumerate(held.tolist()):
        assert (state["keys"][0, 0, slot] == max(position, 0)).all()
    assert int(state["head"]) == tokens % 9
    other = make_window()
    other.load(slice(1, 2), state, tokens)
    for name, tensor in other.state(slice(1, 2)).items():
        assert torch.equal(tensor, state[name])


@each_row("off_by_one", [True, False], ids=["off-by-one", "plain"])
@each_row("tokens", [1, 4])
def test_a_step_reads_what_a_longer_call_reads(off_by_one: bool, tokens: int) -> None:
    softmax = "off-by-one" if off_by_one else "plain"
    layer = make_model(tiny(gca_softmax=softmax)).upper[0].gca
    generator = torch.Generator().manual_seed(0)
    config = tiny()
    sizes = (5, config.chunk, config.kv_heads, config.head_size)
    keys, values = 3 * torch.randn(2, *sizes, generator=generator)
    mask = torch.rand(sizes[:2], generator=generator) < 0.7
    mask[3] = False  # a chunk that holds nothing
    index = torch.tensor([[[0, 3, 4, 4]]])  # one chunk twice
    share = torch.tensor([[[0.5, 0.25, 0.25, 0.0]]])
    memory = ChunkMemory(keys, values, mask, torch.zeros(5, 1))
    retrieved = Retrieved(memory, index, share.log(), share)
    x = torch.randn(1, 1, tokens, config.width, generator=generator)
    ready = laid_out(retrieved, off_by_one=off_by_one)
    torch.testing.assert_close(layer(x, retrieved, ready=ready), layer(x, retrieved))


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """Stands for CUDA: a graph is the same work done again on the same memory."""
    graphs: list[Callable[[], None]] = []

    def capture(work: Callable[[], None]) -> Callable[[], None]:
        work()  # warming up is done on the memory, too
        graphs.append(work)
        return work

    monkeypatch.setattr(graph, "capture_cuda", capture)
    return graphs


@pytest.mark.thorough
@pytest.mark.parametrize(
    "config", sampled([tiny(groups=2, upper_layers=4), small_like()], {0}), ids=["G2", "G1"]
)
@torch.inference_mode()
def test_a_graph_gives_what_steps_give(config: object, captured: list[Callable[[], None]]) -> None:
    model: DRT = make_model(config)  # type: ignore[arg-type]
    size = model.config.chunk
    ids = random_ids(model.config, 9 * size).tolist()
    plain, graphed = (
        Decoder(model, StreamSource(model.config.retrieved), graph=on) for on in (False, True)
    )
    places = set()
    for at, token in enumerate(ids):
        wanted, actual = plain.feed([token]), graphed.feed([token])
        torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=1e-5)
        assert graphed._graph is not None
        if at > (model.config.retrieved + 2) * size:
            held = [one[1] for one in graphed._graph._fixed if one is not None]
            places |= {one.keys.data_ptr() for one in held if one is not None}
    assert len(places) == model.config.groups  # borders fill the memory that the graph reads
    assert len(captured) == 1 + model.config.retrieved  # nothing, one chunk, two, ...
    for name, tensor in plain.state().items():
        torch.testing.assert_close(graphed.state()[name], tensor, rtol=1e-4, atol=1e-5)
