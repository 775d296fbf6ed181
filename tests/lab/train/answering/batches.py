"""A small batch of questions made by hand over a pool of two windows."""

from __future__ import annotations

from dataclasses import replace

import torch

from drt_engine.config.model import ModelConfig
from drt_lab.train.answering.batch import QuestionBatch
from tests.engine.model.factories import random_ids, small_like

CONFIGS = {
    "small": small_like(),
    "two-groups": small_like(groups=2),
    "mlp": small_like(gca_output="mlp", question_states=False, landmark_query="state"),
    "no-lower": small_like(lower_layers=0),
}


def make_batch(config: ModelConfig, lengths: tuple[int, ...] = (3, 6, 1)) -> QuestionBatch:
    """Three questions over windows of 4 and 3 chunks; the last chunk of each is partial."""
    size, pool = config.chunk, 7
    ids = random_ids(config, pool, size, seed=11)
    valid = torch.ones(pool, size, dtype=torch.bool)
    valid[3, 5:] = valid[6, 2:] = False
    ids[~valid] = config.pad_id
    count = len(lengths)
    gold = torch.zeros(count, pool, dtype=torch.bool)
    spans = torch.full((count, 2, 2), -1)
    answerable = torch.zeros(count, dtype=torch.long)
    if count > 0:
        gold[0, 1], answerable[0] = True, 1
        spans[0, 0] = torch.tensor([size + 2, size + 4])
    if count > 1:
        gold[1, 4:6], answerable[1] = True, 1
        spans[1] = torch.tensor([[4 * size + 6, 5 * size + 1], [5 * size + 3, 5 * size + 3]])
    generator = torch.Generator().manual_seed(5)
    return QuestionBatch(
        windows=[(0, 4), (4, 3)],
        ids=ids,
        valid=valid,
        window_of=torch.tensor([0, 0, 0, 0, 1, 1, 1]),
        questions=[random_ids(config, n, seed=20 + n).tolist() for n in lengths],
        answers=[random_ids(config, 1, seed=30 + n).tolist() for n in lengths],
        lexical=torch.rand(count, pool, generator=generator),
        gold=gold,
        spans=spans,
        answerable=answerable,
    )


def only(batch: QuestionBatch, row: int) -> QuestionBatch:
    """The batch with one of its questions, on the same pool."""
    rows = slice(row, row + 1)
    return replace(
        batch,
        questions=batch.questions[rows],
        answers=batch.answers[rows],
        lexical=batch.lexical[rows],
        gold=batch.gold[rows],
        spans=batch.spans[rows],
        answerable=batch.answerable[rows],
    )


def without_evidence(batch: QuestionBatch) -> QuestionBatch:
    """The batch with no known evidence, so that nothing is forced among the retrieved."""
    return replace(batch, gold=torch.zeros_like(batch.gold))
