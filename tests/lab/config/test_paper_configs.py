"""The configurations of the paper's models: their sizes, the paper's settings, and two steps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from drt_engine.config.model import ModelConfig, preset
from drt_engine.model.weights import load_config as load_model_config
from drt_engine.model.weights import save_model
from drt_lab.config.load import load_config
from drt_lab.config.train import TrainConfig
from drt_lab.lm.build import make_model
from drt_lab.train.metrics import read_metrics
from drt_lab.train.run import train
from tests.engine.model.factories import make_model as make_drt
from tests.engine.model.factories import tiny
from tests.fakes import byte_tokenizer
from tests.lab.train.corpora import ARTICLE
from tests.sampling import sampled
from tests.tables import each_row

CONFIGS = sorted((Path(__file__).parents[3] / "examples" / "paper" / "models").glob("*.toml"))
# Millions of parameters, at the paper's size.
SIZES = {"drt-x1": 147, "drt-x2": 148, "base": 124, "base-768": 124, "base-14-layers": 138}
SHRUNK = (
    *("width=16", "heads=2", "kv_heads=2", "mlp=16", "chunk=8", "window=16", "state_tokens=4"),
    *("encoder.layers=1", "encoder.heads=2", "encoder.mlp=16", "retrieved=2"),
)


def model_of(path: Path) -> ModelConfig:
    """The configuration of the model, at the paper's size."""
    changes = dict(load_config(TrainConfig, path).model)
    return preset(str(changes.pop("preset")), **changes)


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer, a corpus, and a model whose encoder is the fixed retriever."""
    folder, tokenizer = tmp_path_factory.mktemp("paper"), byte_tokenizer()
    tokenizer.save(folder / "tokenizer.json")
    (folder / "corpus.jsonl").write_text(json.dumps({"text": ARTICLE}) + "\n")
    config = tiny(vocab=tokenizer.vocab_size)
    save_model(make_drt(config), tokenizer, folder / "encoder", dtype=torch.float32)
    return folder


@each_row("path", CONFIGS, ids=lambda path: path.stem)
def test_it_has_the_papers_settings(path: Path) -> None:
    config = load_config(TrainConfig, path)
    optim = config.optim
    assert (optim.lr, optim.floor, optim.weight_decay) == (2e-3, 0.2, 0.001)
    scales = ("encoder", "embedding", "lower", "upper", "scorer")
    assert {getattr(optim, f"{name}_scale") for name in scales} == {1.0}
    assert config.run.out == Path("runs/paper") / path.stem
    assert model_of(path).name == f"paper-{path.stem}"


# tests/lab/study/test_examples.py takes two steps with each of them, in a smaller shape.
@pytest.mark.parametrize(
    "path", sampled(CONFIGS, {6}, thorough={0}), ids=[path.stem for path in CONFIGS]
)
def test_it_takes_two_steps(
    path: Path, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drt_lab.train.loop.plot", lambda run: None)
    layers = ["lower_layers=2", "upper_layers=2"]
    overrides = [f"model.{change}" for change in (*SHRUNK, *layers)]
    overrides += [f"start.tokenizer={files}/tokenizer.json", f"run.out={tmp_path}/run"]
    overrides += [f'stream.corpus=["{files}/corpus.jsonl"]', f"stream.tokens={files}/tokens"]
    overrides += ["stream.chunks=4", "stream.batch=1", "optim.steps=2", "optim.accumulate=1"]
    overrides += ["run.log_every=1", f"model.retriever_model={files}/encoder"]
    train(path, overrides)
    rows = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2]
    assert all(4 < row["lm"] < 8 for row in rows)
    saved = load_model_config(tmp_path / "run" / "model")
    expected = model_of(path)
    assert (saved.architecture, saved.retriever) == (expected.architecture, expected.retriever)


@pytest.mark.thorough
def test_the_models_have_the_papers_sizes() -> None:
    for name, millions in SIZES.items():
        with torch.device("meta"):
            model = make_model(model_of(CONFIGS[0].with_name(f"{name}.toml")))
        count = sum(parameter.numel() for parameter in model.parameters())
        assert round(count / 1e6) == millions, name


def test_rows_of_equal_attention() -> None:
    """What a token attends to: 8 chunks of 64 in half of the layers, or wider windows."""
    sums = {}
    for name in ("drt-x1", "base-768", "base-14-layers"):
        config = model_of(CONFIGS[0].with_name(f"{name}.toml"))
        read = config.retrieved * config.chunk if config.architecture == "drt" else 0
        sums[name] = config.layers * config.window + config.upper_layers * read
    assert sums["drt-x1"] == sums["base-768"] == 9216
    assert abs(sums["base-14-layers"] - 9216) < config.layers
