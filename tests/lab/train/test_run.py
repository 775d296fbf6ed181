"""The stages of a folder, and their order."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from drt_engine.errors import ConfigError
from drt_engine.model.drt import DRT
from drt_lab.config.load import load_config
from drt_lab.config.train import TrainConfig
from drt_lab.lm.build import load_language_model
from drt_lab.train.run import stage_paths, start, train


def test_stages_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = ["1-a.toml", "2-a.toml", "2-b.toml", "10-a.toml", "last.toml"]
    for name in reversed(names):
        (tmp_path / name).touch()
    (tmp_path / "notes.md").touch()
    assert [path.name for path in stage_paths(tmp_path)] == names


def test_a_file_is_its_only_stage(tmp_path: Path) -> None:
    assert stage_paths(tmp_path / "stage.toml") == [tmp_path / "stage.toml"]


def test_a_folder_without_stages_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no \.toml file"):
        stage_paths(tmp_path)


@pytest.mark.few(1)
@pytest.mark.parametrize("repeat", [True, False])
def test_layers_that_the_earlier_model_had_not_may_start_as_copies(
    repeat: bool, tmp_path: Path
) -> None:
    path = tmp_path / "stage.toml"
    path.write_text(
        f"""
[model]
preset = "drt-tiny"
upper_layers = 1
groups = 1
[optim]
steps = 1
[passkey]
share = 1.0
symbols = 32
chunks = [5]
batch = 2
[run]
out = "{tmp_path / "run"}"
bf16 = false
"""
    )
    earlier, _ = load_language_model(train(path) / "model")
    more = [
        "model.upper_layers=3",
        "model.groups=3",
        f'start.model="{tmp_path / "run" / "model"}"',
        f"start.repeat_upper={str(repeat).lower()}",
        f'run.out="{tmp_path / "next"}"',
    ]
    model, _ = start(load_config(TrainConfig, path, more))
    assert isinstance(model, DRT)
    assert isinstance(earlier, DRT)
    copied = earlier.upper[0].state_dict()
    for number, layer in enumerate(model.upper):
        equal = all(torch.equal(t, copied[name]) for name, t in layer.state_dict().items())
        assert equal == (repeat or number == 0)
    queries = [layer.weight for layer in model.scorer.state_query]
    assert not torch.equal(queries[0], queries[1])  # each group asks for something else
