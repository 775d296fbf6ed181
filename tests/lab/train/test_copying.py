"""The loss in which retrieval is learnt: weights of far copies, labels of the scores."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch

from drt_lab.config.train import RecordsConfig, TrainConfig
from drt_lab.data.passkeys import symbol_tokenizer
from drt_lab.lm.build import make_model as make_language_model
from drt_lab.lm.losses import stream_loss
from drt_lab.train.copying import (
    Rows,
    Weights,
    counted_rows,
    label_loss,
    rows_loss,
    score_deviation,
)
from drt_lab.train.tasks.base import TaskSetup
from drt_lab.train.tasks.records import RecordsTask
from tests.engine.model.factories import fresh_model, full, make_model, tiny

MODEL = tiny(vocab=40, window=8)
SECTION = RecordsConfig(share=1.0, symbols=40, names=4, chunks=(10, 12), batch=2, labels=0.5)


def rows(weights: Weights) -> Rows:
    task = make_task()
    return counted_rows(task.draw(random.Random(1)).chunks, weights, window=MODEL.window)


def make_task(**changes: object) -> RecordsTask:
    section = replace(SECTION, **changes)  # type: ignore[arg-type]
    return RecordsTask(TaskSetup(TrainConfig(records=section), MODEL, symbol_tokenizer(40)))


def test_far_copies_weigh_as_asked() -> None:
    model = make_model(MODEL)
    batch = rows(Weights(rest=0.0))
    assert batch.far is not None and batch.labels is None and batch.far.any()
    losses, mask = stream_loss(model, batch.chunks, full(batch.chunks))
    each = torch.full(mask.shape, float("nan"))
    each[mask] = losses.detach()
    each = each[:, :, :-1].flatten(1)  # the loss after each token
    far = batch.far.flatten(1)[:, 1:]
    copies, others = each[:, :-1][far].mean(), each[:, :-1][~far].mean()
    loss, values = rows_loss(model, batch, None, Weights(rest=0.0))
    assert float(loss.detach()) == pytest.approx(float(copies), rel=1e-5)
    assert values["far"] == pytest.approx(float(copies), rel=1e-5)
    share = 3 * far.sum() / (3 * far.sum() + (~far).sum())
    weighted, _ = rows_loss(model, batch, None, Weights(far=3.0))
    expected = float(share * copies + (1 - share) * others)
    assert float(weighted.detach()) == pytest.approx(expected, rel=1e-5)
    plain, values = rows_loss(model, rows(Weights()), None, Weights())
    assert float(plain.detach()) == pytest.approx(float(losses.detach().mean()))
    assert list(values) == ["lm"]


def test_labels_teach_the_scores_of_each_group() -> None:
    scores = torch.zeros(1, 4, 4)
    labels = torch.zeros(1, 4, 4, dtype=torch.bool)
    labels[0, 2, 0] = labels[0, 3, 1] = True
    # Two and three chunks are allowed, all alike.
    expected = (torch.tensor(2.0).log() + torch.tensor(3.0).log()) / 2
    assert torch.isclose(label_loss([scores, scores], labels), expected)
    sure = scores.clone()
    sure[0, 2, 0] = sure[0, 3, 1] = 20.0
    sure[0, :, 3] = 100.0  # a chunk that none may retrieve
    assert float(label_loss([sure], labels)) < 1e-6
    assert float(label_loss([sure], torch.zeros_like(labels))) == 0
    assert score_deviation([sure]) > 5 and score_deviation([scores[:, :2]]) == 0


def test_labels_reach_the_scorer_and_others_learn_without_them() -> None:
    model, task = make_model(MODEL), make_task()
    batch = task.draw(random.Random(1))
    loss, values = task.loss(model, batch, torch.Generator().manual_seed(1))
    assert set(values) == {f"records_{n}" for n in ("lm", "far", "labels", "score_sd")}
    loss.backward()
    assert model.scorer.key.weight.grad is not None and model.scorer.key.weight.grad.any()
    base = make_language_model(tiny(vocab=40, architecture="base"))
    loss, values = task.loss(base, batch, None)
    assert set(values) == {"records_lm", "records_far"} and loss.requires_grad


@pytest.mark.thorough
def test_labels_teach_the_choice_within_a_hundred_steps() -> None:
    model = fresh_model(replace(MODEL, query_norm=True, width=64, mlp=64)).train()
    task = make_task(labels=1.0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    taught = []
    for step in range(100):
        loss, values = task.loss(model, task.draw(random.Random(step)), None)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        taught.append(values["records_labels"])
    assert sum(taught[-10:]) < 0.5 * sum(taught[:10])
