"""Resuming: moments by parameter name, settings compared before anything is written, checkpoints
that survive a power failure.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from drt_engine.errors import ConfigError
from drt_lab.config.train import (
    OptimConfig,
    QuestionsConfig,
    RunConfig,
    StreamConfig,
    TrainConfig,
)
from drt_lab.train.checkpoint import find_state, load_state, moments_by_name, save_state
from drt_lab.train.loop import Loop
from drt_lab.train.optim import make_optimizer
from drt_lab.train.resume import CHANGEABLE, settings_of
from tests.engine.model.factories import fresh_model, make_model, small_like
from tests.fakes import byte_tokenizer
from tests.lab.train.corpora import ARTICLE, write_corpus

TOKENIZER = byte_tokenizer()
MODEL = small_like(chunk=32, vocab=TOKENIZER.vocab_size)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrainConfig:
    """A stage of one task whose run folder holds a checkpoint of step 1."""
    monkeypatch.setattr("drt_lab.train.loop.plot", lambda run: None)
    corpus = write_corpus(tmp_path, ARTICLE)
    stage = TrainConfig(
        optim=OptimConfig(steps=3, lr=3e-3),
        stream=StreamConfig(share=1.0, corpus=(corpus,), chunks=2),
        run=RunConfig(out=tmp_path / "run", bf16=False),
    )
    loop(stage).run(until=1)
    return stage


def loop(config: TrainConfig, **model: object) -> Loop:
    return Loop(config, fresh_model(replace(MODEL, **model)), TOKENIZER)  # type: ignore[arg-type]


def with_setting(config: TrainConfig, key: str, value: object) -> TrainConfig:
    section, name = key.split(".")
    changed = replace(getattr(config, section), **{name: value})
    return replace(config, **{section: changed})


def trained_model(**shares: float) -> tuple[nn.Module, torch.optim.AdamW]:
    """A model of whose moments no two are alike, after one step."""
    model = make_model(MODEL)
    optimizer = make_optimizer(model, OptimConfig(**shares))  # type: ignore[arg-type]
    for number, parameter in enumerate(model.parameters()):
        parameter.grad = torch.randn(
            parameter.shape, generator=torch.Generator().manual_seed(number)
        )
    optimizer.step()
    return model, optimizer


def test_moments_go_to_the_parameters_of_their_names(tmp_path: Path) -> None:
    model, optimizer = trained_model()
    save_state(tmp_path / "state", model, optimizer, {})
    other = make_model(MODEL, seed=1)
    shares = OptimConfig(encoder_scale=0.5, upper_scale=0.1, weight_decay=0.3)
    regrouped = make_optimizer(other, shares)
    groups = [group["scale"] for group in regrouped.param_groups]
    load_state(tmp_path / "state", other, regrouped)
    saved = moments_by_name(model, optimizer)
    assert len(saved) == 3 * len(list(model.parameters()))
    for name, parameter in other.named_parameters():
        for moment, value in regrouped.state[parameter].items():
            assert torch.equal(value, saved[f"{moment}.{name}"]), name
            assert value.shape == (parameter.shape if moment != "step" else ()), name
    assert [group["scale"] for group in regrouped.param_groups] == groups


def test_a_parameter_without_a_gradient_so_far_has_no_moments(tmp_path: Path) -> None:
    model, optimizer = make_model(MODEL), None
    optimizer = make_optimizer(model, OptimConfig())
    model.norm.weight.grad = torch.ones_like(model.norm.weight)
    optimizer.step()
    save_state(tmp_path / "state", model, optimizer, {})
    again = make_optimizer(model, OptimConfig())
    load_state(tmp_path / "state", model, again)
    assert list(again.state) == [model.norm.weight]


def damage(state: Path, change: dict[str, torch.Tensor | None]) -> None:
    """Replace or remove tensors of a checkpoint."""
    tensors: dict[str, Any] = {**load_file(state / "state.safetensors"), **change}
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    save_file(kept, state / "state.safetensors")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"optim.exp_avg.norm.weight": torch.zeros(3)},
            r"exp_avg\.norm\.weight as \[3\], expected",
        ),
        ({"optim.step.norm.weight": torch.zeros(2)}, r"step\.norm\.weight as \[2\], expected \[\]"),
        ({"optim.exp_avg_sq.norm.weight": None}, r"lacks moments of norm\.weight"),
        ({"optim.exp_avg.none.weight": torch.zeros(3)}, r"exp_avg\.none\.weight.*no parameter"),
        ({"optim.0.exp_avg": torch.zeros(3)}, r"0\.exp_avg.*no parameter"),
    ],
    ids=["shape", "step", "missing", "unknown", "by number"],
)
def test_moments_that_do_not_fit_are_a_sentence(
    config: TrainConfig, change: dict[str, torch.Tensor | None], message: str
) -> None:
    damage(config.run.out / "state", change)
    with pytest.raises(ConfigError, match=message):
        loop(config)


@pytest.mark.parametrize("name", ["state.safetensors", "state.json"])
def test_a_damaged_checkpoint_is_a_sentence(config: TrainConfig, name: str) -> None:
    file = config.run.out / "state" / name
    file.write_bytes(file.read_bytes()[:20])
    with pytest.raises(ConfigError, match=rf"{name} cannot be read.*another folder"):
        loop(config)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("optim.encoder_scale", 1.0),
        ("optim.only", ("encoder.",)),
        ("optim.lr", 1e-4),
        ("optim.accumulate", 2),
        ("stream.chunks", 3),
        ("questions.weights", {"SQuAD": 2.0}),
        ("run.seed", 1),
        ("run.bf16", True),
    ],
)
def test_a_change_that_cannot_be_resumed_names_its_key(
    config: TrainConfig, key: str, value: object
) -> None:
    run = config.run.out
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    with pytest.raises(ConfigError, match=rf"other settings: {key} was .*; set what was"):
        loop(with_setting(config, key, value))
    assert {file: file.read_bytes() for file in run.rglob("*") if file.is_file()} == before


def test_another_model_names_its_keys(config: TrainConfig) -> None:
    before = (config.run.out / "config.json").read_bytes()
    with pytest.raises(ConfigError, match=r"model\.retrieved was 2 and is 3; set"):
        loop(config, retrieved=3)
    with pytest.raises(ConfigError, match=r"optim\.lr was.*model\.chunk was 32 and is 16"):
        Loop(
            with_setting(config, "optim.lr", 1.0), fresh_model(replace(MODEL, chunk=16)), TOKENIZER
        )
    assert (config.run.out / "config.json").read_bytes() == before


@pytest.mark.thorough
def test_settings_that_may_change_do(config: TrainConfig, tmp_path: Path) -> None:
    unbroken = loop(with_setting(config, "run.out", tmp_path / "unbroken")).run()
    (tmp_path / "moved").mkdir()
    corpus = config.stream.corpus[0].rename(tmp_path / "moved" / "corpus.jsonl")
    run = config.run.out.rename(tmp_path / "moved" / "run")
    elsewhere = replace(config.run, out=run, minutes=1.0, log_every=1, limit_minutes=5.0)
    moved = replace(config, run=elsewhere, stream=replace(config.stream, corpus=(corpus,)))
    resumed = loop(moved)
    assert resumed.step == 1
    assert resumed.run() == unbroken[1:]
    assert json.loads((run / "config.json").read_text())["run"]["log_every"] == 1
    longer = loop(with_setting(moved, "optim.steps", 4))
    assert (longer.step, len(longer.run())) == (3, 1)


def test_another_corpus_cannot_be_resumed(config: TrainConfig) -> None:
    before = (config.run.out / "config.json").read_bytes()
    config.stream.corpus[0].write_text('{"text": "Something else."}\n')
    with pytest.raises(ConfigError, match="stream.corpus holds other tokens"):
        loop(with_setting(config, "optim.steps", 9))
    assert (config.run.out / "config.json").read_bytes() == before


def test_every_setting_that_may_change_is_one() -> None:
    stage = TrainConfig(questions=QuestionsConfig(share=1.0))
    assert settings_of(stage).keys() >= CHANGEABLE


def test_a_setting_of_a_newer_version_is_not_compared(config: TrainConfig) -> None:
    file = config.run.out / "state" / "state.json"
    extra = json.loads(file.read_text())
    del extra["settings"]["optim.clip"]
    file.write_text(json.dumps(extra))
    assert loop(config).step == 1


def test_a_checkpoint_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, optimizer = trained_model()
    folder = tmp_path / "run" / "state"
    save_state(folder, model, optimizer, {"step": 1})
    events: list[str] = []
    real_sync, real_rename = os.fsync, Path.rename

    def fsync(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        events.append(f"fsync {path.relative_to(tmp_path)}")
        real_sync(descriptor)

    def rename(self: Path, target: Path) -> Path:
        events.append(f"rename {self.name} to {target.name}")
        return real_rename(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "rename", rename)
    save_state(folder, model, optimizer, {"step": 2})
    assert events == [
        "fsync run/state.part/state.safetensors",
        "fsync run/state.part/state.json",
        "fsync run/state.part",
        "rename state to state.old",
        "fsync run",
        "rename state.part to state",
        "fsync run",
    ]


def test_the_only_checkpoint_is_never_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, optimizer = trained_model()
    folder = tmp_path / "state"
    save_state(folder, model, optimizer, {"step": 1})
    folder.rename(tmp_path / "state.old")  # as a save leaves it that was killed between its renames

    def rename(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "rename", rename)
        save_state(folder, model, optimizer, {"step": 2})
    state = find_state(tmp_path)
    assert state is not None
    assert load_state(state, model, optimizer) == {"step": 1}
