"""Landmark Attention: the grouped softmax in loops, full attention, and streams in pieces."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from drt_engine.config.model import ModelConfig
from drt_kernels.testing import assert_close
from drt_lab.lm.build import begin_stream
from tests.engine.model.factories import full, random_ids
from tests.engine.model.paper_model import PaperModel, softmax
from tests.lab.lm.oracle import (
    LIMIT,
    Parameters,
    compare,
    compare_padding,
    compare_pieces,
    moved_model,
)
from tests.lab.lm.test_base import base
from tests.sampling import sampled

pytestmark = pytest.mark.usefixtures("double")


def landmark(**changes: object) -> ModelConfig:
    return base(**{"architecture": "landmark", "lower_layers": 1, "upper_layers": 1, **changes})


def oracle(config: ModelConfig, exact: Parameters, chunks: Sequence[Sequence[int]]) -> list[Tensor]:
    """One token, head and block at a time."""
    paper, slots = PaperModel(config, exact), config.chunk + 1
    ids = [token for chunk in chunks for token in [*chunk, config.landmark_id]]
    x = [exact["embedding.weight"][token] for token in ids]
    for layer in range(config.layers):
        name = f"layers.{layer}."
        parts = [paper.project(state, name + "attention.") for state in x]
        out = []
        for i, state in enumerate(x):
            heads = [attend(config, parts, i, head) for head in range(config.heads)]
            out.append(state + paper.weight(name + "attention.out") @ torch.cat(heads))
        x = [s + paper.mlp(paper.norm(s, name + "norm"), name + "mlp") for s in out]
    x = [paper.norm(state, "norm") for state in x]
    return [state for slot, state in enumerate(x) if slot % slots < config.chunk]


def attend(config: ModelConfig, parts: list[tuple[Tensor, ...]], i: int, head: int) -> Tensor:
    shared, slots = head // (config.heads // config.kv_heads), config.chunk + 1
    slope = 2.0 ** (-8 * (head + 1) / config.heads)

    def score(j: int) -> Tensor:
        query, key = parts[i][0][head], parts[j][1][shared]
        return query @ key / math.sqrt(len(query)) - slope * min(i - j, config.window)

    block = i // slots
    landmarks = [b * slots + config.chunk for b in range(block)]
    order = sorted(landmarks, key=lambda j: (-round(score(j).item() * 1024), -j))
    best = order[: config.retrieved]
    landmarks = [j for j in landmarks if j in best]
    tokens = [j for j in range(block * slots, i + 1) if j % slots < config.chunk]
    shares = softmax([score(j) for j in [*landmarks, *tokens]])
    out = torch.zeros_like(parts[i][0][head])
    for j, share in zip([*landmarks, *tokens], shares, strict=True):
        if j % slots < config.chunk:
            out = out + share * parts[j][2][shared]
            continue
        inside = list(range(j - config.chunk, j))
        for k, part in zip(inside, softmax([score(k) for k in inside]), strict=True):
            out = out + share * part * parts[k][2][shared]
    return out


@pytest.mark.parametrize("retrieved", sampled([2, 9], {0}, thorough={1}))
def test_it_computes_its_definition(retrieved: int) -> None:
    config = landmark(retrieved=retrieved)
    compare(moved_model(config), lambda exact, chunks: oracle(config, exact, chunks), chunks=4)


def test_all_blocks_chosen_is_full_attention() -> None:
    full_attention, chosen = (moved_model(landmark(retrieved=k)) for k in (1, 6))
    ids = random_ids(chosen.config, 2, 7, 3)
    full_attention.train()  # to all blocks, whatever ``retrieved`` says
    expected = full_attention(ids, full(ids))
    assert_close("states", expected, chosen(ids, full(ids)), LIMIT)
    assert not torch.allclose(expected, full_attention.eval()(ids, full(ids)))


@pytest.mark.thorough
def test_reading_in_pieces_and_steps_is_reading_in_one_go() -> None:
    model = moved_model(landmark())
    compare_pieces(model, pieces=(1, 4, 7, 20))
    compare_padding(model)
    state = begin_stream(model, dtype=torch.float64)
    # Keys and values of 4 numbers in 2 layers, for 4 tokens that have a number each.
    block_bytes = 4 * (2 * 2 * 4 * 8 + 8 + 1)
    with torch.no_grad():
        state.prefill([5] * 30)
        assert state.state_bytes == 16 * block_bytes  # room for as many
        state.prefill([5] * 30)
    assert state.state_bytes == 2 * 17 * block_bytes  # no block is forgotten
