"""Training on another device than the CPU: nothing stays behind, and a run goes on elsewhere."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from drt_engine.errors import ConfigError
from drt_engine.model.drt import DRT
from drt_lab.config.train import (
    ClozeConfig,
    NeedlesConfig,
    OptimConfig,
    QuestionsConfig,
    RunConfig,
    StreamConfig,
    TrainConfig,
)
from drt_lab.train.loop import Loop
from drt_lab.train.mixture import TaskMixture
from drt_lab.train.run import device
from tests.engine.model.factories import make_model
from tests.engine.model.test_warm_start import bert_tensors, config, folder
from tests.fakes import wordpiece_tokenizer
from tests.lab.data.test_clozes import TEXT
from tests.lab.train.corpora import write_corpus, write_questions
from tests.lab.train.far import FAR, Far, far_device, sent
from tests.sampling import sampled

TASKS = ("questions", "needles", "cloze", "stream")


def stage(root: Path, task: str) -> TrainConfig:
    """A stage of one task alone, with what the task can do."""
    qa, docs = write_questions(root)
    corpus = (write_corpus(root, TEXT * 4),)
    small = {"window": 4, "retrieved": 2}
    questions = QuestionsConfig(
        share=float(task == "questions"),
        qa=(qa,),
        docs=(docs,),
        questions=2,
        pool=8,
        more=2,
        hidden=0.5,
        teacher=folder(root / "bert", bert_tensors()),
        **small,  # type: ignore[arg-type]
    )
    sections = {
        "needles": NeedlesConfig(1.0, corpus, needles=2, window=16, retrieved=2, two_hops=0.7),
        "cloze": ClozeConfig(1.0, corpus, questions=2, more=2, windows=1, **small),  # type: ignore[arg-type]
        "stream": StreamConfig(1.0, corpus, chunks=3, batch=2),
    }
    chosen = {name: section for name, section in sections.items() if name == task}
    return TrainConfig(
        optim=OptimConfig(steps=4),
        questions=questions,
        run=RunConfig(out=root / "run", bf16=False, device="cpu"),
        **chosen,  # type: ignore[arg-type]
    )


def model(**changes: object) -> DRT:
    return make_model(replace(config(), chunk=32, lower_layers=1, upper_layers=1, **changes))  # type: ignore[arg-type]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "bert").mkdir()
    return tmp_path


@pytest.mark.few(1)
@pytest.mark.parametrize("task", sampled(TASKS, {3}, thorough={0}))
def test_no_tensor_stays_behind(root: Path, monkeypatch: pytest.MonkeyPatch, task: str) -> None:
    here, there = model(), model()
    tokenizer, made = wordpiece_tokenizer(root), stage(root, task)
    near = TaskMixture(made, here.config, tokenizer)
    wanted, values = near.loss(here, near.draw(random.Random(1)))
    wanted.backward()  # type: ignore[no-untyped-call]
    far = TaskMixture(made, here.config, tokenizer)
    far.device = FAR
    with far_device(monkeypatch):
        sent(there)
        if far.teacher is not None:
            sent(far.teacher.model)
        loss, again = far.loss(there, far.draw(random.Random(1)))
        loss.backward()  # type: ignore[no-untyped-call]
    assert isinstance(loss, Far)
    torch.testing.assert_close(loss.inner, wanted)
    assert again.keys() == values.keys()
    for (name, one), other in zip(here.named_parameters(), there.parameters(), strict=True):
        if one.grad is not None:
            assert isinstance(other.grad, Far), name
            torch.testing.assert_close(other.grad.inner, one.grad, msg=name)


def test_the_pretended_device_notices_what_stays_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    with far_device(monkeypatch):
        there = torch.zeros(3, device=FAR)
        assert (there + torch.ones(3).to(FAR) * torch.tensor(2.0)).tolist() == [2.0] * 3
        with pytest.raises(RuntimeError, match="mixes devices"):
            there + torch.ones(3)
        with pytest.raises(RuntimeError, match="mixes devices"):
            there[torch.tensor([0, 1])]


def test_a_device_that_is_not_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device(RunConfig()) == device(RunConfig(device="cpu")) == torch.device("cpu")
    with pytest.raises(ConfigError, match=r"no CUDA device; set run\.device=cpu"):
        device(RunConfig(device="cuda"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert device(RunConfig()).type == "cuda"


@pytest.mark.thorough
def test_a_run_stops_at_its_limit_and_goes_on(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drt_lab.train.loop.plot", lambda run: None)
    made = stage(root, "stream")
    tokenizer = wordpiece_tokenizer(root)
    whole = replace(made, run=replace(made.run, out=root / "whole"))
    losses = Loop(whole, model(), tokenizer).run()
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    limited = replace(made, run=replace(made.run, limit_minutes=2.0))
    cut = Loop(limited, model(), tokenizer)
    step = cut._one_step

    def minute() -> float:
        now[0] += 61.0
        return step()

    monkeypatch.setattr(cut, "_one_step", minute)
    first = cut.run()
    assert len(first) == cut.step == 2
    # The schedule counts steps: what follows is what would have followed.
    assert first + Loop(made, model(), tokenizer).run() == losses
    with pytest.raises(ConfigError, match=r"limit_minutes is 0, expected above 0"):
        RunConfig(limit_minutes=0)


@pytest.mark.gpu
@pytest.mark.parametrize("task", TASKS)
def test_a_run_on_a_gpu_goes_on_on_the_cpu(root: Path, task: str) -> None:
    sizes = {"heads": 1, "kv_heads": 1}  # the kernels take heads of 16 and more
    tokenizer, made = wordpiece_tokenizer(root), stage(root, task)
    made = replace(made, run=replace(made.run, device="cuda", workers=2))
    cuda = Loop(made, model(**sizes).to(device(made.run)), tokenizer)
    near = replace(made, run=replace(made.run, out=root / "cpu", device="cpu"))
    wanted = Loop(near, model(**sizes), tokenizer).run(until=4)
    first = cuda.run(until=3)
    assert first == pytest.approx(wanted[:3], rel=2e-2)
    moved = Loop(made, model(**sizes), tokenizer)
    assert moved.step == 3
    for name, tensor in cuda.model.state_dict().items():
        assert torch.equal(moved.model.state_dict()[name], tensor.cpu()), name
    one, other = (x.optimizer.state_dict()["state"] for x in (cuda, moved))
    assert one.keys() == other.keys()
    for number, slots in one.items():
        for name, value in slots.items():
            assert torch.equal(value.cpu(), other[number][name].cpu()), (number, name)
    assert moved.run(until=4) == pytest.approx(cuda.run(until=4), rel=2e-2)
    assert moved.step == 4
