"""Retrieval learns from the loss, and nothing from later chunks reaches it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from drt_engine.config.model import ModelConfig
from drt_engine.model.drt import DRT, Span
from drt_engine.model.gca_layer import Retrieved
from drt_engine.model.selection import selection_of
from drt_lab.lm.losses import stream_loss
from tests.engine.model.factories import full, make_model, random_ids, small_like, tiny
from tests.sampling import sampled

CHUNKS = 5
CONFIGS = {"paper": tiny(groups=2), "small": small_like()}


def spans_of(model: DRT, chunks: Tensor) -> list[Sequence[Span]]:
    """What each group's landmarks retrieve in a stream."""
    lower, encoded = model.read(chunks, full(chunks))
    plan = model.stream_plan(encoded, *chunks.shape[:2])
    seen: list[Sequence[Span]] = []

    def spy(group: int, x: Tensor) -> Sequence[Span]:
        seen.append(plan(group, x))
        return seen[-1]

    mask = torch.ones(chunks.shape[0], lower.flatten(1, 2).shape[1], dtype=torch.bool)
    model.upper_states(lower.flatten(1, 2), mask, spy)
    return seen


def loss_and_choice(model: DRT, chunks: Tensor) -> tuple[Tensor, list[Tensor]]:
    losses, _ = stream_loss(model, chunks, full(chunks))
    return losses.mean(), [s[0].retrieved.index for s in spans_of(model, chunks)]


WATCHED: dict[str, Callable[[DRT], Tensor]] = {
    "W_h": lambda m: m.scorer.state_query[0].weight,  # type: ignore[return-value]
    "W_l": lambda m: m.scorer.key.weight,
    "encoder": lambda m: m.encoder.blocks[0].attention.qkv.weight,  # type: ignore
    "encoder positions": lambda m: m.encoder.positions.weight,
    "memory map": lambda m: m.memory_map.weight,
    "lower": lambda m: m.lower[0].mlp.down.weight,  # type: ignore
    "embedding": lambda m: m.embedding.weight,
}


