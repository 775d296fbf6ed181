"""Rows that `drt bench models` has kept are those of the hardware that they were measured on."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import torch

from drt_engine.config.model import preset
from drt_lab.bench import models
from drt_lab.bench.parts import BenchOptions, Machine
from drt_lab.bench.sitting import Sitting
from drt_lab.evaluate.report import BenchRow, bench_row

ROWS = [bench_row("base LM, a token after 1k", [2.0], unit="ms")]


def sitting(file: Path, name: str) -> Sitting:
    """A sitting at the results ``file`` on a processor of this name."""
    machine = Machine(torch.device("cpu"), torch.float32)
    with mock.patch.object(models, "hardware", lambda _: name):
        comparison = models._Comparison(preset("drt-tiny"), machine, BenchOptions(results=file))
    return comparison._sitting


def measured(file: Path, name: str) -> list[BenchRow] | None:
    return sitting(file, name).measured("token 1024 base LM")


def test_rows_of_another_processor_are_not_those_of_this_one(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    sitting(file, "slow, AVX2").add("token 1024 base LM", ROWS)
    assert measured(file, "fast, AVX512") is None
    assert measured(file, "slow, AVX2") == ROWS
    sitting(file, "fast, AVX512").add("token 1024 base LM", ROWS)
    assert len(json.loads(file.read_text())["units"]) == 2


def test_a_file_from_before_hardware_was_recorded_is_read_and_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    sitting(file, "fast").add("token 1024 base LM", ROWS)
    data = json.loads(file.read_text())
    del data["units"][0]["setting"]["hardware"]
    file.write_text(json.dumps(data))
    assert measured(file, "fast") is None  # of some machine
    sitting(file, "fast").add("token 1024 base LM", ROWS)
    assert json.loads(file.read_text())["units"][0] == data["units"][0]
    assert measured(file, "fast") == ROWS


def test_hardware_has_a_name(tmp_path: Path) -> None:
    file, cpu = tmp_path / "cpuinfo", torch.device("cpu")
    file.write_text("processor\t: 0\nmodel name\t: Made Up 9000: 2nd\nflags\t\t: fpu vme\n")
    instructions = torch.backends.cpu.get_cpu_capability()
    assert models.hardware(cpu, file) == f"Made Up 9000: 2nd, {instructions}"
    assert models.hardware(cpu, tmp_path / "none").endswith(f", {instructions}")
    with mock.patch.object(torch.cuda, "get_device_name", lambda _: "NVIDIA H100"):
        assert models.hardware(torch.device("cuda", 0)) == "NVIDIA H100"
