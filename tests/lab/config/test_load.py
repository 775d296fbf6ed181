"""TOML and overrides into dataclasses, strictly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drt_engine.config.model import ModelConfig
from drt_engine.errors import ConfigError
from drt_lab.config.load import build, dump, load_config
from drt_lab.config.train import TrainConfig

STAGE = """
[model]
preset = "drt-tiny"
[start]
tokenizer = "~/tokenizer.json"
[optim]
lr = 1
betas = [0.8, 0.9]
[stream]
share = 1.0
corpus = ["a.jsonl", "b.jsonl.xz"]
[questions]
weights = { SQuAD = 5, QAMR = 0.5 }
"""


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    file = tmp_path / "stage.toml"
    file.write_text(STAGE, encoding="utf-8")
    return file


def test_values_are_converted_to_their_types(stage: Path) -> None:
    config = load_config(TrainConfig, stage)
    assert config.optim.lr == 1.0 and isinstance(config.optim.lr, float)
    assert config.optim.betas == (0.8, 0.9)
    assert config.stream.corpus == (Path("a.jsonl"), Path("b.jsonl.xz"))
    assert config.start.tokenizer == Path.home() / "tokenizer.json"
    assert config.start.model is None
    assert config.questions.weights == {"SQuAD": 5.0, "QAMR": 0.5}
    assert config.model == {"preset": "drt-tiny"}
    assert config.run.seed == TrainConfig(stream=config.stream).run.seed  # a default


def test_overrides_come_last(stage: Path) -> None:
    overrides = ["optim.lr=0.5", "run.out=runs/other", "run.bf16=false", "model.window=32"]
    config = load_config(TrainConfig, stage, overrides)
    assert config.optim.lr == 0.5
    assert config.run.out == Path("runs/other")
    assert config.run.bf16 is False
    assert config.model == {"preset": "drt-tiny", "window": 32}


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("optim.stepz=3", "unknown key optim.stepz; did you mean 'steps'"),
        ("optim.zzz=3", "unknown key optim.zzz; known keys: steps, lr"),
        ("optimizer.lr=3", "unknown key optimizer; did you mean 'optim'"),
        ("optim.steps=many", "optim.steps is 'many', expected int"),
        ("optim.steps=1.5", "optim.steps is 1.5, expected int"),
        ("optim.steps=true", "optim.steps is True, expected int"),
        ("run.bf16=1", "run.bf16 is 1, expected bool"),
        ("optim.lr=[1.0]", r"optim.lr is \[1.0\], expected float"),
        ("optim.betas=[0.9]", "betas two numbers"),
        ("optim.betas=[0.9,true]", "optim.betas"),
        ("questions.weights.SQuAD=x", "questions.weights.SQuAD is 'x', expected float"),
        ("optim=3", "optim is 3, expected OptimConfig"),
        ("optim.steps", "override 'optim.steps' has no '='; expected section.key=value"),
        ("optim.steps=0", "optim.steps and optim.accumulate must be 1 or more"),
        ("optim.warm_up=1.5", "warm_up"),
        ("stream.share=0", "at least one of questions.share, needles.share, cloze.share"),
        ("stream.share=-1", "at least one"),
        ("run.out.deeper=1", "run.out"),
        ("stream.corpus.deeper=1", "stream.corpus"),
    ],
)
def test_what_does_not_fit_is_a_sentence(stage: Path, override: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_config(TrainConfig, stage, [override])


def test_missing_and_broken_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist, expected a TOML configuration"):
        load_config(TrainConfig, tmp_path / "none.toml")
    broken = tmp_path / "broken.toml"
    broken.write_bytes(b"[model\n")
    with pytest.raises(ConfigError, match="is not TOML"):
        load_config(TrainConfig, broken)
    broken.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not TOML"):
        load_config(TrainConfig, broken)


def test_choices_are_checked_with_their_words() -> None:
    with pytest.raises(ConfigError, match="gca_output is 'x'.*mlp.*residual"):
        build(ModelConfig, {"gca_output": "x"})


def test_nested_keys_are_named_with_their_path() -> None:
    with pytest.raises(ConfigError, match="unknown key encoder.layer; did you mean 'layers'"):
        build(ModelConfig, {"encoder": {"layer": 2}})


def test_dump_is_what_was_loaded(stage: Path) -> None:
    config = load_config(TrainConfig, stage)
    data = json.loads(dump(config))
    assert data["optim"]["betas"] == [0.8, 0.9]
    assert data["stream"]["corpus"] == ["a.jsonl", "b.jsonl.xz"]
    assert build(TrainConfig, data) == config
