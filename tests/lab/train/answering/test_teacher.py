"""The landmark teacher is the warm start's own model: mean states of ``[CLS] tokens [SEP]``."""

from __future__ import annotations

from pathlib import Path

import torch

from drt_lab.train.answering.losses import answer_losses
from drt_lab.train.answering.teacher import LandmarkTeacher, distance
from tests.engine.model.factories import make_model, small_like
from tests.engine.model.test_warm_start import bert, bert_tensors, config, folder
from tests.lab.train.answering.batches import make_batch

CLS, SEP = 101, 102


@torch.no_grad()
def test_landmarks_are_those_of_the_source(tmp_path: Path) -> None:
    tensors = bert_tensors()
    teacher = LandmarkTeacher(folder(tmp_path, tensors), config())
    ids = torch.tensor([[7, 9, 11, 0], [8, 5, 6, 4]])
    valid = torch.tensor([[True, True, True, False], [True] * 4])
    found = teacher.landmarks(ids, valid)
    for row, length in ((0, 3), (1, 4)):
        whole = torch.tensor([CLS, *ids[row, :length].tolist(), SEP])
        wanted = bert(whole, tensors, first=0).mean(0)
        torch.testing.assert_close(found[row], wanted, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(teacher.questions([[7, 9, 11], [8, 5, 6, 4]]), found)


def test_the_loss_pulls_landmarks_towards_the_teacher(tmp_path: Path) -> None:
    teacher = LandmarkTeacher(folder(tmp_path, bert_tensors()), config())
    assert not any(p.requires_grad for p in teacher.model.parameters())
    wanted = torch.randn(3, 16)
    landmarks = torch.randn(3, 16, requires_grad=True)
    before = distance(landmarks, wanted)
    before.backward()  # type: ignore[no-untyped-call]
    assert landmarks.grad is not None
    assert distance(landmarks - landmarks.grad, wanted) < before
    assert float(distance(wanted, wanted)) < 1e-6


def test_without_a_teacher_nothing_is_pulled() -> None:
    model = make_model(small_like(quote_head=True, reread=True))
    batch = make_batch(model.config)
    assert float(answer_losses(model, batch, count=2, generator=None).teacher) == 0.0
