"""One step of the loop: fresh noise for every choice, rows from different places, gradients that
are averaged and clipped.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from drt_engine.model import drt as model_module
from drt_engine.model import selection
from drt_engine.model.selection import Selection
from drt_lab.config.train import OptimConfig, RunConfig, StreamConfig, TrainConfig
from drt_lab.train.copying import Rows
from drt_lab.train.loop import Loop
from drt_lab.train.metrics import read_metrics
from drt_lab.train.mixture import Drawn
from tests.engine.model.factories import fresh_model, make_model, small_like
from tests.fakes import byte_tokenizer
from tests.lab.train.corpora import ARTICLE, write_corpus

TOKENIZER = byte_tokenizer()
MODEL = small_like(chunk=16, vocab=TOKENIZER.vocab_size, upper_layers=2, groups=2)
CHUNKS, BATCH = 12, 2


@pytest.fixture(autouse=True)
def no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drt_lab.train.loop.plot", lambda run: None)


def stage(folder: Path, *, gumbel: bool = True, **optim: object) -> TrainConfig:
    folder.mkdir(exist_ok=True)
    corpus = write_corpus(folder, *[ARTICLE[at:] for at in range(20)])
    return TrainConfig(
        optim=OptimConfig(**{"steps": 2, "accumulate": 2, **optim}),  # type: ignore[arg-type]
        stream=StreamConfig(share=1.0, corpus=(corpus,), chunks=CHUNKS, batch=BATCH),
        run=RunConfig(out=folder / "run", bf16=False, gumbel=gumbel, log_every=1),
    )


def loop(config: TrainConfig) -> Loop:
    return Loop(config, fresh_model(MODEL), TOKENIZER)


@pytest.fixture
def noises(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Tensor]]:
    """All noise that is drawn."""
    drawn: list[Tensor] = []
    real = selection.gumbel_noise

    def gumbel_noise(shape: torch.Size, generator: torch.Generator) -> Tensor:
        drawn.append(real(shape, generator))
        return drawn[-1]

    monkeypatch.setattr(selection, "gumbel_noise", gumbel_noise)
    yield drawn


@pytest.mark.thorough
def test_every_group_batch_and_step_of_streams_has_noise_of_its_own(
    tmp_path: Path, noises: list[Tensor]
) -> None:
    loop(stage(tmp_path / "noisy")).run()
    assert len(noises) == 2 * 2 * 2  # steps, batches of a step, groups
    assert all(noise.shape == (BATCH, CHUNKS, CHUNKS) for noise in noises)
    every = torch.stack(noises)
    assert len(every.flatten(0, 2).unique(dim=0)) == 8 * BATCH * CHUNKS  # no two rows the same
    assert abs(every.mean() - 0.5772) < 0.1 and abs(every.var() - 1.645) < 0.2
    noises.clear()
    loop(stage(tmp_path / "clean", gumbel=False)).run()
    assert noises == []


def chosen(config: TrainConfig, noise: int | None, monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """What the groups of a model choose on the first batch of a stage."""
    choices: list[Tensor] = []
    real = selection.select

    def select(*args: Tensor, **options: torch.Generator) -> Selection:
        choice = real(*args, **options)  # type: ignore[arg-type]
        choices.append(choice.index)
        return choice

    made = loop(config)
    rows = made.tasks.make("stream", random.Random(0)).batch
    with monkeypatch.context() as patch, torch.no_grad():
        patch.setattr(model_module, "select", select)
        made.tasks.loss(make_model(MODEL), Drawn("stream", rows, noise))
    return choices


@pytest.mark.thorough
def test_noise_changes_what_streams_retrieve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = stage(tmp_path)
    choices = [chosen(config, noise, monkeypatch) for noise in (None, None, 1, 2)]
    assert len(choices[0]) == MODEL.groups
    clean, again, *noisy = [torch.stack(choice) for choice in choices]
    assert torch.equal(clean, again)
    for one, other in itertools.combinations([clean, *noisy], 2):
        assert (one != other).any(dim=(1, 2, 3)).all()  # in every group


def test_rows_of_a_batch_are_different_text(tmp_path: Path) -> None:
    made = loop(stage(tmp_path))
    for number in range(5):
        rows = made.tasks.draw(random.Random(number)).batch
        assert isinstance(rows, Rows) and rows.chunks.shape == (BATCH, CHUNKS, MODEL.chunk)
        assert len({tuple(row) for row in rows.chunks.flatten(1).tolist()}) == BATCH


@pytest.fixture
def gradients(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[list[Tensor]]]]:
    """What each step of AdamW is given, by parameter group."""
    given: list[list[list[Tensor]]] = []
    real = torch.optim.AdamW.step

    def step(self: torch.optim.AdamW, *args: object) -> object:
        groups = [[p.grad for p in g["params"] if p.grad is not None] for g in self.param_groups]
        given.append([[gradient.clone() for gradient in group] for group in groups])
        return real(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(torch.optim.AdamW, "step", step)
    yield given


def norm(tensors: list[Tensor]) -> float:
    return float(torch.stack([tensor.norm() for tensor in tensors]).norm())


def test_gradients_of_a_step_are_the_mean_of_its_batches(
    tmp_path: Path, gradients: list[list[list[Tensor]]]
) -> None:
    config = stage(tmp_path / "loop", clip=1e9, steps=1)
    losses = loop(config).run()
    by_hand = loop(replace(config, run=replace(config.run, out=tmp_path / "hand")))
    expected = 0.0
    for part in range(2):
        drawn = by_hand.tasks.draw(random.Random(f"{config.run.seed}/0/{part}"))
        loss, _ = by_hand.tasks.loss(by_hand.model, drawn)
        (loss / 2).backward()  # type: ignore[no-untyped-call]
        expected += float(loss.detach()) / 2
    assert losses == [pytest.approx(expected)]
    (step,) = gradients
    groups = by_hand.optimizer.param_groups
    wanted = [p.grad for group in groups for p in group["params"] if p.grad is not None]
    assert norm(wanted) > 0
    for actual, value in zip(itertools.chain(*step), wanted, strict=True):
        torch.testing.assert_close(actual, value)


@pytest.mark.thorough
def test_gradients_are_clipped_group_by_group(
    tmp_path: Path, gradients: list[list[list[Tensor]]]
) -> None:
    whole = loop(stage(tmp_path / "whole", clip=1e9, steps=1))
    whole.run()
    norms = [norm(group) for group in gradients[0]]
    limit = sorted(norms)[len(norms) // 2]
    assert min(norms) < limit < max(norms)  # some groups are above it and some below
    clipped = loop(stage(tmp_path / "clipped", clip=limit, steps=1))
    clipped.run()
    for group, uncut, before in zip(gradients[1], gradients[0], norms, strict=True):
        assert norm(group) == pytest.approx(min(before, limit), rel=1e-4)
        for actual, value in zip(group, uncut, strict=True):
            torch.testing.assert_close(actual, value * min(1.0, limit / before))
    for run in (whole, clipped):  # what is logged is the norm before
        (row,) = read_metrics(run.metrics.path)
        assert row["norm"] == pytest.approx(norm(list(itertools.chain(*gradients[0]))), rel=1e-3)
