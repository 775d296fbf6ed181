"""Benchmarks with a tiny model: shapes, ratios, and what is counted."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from drt_engine.config.model import preset
from drt_engine.errors import ConfigError
from drt_engine.model.drt import DRT
from drt_engine.runtime import Runtime
from drt_lab.bench import ask, ingest, parts
from drt_lab.bench.ingest import read_flops
from drt_lab.bench.parts import ProcessTimes, generated_text, run_process
from drt_lab.bench.run import bench
from tests.tables import each_row


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The processes a benchmark would start, each of which takes two seconds."""
    started: list[list[str]] = []

    def fake(command: list[str]) -> ProcessTimes:
        started.append(command)
        return ProcessTimes(1.5, 2.0, 300_000_000)

    monkeypatch.setattr(ask, "run_process", fake)
    monkeypatch.setattr(ingest, "run_process", fake)
    monkeypatch.setattr(parts, "_SIDE", 64)
    return started


def _options(model_folder: Path, **more: object) -> dict[str, object]:
    shared = {"model": model_folder, "device": "cpu", "threads": 1, "repetitions": 2}
    return {**shared, "tokens": 400, **more}


def test_ingest(model_folder: Path, commands: list[list[str]]) -> None:
    result = bench("ingest", _options(model_folder))
    assert list(result) == ["bench", "rows", "calibration", "seconds", "model"]
    assert result["bench"] == "ingest"
    tokens, operations, memory = result["rows"]
    assert tokens["unit"] == "tokens/s" and tokens["ratio"] is None
    assert operations["against"] == "matmul" and 0 < operations["ratio"] < 1
    per_token = result["calibration"]["flops_per_token"]
    assert operations["median"] == pytest.approx(tokens["median"] * per_token / 1e9)
    rate = operations["median"] / result["calibration"]["matmul_gflops"]
    assert operations["ratio"] == pytest.approx(rate)
    assert (memory["median"], memory["unit"]) == (300, "MB")
    (command,) = commands
    assert command[1:3] == ["-m", "drt_cli"] and command[-2] == "ingest"


@pytest.mark.thorough
def test_ask(model_folder: Path, commands: list[list[str]], tmp_path: Path) -> None:
    file = tmp_path / "note.txt"
    file.write_text("The bell hangs in the chapel. Goats graze over the shafts.")
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question": "What do goats do?"}\n{"question": "Where is the bell?"}\n')
    options = {"file": str(file), "question": "Where is the bell?", "questions": str(questions)}
    result = bench("ask", _options(model_folder, **options))
    rows = {row["name"]: row for row in result["rows"]}
    assert rows["ask"]["against"] == "ask --no-reread" and rows["ask"]["ratio"] > 0
    assert rows["ask --no-reread"]["against"] == "matmul"
    assert rows["ask, first words"]["against"] == "ask"
    assert rows["ask, median of 2 questions"]["median"] > 0
    cold = rows["cold `drt ask`, first output"]
    assert (cold["median"], cold["ratio"]) == (1.5, 0.75)
    assert rows["peak memory of cold `drt ask`"]["median"] == 300
    asked = [command for command in commands if "drt_cli" in command]
    assert len(asked) == 2 and asked[0][-2:] == ["ask", "Where is the bell?"]


@pytest.mark.thorough
def test_retrieve(model_folder: Path, commands: list[list[str]]) -> None:
    result = bench("retrieve", _options(model_folder, tokens=20_000))
    scan, coded, copy, bm25 = result["rows"][:4]
    assert result["calibration"]["landmarks"] == 1250
    assert (scan["against"], bm25["against"]) == ("memory copy", "landmark scan")
    assert (coded["name"], coded["against"]) == ("coded landmark scan", "landmark scan")
    assert scan["ratio"] == pytest.approx(scan["median"] / copy["median"])
    assert bm25["median"] > 0 and scan["unit"] == "ms"
    assert not commands


def test_operations_are_those_of_the_layers() -> None:
    """Without attention's own products, what is left is two for each weight of a linear map."""
    for kind in ("llama", "bert"):
        tiny = preset("drt-tiny")
        config = replace(tiny, encoder=replace(tiny.encoder, kind=kind))
        model = DRT(config)
        parts = [model.lower, model.encoder, model.memory_map]
        maps = [m for part in parts for m in part.modules() if isinstance(m, nn.Linear)]
        weights = sum(m.weight.numel() for m in maps)
        heads = config.heads * config.head_size
        attention = config.lower_layers * 2 * heads * config.window
        attention += config.encoder.layers * 2 * config.width * config.slots
        per_chunk = 2 * (config.slots * (weights + attention) + config.width**2)
        assert read_flops(config) == per_chunk / config.chunk


def test_made_up_text_has_about_a_token_a_word() -> None:
    text = generated_text(1000)
    assert text == generated_text(1000) != generated_text(1000, seed=1)
    assert 850 < len(text.split()) < 1100


def test_a_process_is_measured() -> None:
    # Memory is looked at every 10 ms: what is held for less may be missed.
    code = "import time; print('x', flush=True); data = bytearray(30_000_000); time.sleep(0.2)"
    times = run_process([sys.executable, "-S", "-c", code])
    assert 0 < times.first_output < times.total - 0.15
    if times.peak_bytes is not None:
        assert 30_000_000 < times.peak_bytes < 500_000_000
    with pytest.raises(ConfigError, match="ended with code 3 and said: no such thing"):
        run_process(
            [sys.executable, "-S", "-c", "import sys; print('no such thing', file=sys.stderr); "
             "sys.exit(3)"]
        )  # fmt: skip


@each_row(
    ("name", "options", "message"),
    [
        ("eat", {}, "no benchmark is called 'eat'; there are ingest, ask, retrieve, library"),
        ("ask", {"repeats": 3}, "unknown key ask.repeats"),
        ("ask", {"repetitions": 0}, "repetitions is 0"),
        ("ingest", {"tokens": 3}, "tokens is 3, expected 64 or more"),
        ("ingest", {"file": "missing.txt"}, "missing.txt does not exist"),
    ],
)
def test_wrong_options_end_in_a_sentence(
    name: str, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        bench(name, options)


def test_the_runtime_keeps_its_threads(runtime: Runtime) -> None:
    command = parts.BenchOptions().command(runtime, Path("library"), "ask", "x")
    assert command[command.index("--threads") + 1] == str(torch.get_num_threads())
    assert command[command.index("--model") + 1] == str(runtime.folder.resolve())
