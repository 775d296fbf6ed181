"""Prefill and steps equal the full forward pass: logits, and what is retrieved at each border."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from drt_engine.generate.decode import Decoder
from drt_engine.model.drt import DRT, Span
from drt_engine.model.gca_layer import ChunkMemory, Retrieved
from drt_engine.retrieval.sources import Retrieval, StreamSource
from tests.engine.model.factories import full, make_model, random_ids, small_like, tiny
from tests.sampling import sampled

CONFIGS = {
    "G1-mlp": tiny(),
    "G2-mlp": tiny(groups=2, upper_layers=4),
    "G1-residual": tiny(gca_output="residual"),
    "G2-residual": tiny(groups=2, gca_output="residual", gca_softmax="plain"),
    "small": small_like(groups=2),
    "no-lower": tiny(lower_layers=0),
}


# What one group does, two do as well; the tests below of one model alone have one.
@pytest.fixture(scope="module", params=sampled(CONFIGS, {3, 4}, thorough={1, 5}))
def model(request: pytest.FixtureRequest) -> DRT:
    return make_model(CONFIGS[request.param])


@dataclass(frozen=True)
class Border:
    """What one group's landmark retrieved, best first."""

    ids: list[int]
    scores: Tensor
    probabilities: Tensor


def of_retrieved(retrieved: Retrieved, row: int) -> Border:
    """The chosen chunks of one row; places without a choice are left out."""
    kept = retrieved.probabilities[0, row] > 0
    picked = [t[0, row][kept] for t in (retrieved.index, retrieved.scores, retrieved.probabilities)]
    return Border(picked[0].tolist(), picked[1], picked[2])


def forward(model: DRT, ids: Tensor) -> tuple[Tensor, list[list[Border]]]:
    """Logits [C, S, V] in one pass, and what each chunk reads in each group."""
    chunks = ids.view(1, -1, model.config.chunk)
    states, encoded = model.read(chunks, full(chunks))
    count = chunks.shape[1]
    plan = model.stream_plan(encoded, 1, count)
    seen: list[Sequence[Span]] = []

    def spy(group: int, x: Tensor) -> Sequence[Span]:
        seen.append(plan(group, x))
        return seen[-1]

    mask = torch.ones(1, count * model.config.slots, dtype=torch.bool)
    model.upper_states(states.flatten(1, 2), mask, spy)
    borders = [[of_retrieved(s[0].retrieved, row) for s in seen] for row in range(count)]
    return model.logits(model(chunks, full(chunks))[0, :, :-1]), borders


def of_found(found: Sequence[Retrieval | None]) -> list[Border]:
    out = []
    for one in found:
        if one is None:
            out.append(Border([], torch.zeros(0), torch.zeros(0)))
            continue
        border = of_retrieved(one.retrieved, 0)
        assert border.ids == [-1 - i for i in one.chunk_ids]
        out.append(border)
    return out


def stream(model: DRT) -> Decoder:
    return Decoder(model, StreamSource(model.config.retrieved))


