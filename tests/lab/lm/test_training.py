"""Every architecture through the one loop: it learns, resumes, is saved, and is measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from drt_engine.config.model import ARCHITECTURES
from drt_engine.errors import ConfigError
from drt_lab.config.train import (
    OptimConfig,
    QuestionsConfig,
    RunConfig,
    StartConfig,
    StreamConfig,
    TrainConfig,
)
from drt_lab.evaluate.run import evaluate, load_for
from drt_lab.train.loop import Loop
from drt_lab.train.mixture import TaskMixture
from drt_lab.train.run import start
from tests.engine.model.factories import tiny
from tests.fakes import byte_tokenizer
from tests.lab.train.corpora import ARTICLE
from tests.sampling import sampled

TOKENIZER = byte_tokenizer()
CHANGES: dict[str, dict[str, Any]] = {
    "block-recurrent": {"state_tokens": 4},
    "rpt": {"retriever": "random"},
}


@pytest.fixture(autouse=True)
def no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drt_lab.train.loop.plot", lambda run: None)


def stage(folder: Path, architecture: str) -> TrainConfig:
    """Four steps on a text that is in ``folder``."""
    corpus, tokens = folder / "corpus.jsonl", folder / "tokenizer.json"
    rows = [{"id": str(n), "title": "", "source": "x", "license": "x"} for n in range(3)]
    corpus.write_text("".join(json.dumps({**row, "text": ARTICLE}) + "\n" for row in rows))
    TOKENIZER.save(tokens)
    config = TrainConfig(
        model={"preset": "drt-tiny", "architecture": architecture, **CHANGES.get(architecture, {})},
        optim=OptimConfig(steps=4, lr=1e-2, accumulate=2, embedding_scale=1.0),
        stream=StreamConfig(share=1.0, corpus=(corpus,), chunks=6, batch=2),
        run=RunConfig(out=folder / "run", bf16=False, log_every=2),
    )
    return replace(config, start=StartConfig(tokenizer=tokens))


@pytest.mark.thorough
@pytest.mark.parametrize("architecture", sampled(ARCHITECTURES, {0}))
def test_it_learns_resumes_and_is_measured(architecture: str, tmp_path: Path) -> None:
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    losses = []
    for folder, stops in ((whole, [4]), (halves, [2, 4])):
        folder.mkdir()
        run: list[float] = []
        for stop in stops:
            torch.manual_seed(0)
            config = stage(folder, architecture)
            model, tokenizer = start(config)
            run += Loop(config, model, tokenizer).run(until=stop)
        losses.append(run)
    assert losses[0] == losses[1]
    assert losses[0][-1] < losses[0][0]

    runtime = load_for("ppl", whole / "run" / "model", device="cpu", threads=1, dtype="fp32")
    options = {"corpus": str(whole / "corpus.jsonl"), "length": 128}
    result = evaluate(runtime, "ppl", options)
    assert 1 < result["metrics"]["all"]["perplexity"] < TOKENIZER.vocab_size
    assert bool(result["baselines"]) == (architecture in ("drt", "rpt"))


def test_other_architectures_learn_from_streams_alone(tmp_path: Path) -> None:
    config = stage(tmp_path, "base")
    config = replace(config, questions=QuestionsConfig(share=0.5))
    with pytest.raises(ConfigError, match=r"questions.share is 0.5, but questions needs a DRT"):
        TaskMixture(config, tiny(architecture="base"), TOKENIZER)
