"""The training configurations that the project ships can be loaded, and their models built."""

from __future__ import annotations

from pathlib import Path

import pytest

from drt_engine.config.load import build, load_config
from drt_engine.config.model import ReaderConfig, preset
from drt_engine.config.train import TrainConfig

CONFIGS = sorted((Path(__file__).parents[3] / "examples" / "configs").rglob("*.toml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_it_loads(path: Path) -> None:
    config = load_config(TrainConfig, path)
    changes = dict(config.model)
    if "reader" in changes:
        changes["reader"] = build(ReaderConfig, changes["reader"])
    assert preset(str(changes.pop("preset")), **changes).quote_head
    assert config.run.out.parts[0] == "runs"


def test_every_stage_has_a_configuration() -> None:
    stages = [path.name[0] for path in CONFIGS if path.parent.name == "drt-small-en"]
    assert stages == ["1", "2", "3", "4", "5", "6", "7", "8", "9"]


def test_each_stage_starts_from_the_model_of_the_one_before() -> None:
    paths = [path for path in CONFIGS if path.parent.name == "drt-small-en"]
    stages = [load_config(TrainConfig, path) for path in paths]
    for earlier, later in zip(stages, stages[1:], strict=False):
        assert later.start.model == earlier.run.out / "model"
