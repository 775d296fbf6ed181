"""Measurements of models that are not trained, and plots."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from drt_engine.errors import ConfigError
from drt_lab.config.train import PasskeyConfig, RunConfig, TrainConfig
from drt_lab.lm.build import make_model
from drt_lab.study.compute import forward_flops
from drt_lab.study.measures import _forget_peak, measure
from drt_lab.study.plot import draw_plots
from drt_lab.study.table import Cell, Column, Row, Table
from tests.engine.model.factories import full, random_ids, tiny
from tests.sampling import sampled
from tests.tables import each_row

CONFIG = TrainConfig(
    model={"preset": "drt-tiny"},
    passkey=PasskeyConfig(share=1.0, symbols=48),
    run=RunConfig(bf16=False),
)


@pytest.mark.parametrize("architecture", ["drt", "base"])
def test_flops_by_formula_are_those_counted_but_for_masked_attention(architecture: str) -> None:
    # Here, since it imports Triton before the tests of kernels can choose its interpreter.
    from torch.utils.flop_counter import FlopCounterMode

    model = make_model(tiny(vocab=48, architecture=architecture))
    ids = random_ids(model.config, 1, 64, 8)
    with FlopCounterMode(display=False) as counter:
        model.logits(model(ids, full(ids))[:, :, :-1])
    # Blocks of attention also multiply what is masked: up to twice the window, all pairs of chunks.
    assert 0.5 < forward_flops(model, 512) / counter.get_total_flops() < 1


@pytest.mark.thorough
def test_shapes_of_billions_are_counted_without_memory() -> None:
    big = TrainConfig(model={"preset": "drt-3b"}, passkey=PasskeyConfig(share=1.0, symbols=512))
    result = measure("shape", big, {"lengths": "4k,16k"})["metrics"]
    assert 2e9 < result["4k"]["parameters"] == result["16k"]["parameters"] < 4e9
    assert result["16k"]["MFLOP a token"] > result["4k"]["MFLOP a token"] > 6 * 2000


@pytest.mark.few(1)
@pytest.mark.parametrize("memory", sampled(["device", "disk"], {1}))
def test_cost_of_a_token_and_its_state(memory: str) -> None:
    options = {"lengths": "64,512", "tokens": 10, "memory": memory}
    result = measure("cost", CONFIG, options)["metrics"]
    assert result["64"]["ms a token"] > 0
    growth = result["512"]["state MiB"] - result["64"]["state MiB"]
    # 56 chunks more: landmarks of 32 numbers, and in memory keys and values of 8 tokens beside.
    landmarks = 56 * 32 * 4 / 2**20
    assert growth == pytest.approx(landmarks * (1 if memory == "disk" else 9), rel=0.15)


def test_speed_of_training_steps() -> None:
    torch.manual_seed(0)
    result = measure("speed", CONFIG, {"lengths": "64", "repetitions": 1})["metrics"]
    assert result["64"]["tokens a second"] == pytest.approx(64 / result["64"]["seconds"])


@pytest.mark.thorough
def test_memory_of_a_gpu_is_counted_once_cuda_has_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A numbered device has no statistics before, unlike ``cuda``, which starts it."""
    calls: list[str] = []
    for name in ("init", "empty_cache", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, lambda *_, name=name: calls.append(name))
    _forget_peak(torch.device("cuda", 0))
    assert calls[0] == "init" and calls[-1] == "reset_peak_memory_stats"


@pytest.mark.gpu
@pytest.mark.parametrize("task", ["speed", "cost"])
def test_a_gpu_measures(task: str) -> None:
    config = replace(CONFIG, run=RunConfig(device="cuda"))
    result = measure(task, config, {"lengths": "256"})["metrics"]
    assert result["256"]["memory MiB"] > 0


@each_row(
    ("options", "message"),
    [
        ({"lengths": "1"}, "expected at least 2 tokens"),
        ({"tokens": 0}, "options of 1 or more"),
        ({"memory": "tape"}, "options.memory is 'tape', expected one of"),
    ],
)
def test_options_that_cannot_be(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        measure("cost", CONFIG, options)


def test_plots_of_lengths(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    columns = tuple(Column("ppl", group, "perplexity") for group in ("2k", "16k", "all"))
    cells = (Cell((3.0, 4.0)), Cell((2.0, 2.5)), Cell((2.2, 3.0)))
    table = Table("Table 1", columns, (Row("DRT", cells, (1, 2)), Row("none", (Cell(),) * 3)))
    assert draw_plots(table, tmp_path) == [tmp_path / "ppl.png"]
    assert (tmp_path / "ppl.png").stat().st_size > 1000
