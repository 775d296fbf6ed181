"""`drt train` under torchrun: two processes train as one does, and a killed one comes back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.e2e.test_train import STAGE
from tests.engine.train.corpora import ARTICLE, write_corpus
from tests.fakes import byte_tokenizer

pytestmark = pytest.mark.slow

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


def stage_file(folder: Path) -> Path:
    folder.mkdir()
    byte_tokenizer().save(folder / "tokenizer.json")
    stage = folder / "stage.toml"
    text = STAGE.format(folder=folder, corpus=write_corpus(folder, ARTICLE))
    stage.write_text(f"{text}bf16 = false\nminutes = 0.0\n", encoding="utf-8")
    return stage


def start(stage: Path, steps: int, *launcher: str) -> subprocess.Popen[str]:
    settings = [f"optim.steps={steps}", "optim.accumulate=2"]
    return subprocess.Popen(
        [sys.executable, *launcher, "-m", "drt_cli", "train", str(stage), *settings],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def finish(process: subprocess.Popen[str], stage: Path) -> None:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert out == f"{stage.parent / 'run'}\n"  # from one process


def expect_equal_models(first: Path, second: Path) -> None:
    states = [load_file(s.parent / "run" / "state" / "state.safetensors") for s in (first, second)]
    assert states[0].keys() == states[1].keys()
    for name, tensor in states[0].items():
        assert torch.equal(tensor, states[1][name]), name


def test_two_processes_train_as_one_does(tmp_path: Path) -> None:
    alone, shared = (stage_file(tmp_path / name) for name in ("alone", "shared"))
    finish(start(alone, 3), alone)
    finish(start(shared, 3, *TORCHRUN), shared)
    expect_equal_models(alone, shared)


def test_a_killed_process_goes_on_from_the_last_checkpoint(tmp_path: Path) -> None:
    alone, shared = (stage_file(tmp_path / name) for name in ("alone", "shared"))
    finish(start(alone, 40), alone)
    process = start(shared, 40, *TORCHRUN, "--max-restarts=2")
    state = shared.parent / "run" / "state" / "state.json"
    deadline = time.monotonic() + 120
    while not state.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(worker_of(process.pid, rank=1), signal.SIGKILL)
    finish(process, shared)
    expect_equal_models(alone, shared)


def worker_of(launcher: int, *, rank: int) -> int:
    """Return the process of a rank among the launcher's children."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and f"\nPPid:\t{launcher}\n" in (folder / "status").read_text():
            environment = (folder / "environ").read_bytes().split(b"\0")
            if f"RANK={rank}".encode() in environment:
                return int(folder.name)
    raise AssertionError("the rank has no process")
