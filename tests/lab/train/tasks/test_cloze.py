"""Batches of cloze questions: some are read for, others only retrieve."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from drt_engine.errors import ConfigError
from drt_lab.config.train import ClozeConfig, TrainConfig
from drt_lab.train.tasks.base import TaskSetup
from drt_lab.train.tasks.cloze import ClozeTask
from tests.engine.model.factories import small_like
from tests.fakes import byte_tokenizer
from tests.lab.data.test_clozes import TEXT


def make_task(corpus: Path, **changes: Any) -> ClozeTask:
    config = TrainConfig(cloze=ClozeConfig(1.0, (corpus,), recurring=0.5, window=12, **changes))
    return ClozeTask(TaskSetup(config, small_like(chunk=64), byte_tokenizer()))


def task(folder: Path, **changes: Any) -> ClozeTask:
    path = folder / "corpus.jsonl"
    rows = [{"id": str(i), "title": "t", "text": TEXT * 3} for i in range(3)]
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return make_task(path, **changes)


def test_a_batch_reads_for_some_and_only_retrieves_for_others(tmp_path: Path) -> None:
    batch = task(tmp_path, questions=4, more=6, windows=2).draw(random.Random(1))
    assert batch.readers == 4 < len(batch.questions)
    assert batch.gold.any(dim=1).all()
    assert (batch.answerable == 1).all()
    tokens = batch.ids.view(-1)
    tokenizer = byte_tokenizer()
    for question, answer, spans in zip(
        batch.questions, batch.answers, batch.spans.tolist(), strict=True
    ):
        wanted = tokenizer.decode(answer).lower()
        for first, last in spans:
            if first >= 0 and last >= 0 and len(question) + len(answer) < 62:
                assert tokenizer.decode(tokens[first : last + 1].tolist()).lower() == wanted


def test_a_batch_depends_on_the_seed_alone(tmp_path: Path) -> None:
    made = task(tmp_path, questions=2, more=2, windows=1)
    first, second = (made.draw(random.Random(5)) for _ in range(2))
    assert torch.equal(first.ids, second.ids)
    assert first.questions == second.questions


def test_an_empty_corpus_is_refused(tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text("")
    with pytest.raises(ConfigError, match=r"cloze\.corpus holds no documents"):
        make_task(tmp_path / "none.jsonl")
