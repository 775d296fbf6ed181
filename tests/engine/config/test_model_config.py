"""The presets and the values they refuse."""

from __future__ import annotations

import pytest
import torch

from drt_engine.config.model import PRESETS, EncoderConfig, ModelConfig, preset
from drt_engine.errors import ConfigError
from drt_engine.model.drt import DRT
from tests.sampling import sampled
from tests.tables import each_row


def parameters(config: ModelConfig) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in DRT(config).parameters())


# The large ones are built by the test of their sizes, too.
@pytest.mark.few(1)
@pytest.mark.parametrize("name", sampled(PRESETS, {0, 5, 6}))
def test_presets_build(name: str) -> None:
    config = preset(name)
    assert config.name == name
    assert parameters(config) > 0


def test_the_paper_shape() -> None:
    config = preset("drt-128m")
    assert (config.lower_layers, config.upper_layers, config.groups) == (6, 6, 1)
    assert (config.width, config.heads, config.head_size, config.mlp) == (768, 12, 64, 2048)
    assert (config.chunk, config.retrieved, config.window) == (64, 8, 512)
    assert (config.encoder.layers, config.encoder.kind) == (2, "llama")
    assert (config.landmark_pooling, config.landmark_query) == ("token", "state")
    assert (config.gca_output, config.gca_softmax) == ("mlp", "off-by-one")
    ours = ("normalised_scores", "lexical_scores", "question_states", "quote_head", "reread")
    assert not any(getattr(config, name) for name in ours)
    assert 120e6 < parameters(config) < 150e6


@pytest.mark.parametrize(
    ("name", "size"),
    sampled(
        [("drt-350m", 350e6), ("drt-760m", 760e6), ("drt-1.5b", 1.5e9)],
        {0},
        thorough={1, 2},
        unpack=True,
    ),
)
def test_scaling_presets_have_about_the_size_of_their_name(name: str, size: float) -> None:
    assert 0.75 * size < parameters(preset(name)) < 1.35 * size


def test_the_small_model_is_the_designs() -> None:
    config = preset("drt-small-en")
    assert (config.vocab, config.width, config.lower_layers) == (30522, 384, 2)
    assert (config.heads, config.head_size, config.kv_heads) == (6, 64, 2)
    assert 4 <= config.upper_layers <= 6
    encoder = config.encoder
    assert (encoder.kind, encoder.layers, encoder.heads, encoder.mlp) == ("bert", 6, 12, 1536)
    assert (config.landmark_pooling, config.landmark_query) == ("mean", "state+landmark")
    assert config.normalised_scores and config.zero_lower
    assert 2 * parameters(config) < 80 * 2**20  # bf16, inside the wheel


def test_warm_up_covers_what_lower_layers_see() -> None:
    config = preset("drt-128m")
    assert config.warm_up_chunks == 48  # 6 * 512 / 65, rounded up
    assert config.slots == 65
    assert preset("drt-tiny", lower_layers=0).warm_up_chunks == 0


@each_row(
    ("change", "said"),
    [
        ({"width": 0}, "model.width is 0, expected 1 or more"),
        ({"chunk": -1}, "chunk is -1"),
        ({"lower_layers": -1}, "lower_layers"),
        ({"reread_margin": -1}, "reread_margin"),
        ({"heads": 5}, "width 32 must be a multiple"),
        ({"kv_heads": 3}, "heads 4 must be a multiple of kv_heads 3"),
        ({"groups": 3}, "upper_layers 2 must be a multiple of groups 3"),
        ({"reread": True}, "quote_head"),
        ({"gca_output": "add"}, "gca_output is 'add', expected one of .*mlp.*residual"),
        ({"gca_softmax": "none"}, "gca_softmax"),
        ({"landmark_pooling": "max"}, "landmark_pooling"),
        ({"landmark_query": "both"}, "landmark_query"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_values_that_do_not_fit_are_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        preset("drt-tiny", **change)


def test_the_encoder_is_checked() -> None:
    with pytest.raises(ConfigError, match="encoder.layers is 0"):
        EncoderConfig(layers=0)
    with pytest.raises(ConfigError, match="encoder.kind is 'gpt'"):
        EncoderConfig(kind="gpt")  # type: ignore[arg-type]


def test_an_unknown_preset_names_the_known() -> None:
    with pytest.raises(ConfigError, match="'drt-129m'; the presets are drt-128m, .*drt-tiny"):
        preset("drt-129m")
