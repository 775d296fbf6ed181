"""RPT: chunked cross-attention in loops, and GCA where one chunk is read."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from drt_engine.errors import ConfigError
from drt_engine.model.drt import DRT
from drt_kernels.testing import assert_close
from tests.engine.model.factories import full, random_ids, tiny
from tests.engine.model.paper_model import Memory, PaperModel, softmax
from tests.lab.lm.oracle import (
    LIMIT,
    Parameters,
    compare,
    compare_padding,
    compare_pieces,
    moved_model,
)
from tests.lab.lm.test_retrievers import drt, drt_config, murmur, without_landmark_slots

pytestmark = pytest.mark.usefixtures("double")


class PaperRPT(PaperModel):
    """The DRT's equations with all retrieved chunks in one softmax, each scaled by its gate."""

    def cross_attend(
        self,
        state: Tensor,
        name: str,
        chunks: list[Memory],
        weights: list[Tensor],  # noqa: ARG002  as GCA is called
    ) -> Tensor:
        if not chunks:
            return torch.zeros_like(state)
        query = self.weight(name + "query") @ self.norm(state, name + "norm")
        gates = []
        for chunk in chunks:
            mean = torch.stack([value.flatten() for value in chunk.values]).mean(dim=0)
            score = self.parameters[name + "gate"] @ mean / math.sqrt(len(mean))
            gates.append((1 / (1 + (-score).exp())).clamp(min=0.1))
        heads = []
        for head in range(self.config.heads):
            shared = head // (self.config.heads // self.config.kv_heads)
            own = query[head * self.size : (head + 1) * self.size]
            pairs = list(zip(chunks, gates, strict=True))
            keys = [g * key[shared] for chunk, g in pairs for key in chunk.keys]
            values = [g * value[shared] for chunk, g in pairs for value in chunk.values]
            shares = softmax([own @ key / math.sqrt(self.size) for key in keys])
            heads.append(sum(a * v for a, v in zip(shares, values, strict=True)))
        return self.weight(name + "out") @ torch.cat(heads)  # type: ignore[arg-type]


def rpt(**changes: object) -> DRT:
    return drt(**{"architecture": "rpt", "retriever": "random", **changes})


def test_it_computes_its_equations() -> None:
    model = rpt()

    def oracle(exact: Parameters, chunks: Sequence[Sequence[int]]) -> list[Tensor]:
        paper = PaperRPT(model.config, exact)
        paper.ranking = murmur
        return without_landmark_slots(paper.states(chunks)[0], model.config)

    # No gradient reaches the scores: the retriever is taught by nothing.
    compare(model, oracle, untrained=("scorer.",))
    compare_pieces(model, pieces=(1, 4, 7))
    compare_padding(model)


def test_one_chunk_with_an_open_gate_is_gca() -> None:
    model = rpt(retrieved=1)
    gca = moved_model(drt_config(retriever="random", retrieved=1, gca_softmax="plain"))
    for layer in model.upper:
        layer.gca.gate.data.zero_()  # type: ignore[union-attr, operator]
        layer.gca._gates = lambda values, mask: values.new_ones(len(values))  # type: ignore[union-attr, assignment]
    copied = gca.load_state_dict(model.state_dict(), strict=False)
    assert not copied.missing_keys and all(k.endswith("gca.gate") for k in copied.unexpected_keys)
    ids = random_ids(model.config, 2, 6, 3)
    assert_close("states", gca(ids, full(ids)), model(ids, full(ids)), LIMIT)


def test_it_needs_a_retriever_that_is_not_learnt() -> None:
    with pytest.raises(ConfigError, match="'rpt' teaches no retriever; expected 'fixed' or"):
        tiny(architecture="rpt")
