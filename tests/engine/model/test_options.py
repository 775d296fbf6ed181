"""Each switch of the configuration changes a number, and starts where it says."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from drt_engine.config.model import ModelConfig
from drt_engine.model.chunking import insert_landmarks
from drt_engine.model.drt import DRT
from drt_engine.model.scorer import LandmarkScorer
from tests.engine.model.factories import (
    BERT,
    changed,
    fresh_model,
    full,
    make_model,
    random_ids,
    small_like,
    tiny,
)
from tests.tables import each_row


def logits(model: DRT, *, count: int = 5) -> Tensor:
    ids = random_ids(model.config, 1, count, model.config.chunk)
    with torch.no_grad():
        return model.logits(model(ids, full(ids)))


def with_same_parameters(config: ModelConfig, model: DRT) -> DRT:
    """A model of another configuration, sharing every parameter that both have."""
    other = make_model(config, seed=5)
    own = other.state_dict()
    shared = {k: v for k, v in model.state_dict().items() if k in own and own[k].shape == v.shape}
    other.load_state_dict(shared, strict=False)
    return other


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "change",
    [
        {"gca_output": "residual"},
        {"gca_softmax": "plain"},
        {"landmark_pooling": "mean"},
        {"landmark_query": "state+landmark"},
        {"normalised_scores": True},
        {"retrieved": 1},
        {"window": 5},
        {"encoder": BERT},
        {"lower_layers": 1},
        {"upper_layers": 4},
        {"groups": 2},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_switch_changes_the_logits(change: dict[str, object]) -> None:
    model = make_model()
    other = with_same_parameters(tiny(**change), model)
    assert (logits(model) - logits(other)).abs().max() > 1e-3


@each_row("switch", ["question_states", "quote_head", "lexical_scores"])
def test_switches_of_prompts_leave_streams_alone(switch: str) -> None:
    model = make_model()
    other = with_same_parameters(tiny(**{switch: True}), model)
    assert torch.equal(logits(model), logits(other))
    assert len(other.state_dict()) > len(model.state_dict())


def test_the_gca_output_enters_the_residual_stream_or_only_the_mlp() -> None:
    mlp = make_model(tiny(upper_layers=1))
    residual = with_same_parameters(tiny(upper_layers=1, gca_output="residual"), mlp)
    with torch.no_grad():
        for model in (mlp, residual):
            torch.nn.init.zeros_(model.upper[0].mlp.down.weight)
    ids = random_ids(mlp.config, 1, 4, mlp.config.chunk)
    with torch.no_grad():
        # Without an MLP the paper's code sees nothing of what was retrieved.
        assert torch.equal(mlp(ids, full(ids)), mlp(ids, full(ids), retrieval=False))
        assert not torch.equal(residual(ids, full(ids)), residual(ids, full(ids), retrieval=False))


def test_no_retrieval_is_the_same_model_without_gca() -> None:
    model = make_model()
    ids = random_ids(model.config, 1, 5, model.config.chunk)
    with torch.no_grad():
        difference = (model(ids, full(ids)) - model(ids, full(ids), retrieval=False))[0]
    assert difference[:2].abs().max() == 0  # nothing to retrieve yet
    assert (difference[2:].abs().amax(dim=(1, 2)) > 1e-4).all()


def test_landmark_pooling() -> None:
    states, valid = torch.randn(2, 5, 32), torch.rand(2, 5) < 0.7
    valid[:, -1] = True
    token, mean = (make_model(tiny(landmark_pooling=p)).encoder for p in ("token", "mean"))
    assert torch.equal(token.landmark(states, valid), states[:, -1])
    wanted = torch.stack([row[here].mean(0) for row, here in zip(states, valid, strict=True)])
    torch.testing.assert_close(mean.landmark(states, valid), wanted)


def scorer(**changes: object) -> LandmarkScorer:
    torch.manual_seed(3)
    return LandmarkScorer(tiny(**changes))


def test_scores_are_the_papers() -> None:
    one = scorer(groups=2)
    states, landmarks = torch.randn(3, 32), torch.randn(5, 32)
    wanted = (states @ one.state_query[1].weight.T) @ (landmarks @ one.key.weight.T).T / 32**0.5
    queries = one.queries(states, torch.randn(3, 32), 1)
    torch.testing.assert_close(one.scores(queries, one.keys(landmarks)).total, wanted)


def test_normalised_scores_are_cosines_times_a_temperature() -> None:
    one = scorer(normalised_scores=True)
    queries, keys = one.queries(torch.randn(3, 32), torch.randn(3, 32), 0), torch.randn(5, 32)
    assert one.log_scale is not None
    torch.testing.assert_close(queries.norm(dim=-1), one.log_scale.exp().expand(3))
    torch.testing.assert_close(one.keys(keys).norm(dim=-1), torch.ones(5))


def test_the_landmark_query_starts_as_the_landmark_itself() -> None:
    one = scorer(landmark_query="state+landmark")
    states, landmarks = torch.randn(3, 32), torch.randn(3, 32)
    torch.testing.assert_close(one.queries(states, landmarks, 0), landmarks / 32**0.5)
    assert torch.equal(one.keys(landmarks), landmarks)


def test_lexical_scores_are_added_with_a_learnt_weight() -> None:
    one, plain = scorer(lexical_scores=True), scorer()
    queries, keys, shares = torch.randn(2, 32), torch.randn(4, 32), torch.rand(2, 4)
    assert one.lexical is not None
    wanted = plain.scores(queries, keys).total + one.lexical * shares
    scores = one.scores(queries, keys, shares)
    torch.testing.assert_close(scores.total, wanted)
    assert scores.lexical is not None and torch.equal(scores.lexical, one.lexical * shares)
    assert torch.equal(scores.landmark, plain.scores(queries, keys).landmark)
    unweighted = plain.scores(queries, keys, shares)
    assert unweighted.lexical is None and torch.equal(unweighted.total, unweighted.landmark)
    assert torch.equal(unweighted.total, plain.scores(queries, keys).total)


@pytest.mark.parametrize("encoder", ["llama", "bert"])
def test_a_zero_lower_stack_starts_as_none(encoder: str) -> None:
    options = small_like() if encoder == "bert" else tiny()
    model = fresh_model(changed(options, zero_lower=True))
    ids = random_ids(model.config, 1, 3, model.config.chunk)
    states, _ = model.read(ids, full(ids))
    assert torch.equal(states, model.embed(insert_landmarks(ids, model.config.landmark_id)))
    without = with_same_parameters(changed(options, lower_layers=0), model)
    assert torch.equal(logits(model), logits(without))
    started = fresh_model(options)
    assert (logits(started) - logits(with_same_parameters(without.config, started))).any()


def test_reread_needs_a_quote_head_and_adds_to_it() -> None:
    plain = make_model(tiny(quote_head=True)).quote_head
    more = make_model(small_like()).quote_head
    assert plain is not None and more is not None
    assert plain.reread_span is None
    assert more.reread_span is not None


def test_paper_presets_have_none_of_our_parts() -> None:
    model = make_model()
    assert model.question_map is None and model.quote_head is None
    assert model.scorer.landmark_query is model.scorer.log_scale is model.scorer.lexical is None
    names = {name.split(".")[0] for name in model.state_dict()}
    assert names == {"embedding", "lower", "encoder", "memory_map", "scorer", "upper", "norm"}


def test_one_memory_serves_all_upper_layers() -> None:
    model = make_model(tiny(upper_layers=4))
    ids = random_ids(model.config, 1, 3, model.config.chunk)
    memory = model.remember(model.read(ids, full(ids))[1])
    config = model.config
    assert memory.keys.shape == (3, config.chunk, config.kv_heads, config.head_size)
    assert memory.landmarks.shape == (3, config.width)
