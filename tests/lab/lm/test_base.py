"""Base LM: its definition in loops, a DRT without retrieval, and streams read in pieces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from drt_engine.config.model import ModelConfig
from drt_engine.errors import ConfigError, WeightsError
from drt_engine.model.drt import DRT
from drt_engine.model.weights import load_model, save_model
from drt_kernels.testing import assert_close
from drt_lab.lm.build import begin_stream, load_language_model, make_model
from tests.engine.model.factories import full, random_ids, tiny
from tests.engine.model.paper_model import PaperModel
from tests.fakes import byte_tokenizer
from tests.lab.lm.oracle import (
    LIMIT,
    Parameters,
    compare,
    compare_padding,
    compare_pieces,
    moved_model,
)

pytestmark = pytest.mark.usefixtures("double")
SHAPE: dict[str, object] = {"vocab": 13, "width": 8, "heads": 2, "kv_heads": 1, "mlp": 6}


def base(**changes: object) -> ModelConfig:
    """A configuration small enough for loops."""
    return tiny(
        **{
            **SHAPE,
            "architecture": "base",
            "lower_layers": 1,
            "upper_layers": 2,
            "chunk": 3,
            "window": 5,
            **changes,
        }
    )


def oracle(config: ModelConfig, exact: Parameters, chunks: Sequence[Sequence[int]]) -> list[Tensor]:
    paper = PaperModel(config, exact)
    x = [exact["embedding.weight"][token] for chunk in chunks for token in chunk]
    for layer in range(config.layers):
        x = paper.lower_layer(x, f"layers.{layer}.")
    return [paper.norm(state, "norm") for state in x]


def test_it_computes_its_definition() -> None:
    config = base()
    compare(moved_model(config), lambda exact, chunks: oracle(config, exact, chunks))


def test_it_is_a_drt_without_retrieval_and_landmarks() -> None:
    base_lm = moved_model(base())
    drt = DRT(base(architecture="drt")).double()
    weights = base_lm.state_dict()
    for name, parameter in drt.named_parameters():
        layer = name
        for stack, first in (("lower", 0), ("upper", 1)):
            if name.startswith(stack):
                number, rest = name.removeprefix(stack + ".").split(".", 1)
                layer = f"layers.{int(number) + first}.{rest}"
        if layer in weights:
            parameter.data.copy_(weights[layer])
    ids = random_ids(base_lm.config, 2, 7, 3)
    states = drt.lower_states(ids.flatten(1), full(ids).flatten(1))
    expected = drt.upper_states(states, full(ids).flatten(1), lambda *_: ())
    actual = base_lm(ids, full(ids))
    assert actual.shape == (2, 7, 4, 8) and not actual[:, :, -1].any()
    assert_close("states", expected, actual[:, :, :-1].flatten(1, 2), LIMIT)


def test_reading_in_pieces_and_steps_is_reading_in_one_go() -> None:
    model = moved_model(base())
    compare_pieces(model, pieces=(1, 4, 7, 130))
    compare_padding(model)
    state = begin_stream(model, dtype=torch.float64)
    state.prefill([5, 6, 7])
    state.step(8)
    before = state.state_bytes
    state.prefill([7] * 200)
    state.step(8)
    assert state.state_bytes == before > 0


def test_a_folder_is_opened_as_what_it_is(tmp_path: Path) -> None:
    tokenizer = byte_tokenizer()
    torch.manual_seed(0)
    model = make_model(base(vocab=tokenizer.vocab_size))
    save_model(model, tokenizer, tmp_path, dtype=torch.float32)
    again, _ = load_language_model(tmp_path)
    ids = random_ids(model.config, 1, 4, 3)
    assert torch.equal(again(ids, full(ids)), model(ids, full(ids)))
    with pytest.raises(WeightsError, match="architecture 'base', which has no memory"):
        load_model(tmp_path)


def test_parts_of_a_drt_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"model.quote_head is a part of the architecture 'drt'"):
        base(quote_head=True)
    with pytest.raises(ConfigError, match=r"model.architecture is 'basis', expected one of"):
        base(architecture="basis")
