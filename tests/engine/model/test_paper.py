"""The whole model against the paper's equations in loops: states, loss, scores, retrieved chunks,
weights, and the gradient of every score and parameter.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from drt_engine.config.model import EncoderConfig, ModelConfig
from drt_engine.model import drt as model_module
from drt_engine.model.drt import DRT
from drt_engine.model.scorer import ChunkScores, LandmarkScorer
from drt_engine.model.selection import Selection, gumbel_noise, select
from drt_kernels.testing import assert_close
from drt_lab.lm.losses import stream_loss
from tests.engine.model.factories import full, make_model, random_ids, tiny
from tests.engine.model.paper_model import PaperModel, Retrievals
from tests.sampling import sampled

CHUNKS = 5
# With 4 heads the slopes of ALiBi are powers of two, which fp32 holds exactly.
PAPER: dict[str, object] = {
    "vocab": 31,
    "width": 16,
    "lower_layers": 1,
    "upper_layers": 4,
    "groups": 2,
    "heads": 4,
    "kv_heads": 4,
    "mlp": 24,
    "chunk": 3,
    "retrieved": 2,
    "window": 5,
    "encoder": EncoderConfig(layers=2, heads=2, mlp=24, positions=8),
}
CASES: dict[str, dict[str, object]] = {
    "paper": {},
    "one group": {"groups": 1},
    "shared keys": {"kv_heads": 2},
    "residual": {"gca_output": "residual"},
    "plain softmax": {"gca_softmax": "plain"},
}


def sharp_model(config: ModelConfig) -> DRT:
    """A model whose retrieval and cross-attention are far from uniform."""
    model = make_model(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.startswith(("scorer.", "memory_map.")) or ".gca." in name:
                parameter.mul_(2.0)
    return model


class Recorder:
    """The scores that a model computes and the choices it makes, group by group."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.scores: list[Tensor] = []
        self.choices: list[Selection] = []
        real = LandmarkScorer.scores

        def scores(scorer: LandmarkScorer, *args: Tensor) -> ChunkScores:
            made = real(scorer, *args)
            made.total.retain_grad()  # the landmark scores themselves, as nothing is added
            self.scores.append(made.total)
            return made

        def choose(scores: Tensor, allowed: Tensor, count: int, **options: object) -> Selection:
            self.choices.append(select(scores, allowed, count, **options))  # type: ignore[arg-type]
            return self.choices[-1]

        monkeypatch.setattr(LandmarkScorer, "scores", scores)
        monkeypatch.setattr(model_module, "select", choose)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    yield Recorder(monkeypatch)


def compare(model: DRT, recorder: Recorder, *, limit: float, seed: int | None = None) -> Retrievals:
    """Compare all numbers of a model with those of the equations, by relative error; return what
    the equations retrieve.
    """
    config = model.config
    chunks = random_ids(config, 1, CHUNKS, config.chunk)
    states = model(chunks, full(chunks), generator=generator(seed))[0].flatten(0, 1)
    recorder.scores.clear()
    recorder.choices.clear()
    losses, _ = stream_loss(model, chunks, full(chunks), generator=generator(seed))
    losses.mean().backward()  # type: ignore[no-untyped-call]

    exact = {k: v.detach().double().requires_grad_() for k, v in model.state_dict().items()}
    paper = PaperModel(config, exact)
    noise = None
    if seed is not None:
        source, shape = generator(seed), torch.Size((1, CHUNKS, CHUNKS))
        assert source is not None
        noise = torch.stack([gumbel_noise(shape, source)[0] for _ in range(config.groups)])
    tokens = chunks[0].tolist()
    expected_states, retrievals = paper.states(tokens, noise)
    loss = paper.loss(expected_states, tokens)
    loss.backward()  # type: ignore[no-untyped-call]

    assert_close("states", torch.stack(expected_states).detach(), states.detach(), limit)
    assert_close("loss", loss.detach(), losses.mean().detach(), limit)
    assert len(recorder.scores) == len(recorder.choices) == config.groups
    for group in range(config.groups):
        check_group(group, retrievals, recorder, limit)
    for name, parameter in model.named_parameters():
        expected, actual = exact[name].grad, parameter.grad
        assert expected is not None and actual is not None, name
        assert expected.abs().max() > 0, name
        assert_close(f"gradient of {name}", expected, actual, limit)
    return retrievals


def check_group(group: int, retrievals: Retrievals, recorder: Recorder, limit: float) -> None:
    """Scores, their gradients, chosen chunks and weights of one group."""
    scores, choice = recorder.scores[group], recorder.choices[group]
    assert scores.grad is not None
    pairs = [(t, k) for t in range(CHUNKS) for k in range(t)]
    expected = [retrievals.scores[group, t][k] for t, k in pairs]
    actual = torch.stack([scores[0, t, k] for t, k in pairs])
    assert_close("scores", torch.stack(expected).detach(), actual.detach(), limit)
    gradients = [torch.zeros(()) if r.grad is None else r.grad for r in expected]
    assert any(gradient != 0 for gradient in gradients)
    actual = torch.stack([scores.grad[0, t, k] for t, k in pairs])
    assert_close("gradients of scores", torch.stack(gradients).double(), actual, limit)
    for t in range(CHUNKS):
        chosen, weights = retrievals.chosen[group, t], retrievals.weights[group, t]
        exists = choice.scores[0, t] > float("-inf")
        assert choice.index[0, t][exists].tolist() == chosen, (group, t)
        if chosen:
            actual = choice.probabilities[0, t][exists].detach()
            assert_close("weights", torch.stack(weights).detach(), actual, limit)


def generator(seed: int | None) -> torch.Generator | None:
    return None if seed is None else torch.Generator().manual_seed(seed)


# One group is the first of two, and fewer keys are read as all are.
@pytest.mark.parametrize("changes", sampled(CASES.values(), {0}, thorough={3}), ids=CASES)
def test_the_model_computes_the_papers_equations(
    changes: dict[str, object], recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is fp32 whatever the model's type must be double here as well.
    monkeypatch.setattr(Tensor, "float", Tensor.double)
    retrievals = compare(sharp_model(tiny(**{**PAPER, **changes})).double(), recorder, limit=1e-9)
    weights = [w.item() for row in retrievals.weights.values() for w in row if len(row) == 2]
    assert max(weights) - min(weights) > 0.5  # far from uniform


@pytest.mark.thorough
def test_noise_changes_the_choice_and_nothing_else(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tensor, "float", Tensor.double)
    config = tiny(**PAPER)
    exact = {name: value.double() for name, value in make_model(config).state_dict().items()}
    chunks = random_ids(config, CHUNKS, config.chunk).tolist()
    _, clean = PaperModel(config, exact).states(chunks)
    noisy = compare(make_model(config).double(), recorder, limit=1e-9, seed=3)
    assert clean.chosen != noisy.chosen


@pytest.mark.slow
def test_single_precision_is_near_the_equations(recorder: Recorder) -> None:
    compare(sharp_model(tiny(**PAPER)), recorder, limit=1e-3)
