"""The plan of a training: shards as FSDP2 cuts them, activations by layer, predicted rates."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from drt_engine.config.model import preset
from drt_engine.errors import ConfigError
from drt_engine.model.drt import DRT
from drt_engine.model.weights import empty_model
from drt_lab.bench import plan
from drt_lab.bench.parts import Machine
from drt_lab.bench.run import bench
from drt_lab.evaluate.report import bench_row
from tests.engine.model.factories import tiny
from tests.tables import each_row

CPU = Machine(torch.device("cpu"), torch.float32)


def test_shards_are_rows_rounded_up_and_scalars_whole() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Linear(5, 4, bias=False))
    model.register_parameter("scale", torch.nn.Parameter(torch.zeros(())))
    sizes = plan.ShardSizes.of(model, 2)
    # 5 x 3 is cut to 3 x 3, its bias to 3, 4 x 5 to 2 x 5; all in fp32
    assert (sizes.whole, sizes.shards) == (4 * (15 + 5 + 20 + 1), 4 * (9 + 3 + 10 + 1))
    assert plan.ShardSizes.of(model, 1) == plan.ShardSizes(sizes.whole, sizes.whole, 0)


@each_row(("name", "millions"), [("drt-350m", 350), ("drt-760m", 760), ("drt-1.5b", 1500)])
def test_parameters_of_presets_without_memory(name: str, millions: int) -> None:
    sizes = plan.ShardSizes.of(empty_model(DRT, preset(name)), 8)
    assert sizes.whole / 4e6 == pytest.approx(millions, rel=0.35)
    assert sizes.whole / 8 <= sizes.shards < sizes.whole / 7.9
    assert sizes.gathered < sizes.whole / 3


@pytest.mark.slow
def test_activations_grow_with_each_kind_of_layer() -> None:
    config = replace(tiny(), lower_layers=1, upper_layers=1)
    least = plan.activation_bytes(config, CPU, "nothing")
    more = replace(config, lower_layers=3)
    assert least > 0 and plan.activation_bytes(more, CPU, "nothing") > least
    assert plan.activation_bytes(more, CPU, "layers") < plan.activation_bytes(more, CPU, "nothing")


@pytest.mark.thorough
def test_the_rows_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        plan, "_rates", lambda *_: ([bench_row("predicted", [1.0], unit="tokens/s")], 1e12)
    )
    options = {"plan": "drt-tiny", "ranks": 2, "tokens": 512, "flops": 1e12, "device": "cpu"}
    report = bench("train", options)
    sizes = {row["name"]: row["median"] for row in report["rows"]}
    parts = [value for name, value in sizes.items() if name.startswith("per rank")][:4]
    kept = sizes["per rank: activations, all kept"]
    assert sizes["per rank: together, all kept"] == pytest.approx(sum(parts) + kept)
    assert report["calibration"]["ranks"] == 2 and not report["calibration"]["matmul_measured"]


@each_row(
    ("name", "options", "problem"),
    [
        ("train", {"plan": "drt-9b"}, "drt-9b"),
        ("train", {"ranks": 2}, "of a plan"),
        ("train", {"plan": "drt-tiny", "ranks": 0}, "ranks is 0"),
        ("train", {"plan": "drt-tiny", "flops": -1.0}, "flops is -1"),
        ("ask", {"plan": "drt-tiny"}, "ask has no plan"),
    ],
)
def test_plans_that_cannot_be(name: str, options: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        bench(name, options)