def step_by_step(model: DRT, ids: Tensor, split: int) -> tuple[Tensor, list[list[Border]]]:
    """The same by a decoder that gets ``split`` tokens at a time."""
    decoder, size = stream(model), model.config.chunk
    out, borders, at = [], [of_found(decoder.retrievals)], 0
    close = decoder.close

    def spy() -> object:
        encoded = close()
        borders.append(of_found(decoder.retrievals))
        return encoded

    decoder.close = spy  # type: ignore[method-assign,assignment]
    while at < len(ids):
        out.append(decoder.logits(decoder.feed(ids[at : at + split].tolist())))
        at += split
    return torch.cat(out).unflatten(0, (-1, size)), borders


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "split", sampled([1, 3, 8, 1000], {1}), ids=["one", "three", "chunk", "all"]
)
@torch.no_grad()
def test_steps_equal_forward(model: DRT, split: int) -> None:
    ids = random_ids(model.config, 6 * model.config.chunk)
    logits, borders = forward(model, ids)
    stepped, found = step_by_step(model, ids, split)
    torch.testing.assert_close(stepped, logits, rtol=1e-4, atol=1e-4)
    assert len(found) == len(borders)
    for wanted, actual in zip(borders, found, strict=True):
        assert len(wanted) == len(actual) == model.config.groups
        for one, other in zip(wanted, actual, strict=True):
            assert one.ids == other.ids
            torch.testing.assert_close(other.scores, one.scores, rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(other.probabilities, one.probabilities)


@torch.no_grad()
def test_a_chunk_reads_only_what_lies_two_borders_back(model: DRT) -> None:
    _, borders = forward(model, random_ids(model.config, 6 * model.config.chunk))
    for chunk, groups in enumerate(borders):
        # The landmark of the chunk before chose among those before it.
        for border in groups:
            assert len(border.ids) == min(model.config.retrieved, max(0, chunk - 1))
            assert all(k < chunk - 1 for k in border.ids)
            assert torch.equal(border.scores, border.scores.sort(descending=True).values)
    assert any(a.ids != b.ids for a, b in zip(borders[4], borders[5], strict=True))


@torch.no_grad()
def test_groups_choose_for_themselves() -> None:
    model = make_model(CONFIGS["G2-mlp"])
    _, borders = forward(model, random_ids(model.config, 8 * model.config.chunk))
    assert any(set(first.ids) != set(second.ids) for first, second in borders)


@pytest.mark.thorough
@torch.no_grad()
def test_a_window_of_old_tokens_leaves_the_buffers() -> None:
    model = make_model(tiny(window=5))
    ids = random_ids(model.config, 30 * model.config.chunk)  # the ring buffers go round
    logits, _ = forward(model, ids)
    stepped, _ = step_by_step(model, ids, 3)
    torch.testing.assert_close(stepped, logits, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_chunks_longer_than_the_buffers_room() -> None:
    model = make_model(tiny(chunk=160, window=16))
    ids = random_ids(model.config, 2 * 160)
    logits, _ = forward(model, ids)
    stepped, _ = step_by_step(model, ids, 1000)
    torch.testing.assert_close(stepped, logits, rtol=1e-4, atol=1e-4)


def restored(model: DRT, decoder: Decoder, state: dict[str, Tensor]) -> Decoder:
    """Another decoder that goes on from a state; source and retrieved memory are the session's."""
    assert isinstance(decoder.source, StreamSource)
    other = Decoder(model, StreamSource(decoder.source.top_k, list(decoder.source.chunks)))
    other.load(state)
    other.retrievals = list(decoder.retrievals)
    return other


@pytest.mark.few(1)
@pytest.mark.parametrize("read", sampled([1, 8, 9, 200, 7, 24, 45], {2}))
@torch.no_grad()
def test_a_restored_decoder_goes_on_with_equal_bits(model: DRT, read: int) -> None:
    ids = random_ids(model.config, read + 30).tolist()
    decoder = stream(model)
    decoder.feed(ids[:read])
    kept = {name: tensor.clone() for name, tensor in decoder.state().items()}
    other = restored(model, decoder, kept)
    assert other.open_tokens == decoder.open_tokens
    for at in range(read, read + 30, 3):
        wanted, actual = decoder.feed(ids[at : at + 3]), other.feed(ids[at : at + 3])
        assert torch.equal(decoder.logits(wanted), other.logits(actual))
    assert all(torch.equal(t, other.state()[name]) for name, t in decoder.state().items())


@pytest.mark.thorough
@pytest.mark.parametrize("kv_heads", sampled([1, 2], {1}))
@torch.no_grad()
def test_a_state_does_not_change_when_its_decoder_goes_on(kv_heads: int) -> None:
    model = make_model(tiny(kv_heads=kv_heads))
    ids = random_ids(model.config, 200).tolist()  # the ring buffers go round
    decoder = stream(model)
    decoder.feed(ids[:12])
    state, other = decoder.state(), stream(model)
    assert isinstance(decoder.source, StreamSource) and isinstance(other.source, StreamSource)
    other.source.chunks, other.retrievals = list(decoder.source.chunks), list(decoder.retrievals)
    wanted = decoder.feed(ids[12:])
    other.load(state)
    assert torch.equal(other.feed(ids[12:]), wanted)


@pytest.mark.few(1)
@torch.no_grad()
def test_two_decoders_of_one_model_do_not_meet(model: DRT) -> None:
    ids, noise = random_ids(model.config, 20).tolist(), random_ids(model.config, 20, seed=4)
    alone = stream(model).feed(ids)
    one, other = stream(model), stream(model)
    pieces = []
    for at in range(0, 20, 4):
        pieces.append(one.feed(ids[at : at + 4]))
        other.feed(noise[at : at + 4].tolist())
    torch.testing.assert_close(torch.cat(pieces), alone, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_chunk_may_be_closed_early() -> None:
    """A partial chunk that a landmark closes is what a padded chunk is to the forward pass."""
    model = make_model(tiny())
    size = model.config.chunk
    ids = random_ids(model.config, 4, size)
    valid = full(ids)
    valid[1, 3:] = valid[2, 5:] = False
    decoder = stream(model)
    pieces = []
    for chunk, mask in zip(ids, valid, strict=True):
        pieces.append(decoder.feed(chunk[mask].tolist()))
        decoder.close()
    wanted = model(ids[None], valid[None])[0, :, :-1][valid]
    torch.testing.assert_close(torch.cat(pieces), wanted, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_added_states_enter_the_upper_stack_only() -> None:
    model = make_model(tiny())
    ids = random_ids(model.config, 6).tolist()
    added = torch.randn(6, model.config.width)
    plain, other = stream(model), stream(model)
    out, more = plain.feed(ids), other.feed(ids, added)
    assert (out != more).any(dim=-1).all()
    lower = model.config.lower_layers
    assert torch.equal(plain.window.keys[:lower], other.window.keys[:lower])
    assert not torch.equal(plain.window.keys[lower:], other.window.keys[lower:])
    one, two = plain.close(), other.close()
    assert torch.equal(one.states, two.states)
    assert torch.equal(one.landmarks, two.landmarks)


@torch.no_grad()
def test_what_a_stream_remembers_is_what_reading_gives(model: DRT) -> None:
    ids = random_ids(model.config, 5 * model.config.chunk)
    decoder = stream(model)
    decoder.feed(ids.tolist())
    chunks = ids.view(1, 5, -1)
    wanted: ChunkMemory = model.remember(model.read(chunks, full(chunks))[1])
    assert isinstance(decoder.source, StreamSource)
    assert len(decoder.source.chunks) == 4  # the last chunk is still open
    for number, memory in enumerate(decoder.source.chunks):
        for name in ("keys", "values", "landmarks"):
            one, other = getattr(memory, name)[0], getattr(wanted, name)[number]
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
