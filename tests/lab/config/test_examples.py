"""The training configurations that the project ships can be loaded, and their models built."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from drt_engine.config.model import ReaderConfig, preset
from drt_lab.config.load import build, load_config
from drt_lab.config.train import TrainConfig
from drt_lab.train.decoder.config import DecoderConfigFile
from drt_lab.train.run import stage_paths
from tests.tables import each_row

FOLDER = Path(__file__).parents[3] / "examples" / "configs"
DECODERS = sorted((FOLDER / "decoder").glob("*.toml"))
CONFIGS = sorted(path for path in FOLDER.rglob("*.toml") if path not in DECODERS)
SHIPPED = FOLDER / "drt-small-en"
WEIGHTS = FOLDER.parents[1] / "engine" / "drt_engine" / "weights" / SHIPPED.name


@each_row("path", CONFIGS, ids=lambda path: path.name)
def test_it_loads(path: Path) -> None:
    config = load_config(TrainConfig, path)
    changes = dict(config.model)
    if "reader" in changes:
        changes["reader"] = build(ReaderConfig, changes["reader"])
    assert preset(str(changes.pop("preset")), **changes).quote_head
    assert config.run.out.parts[0] == "runs"


@pytest.mark.parametrize("path", DECODERS, ids=lambda path: path.name)
def test_the_training_of_a_decoder_loads(path: Path) -> None:
    decoder = load_config(DecoderConfigFile, path).decoder
    assert decoder.run.parts[0] == "runs" and decoder.questions and decoder.documents


def test_every_stage_of_the_model_card_has_a_configuration() -> None:
    """Stages 10 and 11 were not shipped."""
    card = (WEIGHTS / "MODEL_CARD.md").read_text(encoding="utf-8")
    stages = [path.name.split("-")[0] for path in stage_paths(SHIPPED)]
    assert stages == re.findall(r"(?m)^\| (\d+) \| [\d,]+ \| (?:\d|GPU) \|", card)
    assert stages == [*map(str, range(1, 10)), *map(str, range(12, 19))]


def test_each_stage_starts_from_the_model_of_the_one_before() -> None:
    stages = [load_config(TrainConfig, path) for path in stage_paths(SHIPPED)]
    for earlier, later in zip(stages, stages[1:], strict=False):
        assert later.start.model == earlier.run.out / "model"


def test_the_teacher_is_trained_between_the_stages() -> None:
    """From what one stage leaves, to what a later one names as a teacher."""
    stages = [load_config(TrainConfig, path) for path in stage_paths(SHIPPED)]
    teacher = [
        load_config(TrainConfig, path) for path in stage_paths(FOLDER / f"{SHIPPED.name}-teacher")
    ]
    before = [stage.run.out / "model" for stage in stages].index(teacher[0].start.model)
    taught = [n for n, stage in enumerate(stages) if stage.passages.teachers]
    assert teacher[1].start.model == teacher[0].run.out / "model"
    assert before < min(taught)
    for number in taught:
        assert teacher[-1].run.out / "model" in stages[number].passages.teachers
