"""The paper's studies and configurations are read, and every model in them takes two steps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from drt_engine.errors import ConfigError
from drt_engine.model.drt import DRT
from drt_lab.config.load import load_config
from drt_lab.config.train import StartConfig, StreamConfig, SummariesConfig, TrainConfig
from drt_lab.evaluate.run import check_options
from drt_lab.study.measures import MEASURES
from drt_lab.study.spec import load_study
from drt_lab.train.loop import Loop
from drt_lab.train.run import start
from tests.fakes import byte_tokenizer
from tests.lab.train.corpora import ARTICLE
from tests.sampling import sampled

PAPER = Path(__file__).parents[3] / "examples" / "paper"
STUDIES = sorted(PAPER.glob("*.toml"))
SMALL = {
    "width": 16,
    "heads": 2,
    "kv_heads": 2,
    "mlp": 16,
    "lower_layers": 1,
    "upper_layers": 2,
    "chunk": 8,
    "window": 12,
    "retrieved": 2,
    "state_tokens": 4,
    "encoder": {"layers": 1, "heads": 2, "mlp": 16, "positions": 16},
}


def _configs() -> Iterator[tuple[str, TrainConfig]]:
    """Yield every configuration once, runs of a study that differ in nothing as one."""
    for path in sorted(PAPER.glob("*/*.toml")):
        yield f"{path.parent.name}/{path.stem}", load_config(TrainConfig, path)
    for path in STUDIES:
        study = load_study(path)
        seen: list[TrainConfig] = []
        for run in study.runs:
            config = study.train_config(run, 1)
            small = replace(config, model={**config.model, **SMALL, "preset": "paper-128m"})
            small = replace(small, run=replace(small.run, out=Path()))
            if small not in seen:
                seen.append(small)
                yield f"{path.stem}/{run.name}", config


CONFIGS = dict(_configs())


@pytest.mark.few(3)
@pytest.mark.parametrize("file", STUDIES, ids=lambda file: file.stem)
def test_a_study_of_the_paper_can_be_read(file: Path) -> None:
    study = load_study(file)
    assert study.runs and study.evaluations
    for evaluation in study.evaluations:
        wrong = {**evaluation.options, "no such option": 1}
        measure = MEASURES.get(evaluation.task)
        check = measure.options if measure else partial(check_options, evaluation.task)
        check(evaluation.options)
        with pytest.raises(ConfigError, match="no such option"):
            check(wrong)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus of one text, a summary of it and a tokenizer of bytes."""
    folder = tmp_path_factory.mktemp("text")
    row = {"id": "1", "title": "", "source": "x", "license": "x", "text": ARTICLE}
    (folder / "corpus.jsonl").write_text(json.dumps(row) + "\n")
    summary = {**row, "document": ARTICLE, "summary": ARTICLE[:40]}
    (folder / "summaries.jsonl").write_text(json.dumps(summary) + "\n")
    byte_tokenizer().save(folder / "tokenizer.json")
    return folder


def _small(config: TrainConfig, text: Path, out: Path) -> TrainConfig:
    """Return the configuration with a small model and little data; all else is kept."""
    groups = config.model.get("groups", 1)
    model = {**config.model, **SMALL, "groups": groups}
    optim = replace(config.optim, accumulate=1)
    run = replace(config.run, out=out, bf16=False, device="cpu", threads=1)
    small = replace(config, model=model, optim=optim, run=run, start=StartConfig())
    if not (config.summaries.share or config.stream.share):
        section = replace(config.passkey, batch=2, symbols=min(64, config.passkey.symbols))
        return replace(small, passkey=section)
    small = replace(small, start=StartConfig(tokenizer=text / "tokenizer.json"))
    if config.summaries.share:
        data = (text / "summaries.jsonl",)
        summaries = SummariesConfig(share=config.summaries.share, data=data, chunks=4, batch=2)
        small = replace(small, summaries=summaries)
    if config.stream.share:
        corpus, tokens = (text / "corpus.jsonl",), text / "shards"
        stream = StreamConfig(share=config.stream.share, corpus=corpus, tokens=tokens, chunks=4)
        small = replace(small, stream=stream)
    return small


FILES = [n for n, name in enumerate(CONFIGS) if not name.startswith("table")]


@pytest.mark.few(2)
# Runs of the tables' studies are made of the same settings.
@pytest.mark.parametrize("name", sampled(CONFIGS, FILES[::3], thorough=FILES))
def test_every_configuration_takes_two_steps(
    name: str, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vectors(chunks: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
        """In the place of the frozen encoder, which is the model that the package ships."""
        return torch.nn.functional.normalize((chunks * valid).float() + 1, dim=-1)

    def add(model: object, *_: object, **__: object) -> None:
        if isinstance(model, DRT) and model.config.retriever == "fixed":
            model.chunk_vectors = vectors

    monkeypatch.setattr("drt_lab.train.run.add_retriever", add)
    monkeypatch.setattr(Loop, "save", lambda loop, **_: None)
    config = _small(CONFIGS[name], text, tmp_path)
    torch.manual_seed(0)
    model, tokenizer = start(config)
    only = config.optim.only or ("",)
    weights = [weight for name, weight in model.named_parameters() if name.startswith(only)]
    before = [weight.detach().clone() for weight in weights]
    losses = Loop(config, model, tokenizer).run(until=2)
    assert len(losses) == 2 and all(0 < loss < 20 for loss in losses)
    assert any(not torch.equal(*pair) for pair in zip(weights, before, strict=True))
