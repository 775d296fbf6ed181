"""Block-Recurrent Transformer: its definition in loops, Base LM, and segments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import pytest
import torch
from torch import Tensor

from drt_engine.config.model import ModelConfig
from drt_engine.model.protocol import LanguageModel
from drt_kernels.testing import assert_close
from drt_lab.lm.block_recurrent import RecurrentLayer
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

pytestmark = pytest.mark.usefixtures("double")


def recurrent(**changes: object) -> ModelConfig:
    return base(**{"architecture": "block-recurrent", "state_tokens": 2, "window": 4, **changes})


class Loops:
    """The recurrent layer, one token, state vector and head at a time."""

    def __init__(self, config: ModelConfig, exact: Parameters, name: str) -> None:
        self.config, self.exact, self.name = config, exact, name
        self.paper = PaperModel(config, exact)

    def layer(self, x: list[Tensor]) -> list[Tensor]:
        config, name, window = self.config, self.name, self.config.window
        after = self.paper.add_attention(x, name)
        parts = [self.paper.project(state, name + "attention.") for state in x]
        state = [torch.zeros_like(x[0]) for _ in range(config.state_tokens)]
        out = []
        for i, token in enumerate(x):
            if i and i % window == 0:
                state = self.cell(state, parts[i - window : i])
            query = self.paper.weight(name + "state_query") @ self.paper.norm(
                token, name + "attention.norm"
            )
            read = self.attend(query, *self.memory(state))
            out.append(after[i] + self.paper.weight(name + "state_out") @ read)
        return [s + self.paper.mlp(self.paper.norm(s, name + "norm"), name + "mlp") for s in out]

    def memory(self, state: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        normal = [self.paper.norm(s, self.name + "cell.norm") for s in state]
        places = self.exact[self.name + "cell.places"]
        keys = [
            self.paper.weight(self.name + "cell.key") @ (s + p)
            for s, p in zip(normal, places, strict=True)
        ]
        return keys, [self.paper.weight(self.name + "cell.value") @ s for s in normal]

    def cell(self, state: list[Tensor], parts: list[tuple[Tensor, ...]]) -> list[Tensor]:
        name, out = self.name + "cell.", []
        keys, values = ([part[n].flatten() for part in parts] for n in (1, 2))
        for number, vector in enumerate(state):
            place = self.exact[name + "places"][number]
            both = self.paper.weight(name + "query") @ (
                self.paper.norm(vector, name + "norm") + place
            )
            to_state, to_tokens = both.chunk(2)
            read = torch.cat(
                [
                    self.attend(to_state, *self.memory(state)),
                    self.attend(to_tokens, keys, values),
                ]
            )
            gates = self.paper.weight(name + "gate") @ (self.paper.weight(name + "out") @ read)
            z, i, f = (gates + self.exact[name + "gate.bias"]).chunk(3)
            keep, write = 1 / (1 + (-(f + 1)).exp()), 1 / (1 + (-(i - 1)).exp())
            out.append(vector * keep + z.tanh() * write)
        return out

    def attend(self, query: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
        size, heads = self.paper.size, []
        for head in range(self.config.heads):
            shared = head // (self.config.heads // self.config.kv_heads)
            own, there = slice(head * size, (head + 1) * size), slice(shared * size, None)
            scores = [query[own] @ key[there][:size] / math.sqrt(size) for key in keys]
            shares = softmax(scores)
            pairs = zip(shares, values, strict=True)
            heads.append(torch.stack([a * v[there][:size] for a, v in pairs]).sum(dim=0))
        return torch.cat(heads)


def oracle(config: ModelConfig, exact: Parameters, chunks: Sequence[Sequence[int]]) -> list[Tensor]:
    paper = PaperModel(config, exact)
    x = [exact["embedding.weight"][token] for chunk in chunks for token in chunk]
    for layer in range(config.layers):
        name = f"layers.{layer}."
        is_recurrent = layer == config.layers * 3 // 4
        x = Loops(config, exact, name).layer(x) if is_recurrent else paper.lower_layer(x, name)
    return [paper.norm(state, "norm") for state in x]


def test_it_computes_its_definition() -> None:
    config = recurrent()
    compare(moved_model(config), lambda exact, chunks: oracle(config, exact, chunks))


def test_keys_and_values_are_projected_once() -> None:
    model = moved_model(recurrent())
    ids, calls = random_ids(model.config, 2, 6, 3), []
    for layer in model.layers:  # type: ignore[union-attr]
        layer.attention.qkv.register_forward_hook(lambda *_: calls.append(1))
    model(ids, full(ids))
    assert len(calls) == model.config.layers


@pytest.mark.thorough
def test_segment_by_segment_is_in_one_go() -> None:
    model = moved_model(recurrent())
    compare_pieces(model, pieces=(1, 4, 7, 20))
    compare_pieces(model, pieces=(4, 8, 4))
    compare_padding(model)
    state = begin_stream(model, dtype=torch.float64)
    with torch.no_grad():
        state.step(5)
        before = state.state_bytes
        state.prefill([5] * 51)
        state.step(5)  # the first of a block, too
    assert state.state_bytes == before > 0


def test_with_a_closed_gate_it_is_base_lm() -> None:
    model, base_lm = moved_model(recurrent()), moved_model(base(window=4))
    copied = base_lm.load_state_dict(model.state_dict(), strict=False)
    assert not copied.missing_keys
    ids = random_ids(model.config, 2, 6, 3)
    assert not torch.allclose(base_lm(ids, full(ids)), model(ids, full(ids)))
    close(model)
    assert_close("states", base_lm(ids, full(ids)), model(ids, full(ids)), LIMIT)


def close(model: LanguageModel) -> None:
    """Let nothing be written to the state, which begins as zeros."""
    for layer in cast("list[torch.nn.Module]", model.layers):
        if isinstance(layer, RecurrentLayer):
            layer.cell.gate.weight.data.zero_()
            layer.cell.gate.bias.data[8:16] = -1e9