@pytest.mark.thorough
@pytest.mark.parametrize("config", sampled(CONFIGS.values(), {0}, thorough={1}), ids=CONFIGS)
def test_gradients_match_finite_differences(
    config: ModelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Scores are computed in fp32 whatever the model's type; here they must be doubles as well.
    monkeypatch.setattr(Tensor, "float", Tensor.double)
    model = make_model(config).double()
    chunks = random_ids(config, 1, CHUNKS, config.chunk)
    loss, choice = loss_and_choice(model, chunks)
    loss.backward()
    step = 1e-5
    for name, pick in WATCHED.items():
        weight = pick(model)
        assert weight.grad is not None, name
        largest = weight.grad.abs().flatten().topk(1).indices.tolist()
        for place in largest:
            values = []
            for sign in (1, -1):
                with torch.no_grad():
                    weight.view(-1)[place] += sign * step
                    moved, same = loss_and_choice(model, chunks)
                    weight.view(-1)[place] -= sign * step
                assert all(map(torch.equal, same, choice)), "the choice must hold still"
                values.append(moved.item())
            numeric = (values[0] - values[1]) / (2 * step)
            exact = weight.grad.view(-1)[place].item()
            assert exact != 0, name
            assert numeric == pytest.approx(exact, rel=2e-3, abs=1e-9), name


@pytest.mark.parametrize("part", ["W_h", "W_l"])
def test_scores_learn_through_probabilities_alone(part: str) -> None:
    """With the probabilities held fixed, the scoring parameters get no gradient."""
    model = make_model(tiny())
    chunks = random_ids(model.config, 1, CHUNKS, model.config.chunk)
    lower, encoded = model.read(chunks, full(chunks))
    plan = model.stream_plan(encoded, 1, CHUNKS)

    def fixed(group: int, x: Tensor) -> Sequence[Span]:
        (span,) = plan(group, x)
        r = span.retrieved
        held = Retrieved(r.memory, r.index, r.scores, r.probabilities.detach())
        return [Span(0, span.stop, held)]

    mask = torch.ones(1, CHUNKS * model.config.slots, dtype=torch.bool)
    model.upper_states(lower.flatten(1, 2), mask, fixed).square().sum().backward()
    assert WATCHED[part](model).grad is None
    assert WATCHED["memory map"](model).grad is not None


@pytest.mark.few(2)
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("at", range(1, CHUNKS))
@torch.no_grad()
def test_later_tokens_change_nothing_earlier(config: ModelConfig, at: int) -> None:
    model, size = make_model(config), config.chunk
    chunks = random_ids(config, 1, CHUNKS, size)
    other = chunks.clone()
    other[0, at:, 3:] = random_ids(config, CHUNKS - at, size - 3, seed=77)
    states, more = model(chunks, full(chunks)), model(other, full(other))
    torch.testing.assert_close(more[:, :at], states[:, :at])
    torch.testing.assert_close(more[:, at, :3], states[:, at, :3])
    assert (more[:, at, 3:] != states[:, at, 3:]).any()
    for one, two in zip(spans_of(model, chunks), spans_of(model, other), strict=True):
        # Row t + 1 holds what the landmark of chunk t retrieved: up to chunk at - 1 it is the same.
        a, b = one[0].retrieved, two[0].retrieved
        assert torch.equal(a.index[:, : at + 1], b.index[:, : at + 1])
        torch.testing.assert_close(a.scores[:, : at + 1], b.scores[:, : at + 1])
        torch.testing.assert_close(a.probabilities[:, : at + 1], b.probabilities[:, : at + 1])


@pytest.mark.few(4)
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("at", range(CHUNKS))
def test_no_gradient_reaches_later_tokens(config: ModelConfig, at: int) -> None:
    model = make_model(config)
    chunks = random_ids(config, 1, CHUNKS, config.chunk)
    kept: list[Tensor] = []
    model.embedding.register_forward_hook(lambda module, ids, out: kept.append(out))
    states = model(chunks, full(chunks))
    kept[0].retain_grad()
    model.logits(states[:, at]).square().sum().backward()
    gradient = kept[0].grad
    assert gradient is not None
    by_chunk = gradient.view(CHUNKS, config.slots, -1).abs().amax(dim=(1, 2))
    assert by_chunk[at + 1 :].sum() == 0
    assert by_chunk[at] > 0
    if at >= 2:
        assert by_chunk[:at].min() > 0


def test_retrieval_serves_the_next_chunk_with_chunks_before_its_own() -> None:
    """What the landmark of chunk t finds are chunks k < t, never t itself."""
    model = make_model(tiny(retrieved=8))
    chunks = random_ids(model.config, 2, CHUNKS, model.config.chunk)
    for spans in spans_of(model, chunks):
        retrieved = spans[0].retrieved
        for row in range(2):
            for chunk in range(CHUNKS):
                kept = retrieved.probabilities[row, chunk] > 0
                found = sorted((retrieved.index[row, chunk][kept] - row * CHUNKS).tolist())
                assert found == list(range(max(0, chunk - 1)))


def test_noise_changes_the_choice_of_a_stream_but_not_its_probabilities() -> None:
    model = make_model(tiny())
    chunks = random_ids(model.config, 1, 12, model.config.chunk)
    with torch.no_grad():
        lower, encoded = model.read(chunks, full(chunks))
        generator = torch.Generator().manual_seed(0)
        plan = model.stream_plan(encoded, 1, 12, generator)
        clean = model.stream_plan(encoded, 1, 12)
        x = lower.flatten(1, 2)
        noisy, plain = plan(0, x)[0].retrieved, clean(0, x)[0].retrieved
        assert not torch.equal(noisy.index, plain.index)
        memory = model.remember(encoded)
        border = lower[:, :, -1]
        queries = model.scorer.queries(border, encoded.landmarks[None], 0)
        scores = model.scorer.scores(queries, memory.landmarks[None]).total
        kept = noisy.probabilities[:, 1:] > 0
        again = selection_of(scores[:, :-1], noisy.index[:, 1:], kept)
        torch.testing.assert_close(noisy.probabilities[:, 1:], again.probabilities)
        assert model(chunks, full(chunks), generator=generator).isfinite().all()
