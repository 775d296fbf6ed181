"""Needle batches for training, and questions whose evidence is hidden."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from drt_engine.errors import ConfigError
from drt_lab.config.train import NeedlesConfig, TrainConfig
from drt_lab.train.answering.batch import QuestionBatch
from drt_lab.train.tasks.base import TaskSetup
from drt_lab.train.tasks.needles import NeedlesTask
from drt_lab.train.tasks.questions import hide_evidence
from tests.engine.model.factories import small_like
from tests.fakes import byte_tokenizer
from tests.lab.train.answering.batches import make_batch

CONFIG = small_like(chunk=64)
PROSE = "The tide turns at noon. A boat leaves the pier and the gulls follow it. Rain is near. "


Draw = Callable[..., QuestionBatch]


def make_task(corpus: Path, **changes: Any) -> NeedlesTask:
    config = TrainConfig(needles=NeedlesConfig(1.0, (corpus,), **changes))
    return NeedlesTask(TaskSetup(config, CONFIG, byte_tokenizer()))


@pytest.fixture
def draw(tmp_path: Path) -> Draw:
    """Draw the batch of a seed."""
    file = tmp_path / "corpus.jsonl"
    file.write_text(json.dumps({"text": PROSE * 80}) + "\n")
    return lambda seed, **changes: make_task(file, **changes).draw(random.Random(seed))


def test_the_evidence_of_a_needle_is_its_answer(draw: Draw) -> None:
    batch = draw(1, needles=4, window=12, distractors=1)
    assert len(batch.questions) == 4 and len(batch.windows) == 4
    for row, answer in enumerate(batch.answers):
        first, last = batch.spans[row, 0].tolist()
        found = batch.ids.view(-1)[first : last + 1].tolist()
        assert byte_tokenizer().decode(found).strip().startswith(byte_tokenizer().decode(answer))
        assert batch.gold[row, first // CONFIG.chunk]
    assert (batch.answerable == 1).all()


def test_needles_depend_on_the_seed_alone(draw: Draw) -> None:
    first, same, different = (draw(seed, needles=2, window=8, distractors=1) for seed in (3, 3, 4))
    assert torch.equal(first.ids, same.ids) and first.questions == same.questions
    assert first.questions != different.questions


def decoded(batch: QuestionBatch, chunks: list[int]) -> str:
    return byte_tokenizer().decode(batch.ids[chunks][batch.valid[chunks]].tolist())


def test_both_statements_of_two_hops_must_be_retrieved(draw: Draw) -> None:
    size, seen, named = CONFIG.chunk, 0, 0
    batch = draw(2, needles=6, window=6, distractors=0, two_hops=1.0)
    assert batch.support is not None
    for row, (at, count) in enumerate(batch.windows):
        chunks = torch.nonzero(batch.support[row]).flatten().tolist()
        assert chunks and all(at <= chunk < at + count for chunk in chunks)
        first, last = batch.spans[row, 0].tolist()  # the quote is the answer, not the bridge
        gold = torch.nonzero(batch.gold[row]).flatten().tolist()
        assert gold == [*range(first // size, last // size + 1)]
        # The bridge holds the end of the question, who or what it is about; the answer does not.
        subject = byte_tokenizer().decode(batch.questions[row])[-12:-1]
        bridge, answer = (decoded(batch, one) for one in (chunks, gold))
        named += subject in bridge and subject not in answer
        seen += bool((batch.support[row] & ~batch.gold[row]).any())
    assert seen >= 4 and named >= 2  # as a rule


def test_no_needle_of_one_hop_needs_support(draw: Draw) -> None:
    one = draw(3, needles=2, window=6, distractors=1)
    assert one.support is None
    some = draw(3, needles=8, window=6, distractors=0, two_hops=0.5)
    assert some.support is not None
    assert 0 < int(some.support.any(dim=1).sum()) < 8
    assert torch.equal(some.rows(1, 4).support, some.support[1:4])  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"two_hops is 1\.5, expected a share in 0\.\.1"):
        NeedlesConfig(two_hops=1.5)


def test_an_empty_corpus_is_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "empty.jsonl"
    file.write_text("")
    with pytest.raises(ConfigError, match="holds no documents"):
        make_task(file)


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
