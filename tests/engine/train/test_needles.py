"""Needle batches for training, and questions whose evidence is hidden."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch

from drt_engine.errors import ConfigError
from drt_engine.train.needles import NeedleSource
from drt_engine.train.questions import hide_evidence
from tests.engine.model.factories import small_like
from tests.engine.train.batches import make_batch
from tests.fakes import byte_tokenizer

CONFIG = small_like(chunk=64)
PROSE = "The tide turns at noon. A boat leaves the pier and the gulls follow it. Rain is near. "


@pytest.fixture
def source(tmp_path: Path) -> NeedleSource:
    file = tmp_path / "corpus.jsonl"
    file.write_text(json.dumps({"text": PROSE * 80}) + "\n")
    return NeedleSource([file], tokenizer=byte_tokenizer(), config=CONFIG)


def test_the_evidence_of_a_needle_is_its_answer(source: NeedleSource) -> None:
    batch = source.batch(random.Random(1), needles=4, window=12, distractors=1)
    assert len(batch.questions) == 4 and len(batch.windows) == 4
    for row, answer in enumerate(batch.answers):
        first, last = batch.spans[row, 0].tolist()
        found = batch.ids.view(-1)[first : last + 1].tolist()
        assert byte_tokenizer().decode(found).strip().startswith(byte_tokenizer().decode(answer))
        assert batch.gold[row, first // CONFIG.chunk]
    assert (batch.answerable == 1).all()


def test_needles_depend_on_the_seed_alone(source: NeedleSource) -> None:
    one, same, other = (
        source.batch(random.Random(seed), needles=2, window=8, distractors=1) for seed in (3, 3, 4)
    )
    assert torch.equal(one.ids, same.ids) and one.questions == same.questions
    assert one.questions != other.questions


def test_an_empty_corpus_is_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "empty.jsonl"
    file.write_text("")
    with pytest.raises(ConfigError, match="holds no documents"):
        NeedleSource([file], tokenizer=byte_tokenizer(), config=CONFIG)


def test_hidden_evidence_cannot_be_retrieved() -> None:
    batch = make_batch(CONFIG)
    hidden = hide_evidence(batch, random.Random(0), 1.0)
    assert hidden.allowed is not None
    for row in range(len(batch.questions)):
        if batch.answerable[row] != 1:
            assert hidden.allowed[row].all()
            continue
        assert not (hidden.allowed[row] & batch.gold[row]).any()
        assert not hidden.gold[row].any() and hidden.answerable[row] == 0
        assert (hidden.spans[row] == -1).all() and hidden.answers[row] == []
    untouched = hide_evidence(batch, random.Random(0), 0.0)
    assert torch.equal(untouched.gold, batch.gold) and untouched.answers == batch.answers
