"""Clozes for the reader: targets are the span, other passages do not hold it."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from drt_engine.config.model import ReaderConfig
from drt_engine.errors import ConfigError
from drt_lab.config.train import ReaderClozeConfig, TrainConfig
from drt_lab.train.tasks.base import TaskSetup
from drt_lab.train.tasks.reader_cloze import ReaderClozeTask
from tests.engine.model.factories import fresh_model, small_like
from tests.fakes import byte_tokenizer
from tests.lab.data.test_clozes import TEXT

TOKENIZER = byte_tokenizer()
MODEL = small_like(
    chunk=64,
    vocab=TOKENIZER.vocab_size,
    reread=False,
    reread_relevance=False,
    reread_layers=0,
    reader=ReaderConfig(layers=1, heads=4, mlp=64, positions=400, margin=8, longest_question=200),
)


def task(folder: Path, **changes: Any) -> ReaderClozeTask:
    path = folder / "corpus.jsonl"
    path.write_text(json.dumps({"id": "1", "title": "t", "text": TEXT * 3}), encoding="utf-8")
    values = {"share": 1.0, "corpus": (path,), "questions": 6, "window": 12, "passages": (3,)}
    config = TrainConfig(reader_cloze=ReaderClozeConfig(**{**values, **changes}))
    return ReaderClozeTask(TaskSetup(config, MODEL, TOKENIZER))


def test_the_span_is_the_target_and_competes_with_passages_without_it(tmp_path: Path) -> None:
    made = task(tmp_path, hidden=0.0)
    for seed in range(4):
        batch = made.draw(random.Random(seed))
        assert batch.answered.all() and len(batch.answered) == 6
        for row in range(len(batch.question)):
            borders = [side[row].nonzero()[:, 0].tolist() for side in (batch.starts, batch.ends)]
            if borders[0] and len(borders[0]) == len(borders[1]):
                spans = [
                    TOKENIZER.decode(batch.pairs.ids[row, first : last + 1].tolist()).lower()
                    for first, last in zip(*borders, strict=True)
                    if batch.pairs.passage[row, first : last + 1].all()
                ]
                assert spans and len(spans[0]) > 1 and spans[0] in TEXT.lower()
    loss, values = made.loss(fresh_model(MODEL), batch, None)
    assert torch.isfinite(loss) and set(values) == {"reader_cloze_span"}
    assert float(loss.detach()) == pytest.approx(0.5 * values["reader_cloze_span"])


def test_hidden_evidence_is_no_answer(tmp_path: Path) -> None:
    batch = task(tmp_path, hidden=1.0).draw(random.Random(2))
    assert not batch.answered.all()


def test_a_batch_depends_on_the_seed_alone(tmp_path: Path) -> None:
    made = task(tmp_path)
    first, second = (made.draw(random.Random(5)) for _ in range(2))
    assert torch.equal(first.pairs.ids, second.pairs.ids)
    assert torch.equal(first.starts, second.starts)


def test_what_cannot_be_taught_is_refused(tmp_path: Path) -> None:
    config = TrainConfig(reader_cloze=ReaderClozeConfig(share=1.0))
    with pytest.raises(ConfigError, match="expected a model with"):
        ReaderClozeTask(TaskSetup(config, replace(MODEL, reader=None), TOKENIZER))
    with pytest.raises(ConfigError, match=r"reader_cloze\.corpus holds no documents"):
        ReaderClozeTask(TaskSetup(config, MODEL, TOKENIZER))
    with pytest.raises(ConfigError, match=r"reader_cloze\.passages"):
        ReaderClozeConfig(passages=())
    with pytest.raises(ConfigError, match=r"reader_cloze\.margins"):
        ReaderClozeConfig(margins=(-1,))
