"""`drt train` under torchrun: processes train as one does, and killed ones come back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from drt_lab.train.metrics import read_metrics
from tests.e2e.test_train import STAGE
from tests.fakes import byte_tokenizer
from tests.lab.train.corpora import ARTICLE, write_corpus, write_questions

pytestmark = pytest.mark.slow

RUN = ("-m", "torch.distributed.run", "--standalone")
TORCHRUN = (*RUN, "--nproc-per-node=2")
SHARDS = "run.parallel=fsdp"
# The options of the shipped model that have scalars, the reader pass and a frozen embedding; layers
# computed twice; clipping that cuts; shares of the rate.
PRODUCT = (
    "model.normalised_scores=true",
    "model.lexical_scores=true",
    "model.late_interaction=true",
    "model.question_states=true",
    "model.quote_head=true",
    "model.reread=true",
    "model.landmark_pooling=mean",
    "model.chunk=32",
    "optim.upper_scale=0.5",
    "optim.clip=0.1",
    'optim.only=["lower.", "encoder.", "memory_map.", "scorer.", "upper.", "norm.", "quote_head."]',
    "run.recompute=layers",
)


def stage_file(folder: Path) -> Path:
    folder.mkdir()
    byte_tokenizer().save(folder / "tokenizer.json")
    stage = folder / "stage.toml"
    text = STAGE.format(folder=folder, corpus=write_corpus(folder, ARTICLE))
    stage.write_text(f"{text}bf16 = false\nminutes = 0.0\n", encoding="utf-8")
    return stage


def start(
    stage: Path, steps: int, *launcher: str, settings: Sequence[str] = ()
) -> subprocess.Popen[str]:
    settings = [f"optim.steps={steps}", "optim.accumulate=2", *settings]
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


def expect_near_models(first: Path, second: Path) -> None:
    """Compare the tensors of two checkpoints, of which either may be in shards, to 1e-6."""
    from drt_lab.train.stored_shards import read_whole  # imports half of torch.distributed

    states = [read_whole(stage.parent / "run" / "state") for stage in (first, second)]
    assert states[0].keys() == states[1].keys()
    for name, tensor in states[0].items():
        if name.startswith("model."):
            difference = (tensor - states[1][name]).abs().max()
            assert difference <= 1e-6 * max(1.0, float(tensor.abs().max())), name
    rows = [read_metrics(stage.parent / "run" / "metrics.jsonl") for stage in (first, second)]
    losses = [{row["step"]: row["lm"] for row in of_run if "lm" in row} for of_run in rows]
    # The log has five decimals.
    assert losses[0] == pytest.approx(losses[1], abs=2e-5) and losses[0]


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


@pytest.mark.parametrize("tasks", ["stream", "questions"])
def test_two_processes_with_shards_train_as_one_does(tmp_path: Path, tasks: str) -> None:
    alone, shared = (stage_file(tmp_path / name) for name in ("alone", "shared"))
    settings = list(PRODUCT)
    if tasks == "questions":
        qa, docs = write_questions(tmp_path)
        settings += ["questions.share=1.0", f"questions.qa={qa}", f"questions.docs={docs}"]
        settings += ["questions.questions=4", "questions.window=4", "questions.pool=8"]
        settings += ["questions.retrieved=2", "run.seed=3"]
    finish(start(alone, 5, settings=settings), alone)
    finish(start(shared, 5, *TORCHRUN, settings=[*settings, SHARDS]), shared)
    expect_near_models(alone, shared)
    models = [load_file(s.parent / "run" / "model" / "model.safetensors") for s in (alone, shared)]
    assert {n: t.shape for n, t in models[0].items()} == {n: t.shape for n, t in models[1].items()}


def test_shards_are_resumed_on_another_number_of_processes(tmp_path: Path) -> None:
    alone, shared = (stage_file(tmp_path / name) for name in ("alone", "shared"))
    parts = "optim.accumulate=6"
    finish(start(alone, 5, settings=[parts, "run.minutes=9"]), alone)
    launchers: list[tuple[tuple[str, ...], str]] = [
        ((*RUN, "--nproc-per-node=2"), SHARDS),
        ((*RUN, "--nproc-per-node=3"), SHARDS),  # three do not divide the parameters evenly
        ((*RUN, "--nproc-per-node=1"), SHARDS),
        ((*RUN, "--nproc-per-node=2"), "run.parallel=ddp"),
        ((*RUN, "--nproc-per-node=2"), SHARDS),
    ]
    for stop, (launcher, parallel) in enumerate(launchers, 1):
        # The schedule is that of 5 steps from the first on; the limit ends a call after one.
        settings = [parts, parallel, "run.limit_minutes=0.0001"]
        finish(start(shared, 5, *launcher, settings=settings), shared)
        state = json.loads((shared.parent / "run" / "state" / "state.json").read_text())
        assert state["step"] == stop
    expect_near_models(alone, shared)


def test_killed_processes_with_shards_go_on_from_the_last_checkpoint(tmp_path: Path) -> None:
    alone, shared = (stage_file(tmp_path / name) for name in ("alone", "shared"))
    finish(start(alone, 8), alone)
    process = start(shared, 8, *TORCHRUN, "--max-restarts=5", settings=[SHARDS])
    state = shared.parent / "run" / "state" / "state.json"
    for kill, least in enumerate((1, 4)):
        # With a checkpoint at every step, one is nearly always being written.
        deadline = time.monotonic() + 120
        while steps_saved(state) < least and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(worker_of(process.pid, rank=kill % 2), signal.SIGKILL)
    finish(process, shared)
    expect_near_models(alone, shared)


def steps_saved(state: Path) -> int:
    try:
        return int(json.loads(state.read_text())["step"])
    except FileNotFoundError:  # none yet, or between two names
        return 0


def test_shards_without_torchrun_and_refusals_of_rank_0_are_sentences(tmp_path: Path) -> None:
    stage = stage_file(tmp_path / "stage")
    process = start(stage, 1, settings=[SHARDS])
    err = process.communicate(timeout=120)[1]
    assert process.returncode == 1 and "not started by torchrun" in err.splitlines()[-1]
    process = start(stage, 1, *TORCHRUN, settings=[SHARDS, "start.model=/nowhere"])
    err = process.communicate(timeout=120)[1]
    assert process.returncode == 1 and "/nowhere" in err
    assert any(line.startswith("drt: /nowhere") for line in err.splitlines())  # not a traceback


def worker_of(launcher: int, *, rank: int) -> int:
    """Return the process of a rank among the launcher's children."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and f"\nPPid:\t{launcher}\n" in (folder / "status").read_text():
            environment = (folder / "environ").read_bytes().split(b"\0")
            if f"RANK={rank}".encode() in environment:
                return int(folder.name)
    raise AssertionError("the rank has no process")
