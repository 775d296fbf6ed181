"""The decoder is the pretrained model, with a window; and memory enters its softmax as written."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from drt_engine.decoder.config import DecoderConfig
from drt_engine.decoder.layer import DecoderLayer
from drt_engine.decoder.model import DeepMemory, Reading, RetrievalDecoder
from drt_engine.decoder.rope import rotate
from tests.engine.decoder.tiny import TINY, chunk_states


@pytest.fixture(scope="module")
def model() -> RetrievalDecoder:
    torch.manual_seed(0)
    model = RetrievalDecoder(TINY).eval()
    for parameter in model.parameters():  # as far apart as trained weights are
        if parameter.dim() == 2:
            parameter.data.mul_(2)
    return model


def ids(*shape: int, seed: int = 1) -> Tensor:
    return torch.randint(3, TINY.vocab, shape, generator=torch.Generator().manual_seed(seed))


def close(actual: Tensor, expected: Tensor) -> None:
    """States of magnitude 10, summed in another order."""
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=5e-5)


def memory_of(model: RetrievalDecoder, chunks: Tensor) -> DeepMemory:
    states = chunk_states(model, chunks)
    return model.remember(states, torch.ones(chunks.shape, dtype=torch.bool))


def turned(vector: Tensor, position: int, config: DecoderConfig) -> Tensor:
    """One head rotated pair by pair, in 64 bits."""
    half = len(vector) // 2
    out = vector.double().clone()
    for i in range(half):
        angle = position * config.rope_theta ** (-2 * i / len(vector))
        a, b = vector[i].double(), vector[i + half].double()
        out[i] = a * math.cos(angle) - b * math.sin(angle)
        out[i + half] = b * math.cos(angle) + a * math.sin(angle)
    return out


def attended(layer: DecoderLayer, x: Tensor, stored: list[tuple[Tensor, Tensor, float]]) -> Tensor:
    """What a layer's attention gives for states [T, E], one head and token at a time.

    ``stored``: of each chunk its keys and values [Hk, S, D] and its weight.
    """
    config, size = layer.config, layer.config.head_size
    heads = layer.qkv(layer.attention_norm(x)).detach().view(len(x), -1, size)
    shared = config.heads // config.kv_heads
    out = torch.zeros(len(x), config.heads, size, dtype=torch.float64)
    for t in range(len(x)):
        for h in range(config.heads):
            kv = h // shared
            parts: list[tuple[float, Tensor]] = []
            for j in range(max(0, t - config.window + 1), t + 1):
                query = turned(heads[t, h], t, config)
                key = turned(heads[j, config.heads + kv], j, config)
                value = heads[j, config.heads + config.kv_heads + kv].double()
                parts.append((math.exp(float(query @ key) * size**-0.5), value))
            for keys, values, weight in stored:
                query = turned(heads[t, h], t + config.chunk + config.gap, config)
                for key, value in zip(keys[kv], values[kv], strict=True):
                    score = float(query @ key.double()) * size**-0.5
                    parts.append((weight * math.exp(score), value.double()))
            total = sum(weight for weight, _ in parts)
            out[t, h] = sum((w / total * value for w, value in parts), torch.zeros(size))
    return out.flatten(1).float()


@torch.no_grad()
def test_a_layer_is_one_softmax_over_window_and_memory(model: RetrievalDecoder) -> None:
    layer = model.upper[0]
    assert isinstance(layer, DecoderLayer)
    x = torch.randn(20, TINY.width, generator=torch.Generator().manual_seed(2))
    memory = memory_of(model, ids(3, TINY.chunk))
    weights = (0.7, 0.3)
    reading = Reading(memory, torch.tensor([[2, 0]]), torch.tensor([weights]).log())
    stored = [
        (memory.keys[0, n], memory.values[0, n], w) for n, w in zip((2, 0), weights, strict=True)
    ]
    for use in (False, True):
        mixed = attended(layer, x, stored if use else [])
        expected = x + layer.out(mixed)
        expected = expected + layer.mlp(layer.mlp_norm(expected))
        got, _ = layer(x[None], torch.arange(20), memory=reading.layer(0) if use else None)
        torch.testing.assert_close(got[0], expected, rtol=1e-4, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("pieces", [(12,), (5, 1, 6), (1,) * 12], ids=str)
@pytest.mark.parametrize("reads", [False, True])
def test_a_prompt_in_pieces_is_a_prompt_at_once(
    model: RetrievalDecoder, pieces: tuple[int, ...], reads: bool
) -> None:
    prompts = ids(2, 12)
    reading = None
    if reads:
        index, weight = torch.tensor([[0, 2], [1, 3]]), torch.tensor([[-0.1, -2.0], [-0.7, -0.7]])
        reading = Reading(memory_of(model, ids(4, TINY.chunk, seed=3)), index, weight)
    state, parts = model.open(reading), []
    for piece in prompts.split(list(pieces), dim=1):
        states, state = model.feed(state, piece)
        parts.append(states)
    close(torch.cat(parts, dim=1), model(prompts, reading))


@torch.no_grad()
def test_a_window_is_all_that_a_long_text_sees(model: RetrievalDecoder) -> None:
    long = ids(1, 60)
    state, parts = model.open(None), []
    for piece in long.split([7, 30, 1, 22], dim=1):
        states, state = model.feed(state, piece)
        parts.append(states)
        assert all(p.keys.shape[2] <= TINY.window - 1 for p in state.past)
    close(torch.cat(parts, dim=1), model(long))


@torch.no_grad()
def test_memory_of_a_chunk_depends_on_its_states_alone(model: RetrievalDecoder) -> None:
    chunks = ids(4, TINY.chunk)
    together = memory_of(model, chunks)
    states = chunk_states(model, chunks)
    for number in range(4):
        alone = model.remember(states[number : number + 1], together.mask[:1])
        torch.testing.assert_close(alone.keys[:, 0], together.keys[:, number])
        torch.testing.assert_close(alone.values[:, 0], together.values[:, number])


@torch.no_grad()
def test_padding_of_a_chunk_changes_nothing(model: RetrievalDecoder) -> None:
    chunk, prompt = ids(1, 5), ids(1, 6)
    states = chunk_states(model, chunk)
    mask = torch.ones(1, 5, dtype=torch.bool)
    weight = torch.zeros(1, 1)
    plain = model(prompt, Reading(model.remember(states, mask), torch.tensor([[0]]), weight))
    padded = torch.cat([states, torch.full((1, 3, TINY.width), 9.0)], dim=1)
    mask = torch.cat([mask, torch.zeros(1, 3, dtype=torch.bool)], dim=1)
    memory = model.remember(padded, mask)
    torch.testing.assert_close(model(prompt, Reading(memory, torch.tensor([[0]]), weight)), plain)


@torch.no_grad()
def test_a_chunk_without_weight_is_not_read(model: RetrievalDecoder) -> None:
    memory, prompt = memory_of(model, ids(2, TINY.chunk)), ids(1, 6)
    both = Reading(memory, torch.tensor([[0, 1]]), torch.tensor([[0.0, -torch.inf]]))
    one = Reading(memory, torch.tensor([[0]]), torch.tensor([[0.0]]))
    torch.testing.assert_close(model(prompt, both), model(prompt, one))
    neither = Reading(memory, torch.tensor([[0, 1]]), torch.full((1, 2), -torch.inf))
    torch.testing.assert_close(model(prompt, neither), model(prompt))


def test_the_loss_of_an_answer_teaches_which_chunk_is_read(model: RetrievalDecoder) -> None:
    """The weight's gradient is positive for the chunk whose memory makes the answer likelier."""
    memory, prompt = memory_of(model, ids(2, TINY.chunk)), ids(1, 6)
    memory = replace(memory, keys=memory.keys.detach(), values=memory.values.detach())
    gains = []
    for chosen in (0, 1):
        weight = torch.full((1, 2), -math.log(2), requires_grad=True)
        states = model(prompt, Reading(memory, torch.tensor([[0, 1]]), weight))
        with torch.no_grad():
            alone = Reading(memory, torch.tensor([[chosen]]), torch.zeros(1, 1))
            target = model.logits(model(prompt, alone))[0, -1].softmax(-1)
        logits = model.logits(states)[0, -1]
        loss = -(target * logits.log_softmax(-1)).sum()
        loss.backward()
        assert weight.grad is not None
        gains.append((weight.grad[0, 1 - chosen] - weight.grad[0, chosen]).item())
    assert min(gains) > 0


def test_positions_of_sixteen_million_keep_their_digits() -> None:
    heads = torch.randn(1, 2, 64, generator=torch.Generator().manual_seed(0))
    near = rotate(heads, torch.tensor([5, 9]), 100_000.0)
    far = rotate(heads, torch.tensor([16_000_005, 16_000_009]), 100_000.0)
    torch.testing.assert_close((near[0, 0] * near[0, 1]).sum(), (far[0, 0] * far[0, 1]).sum())


@pytest.mark.thorough
@torch.no_grad()
def test_logits_are_those_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    from tests.engine.decoder.other import as_decoder_weights, mistral

    torch.manual_seed(3)
    other = mistral(transformers, TINY)
    model = RetrievalDecoder(TINY).eval()
    model.load_state_dict(model.state_dict() | as_decoder_weights(other.state_dict(), TINY))
    text = ids(2, 50)
    torch.testing.assert_close(model.logits(model(text)), other(text).logits, rtol=1e-4, atol=1e-4)
