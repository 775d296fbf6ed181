"""Train the shipped recipe within a number of minutes, on a GPU or, to rehearse, on a CPU:

    python examples/gpu_train.py train --minutes 25 --out runs/gpu
    python examples/gpu_train.py join runs/gpu/shards my-model

Checks the kernels first where a GPU is, then runs the stages of examples/configs/drt-small-en with
larger batches, each for its share of the time. The same command again goes on where it was stopped.
The model is written in shards that are small enough to send, and a table comes last. Needs the
dependencies of drt alone; where pytest and hypothesis are missing, the kernels' tests are left out.
"""

from __future__ import annotations

import importlib.util
import io
import json
import lzma
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).resolve().parents[1]
SOURCES = [str(ROOT / name) for name in ("kernels", "engine", "sdk", "")]
sys.path[:0] = SOURCES
CONFIGS = {  # by the number of the stage
    int(path.name.split("-")[0]): path
    for path in (ROOT / "examples" / "configs" / "drt-small-en").glob("*.toml")
}
SHIPPED = ROOT / "engine" / "drt_engine" / "weights" / "drt-small-en"
MODEL_FILES = ("config.json", "tokenizer.json", "model.safetensors")
SHARD = 15_000_000  # bytes
PACKING = 90.0  # seconds kept for writing the model
FIRST, TIMED = 3, 12  # batches that compile and fill the queue, and those a stage is timed with
# What a larger batch has more of.
SCALED = {
    "questions": ("questions", "pool", "more"),
    "needles": ("needles",),
    "cloze": ("questions", "more", "windows"),
    "stream": ("batch",),
}
SHOWN = ("lm", "reread", "stored", "hit", "cloze_reread", "cloze_hit", "needle_reread")


@dataclass
class Run:
    """What the command was asked for, when it has to end, and what it has to tell."""

    out: Path
    device: str
    scale: float
    steps: int | None
    workers: int
    changes: tuple[str, ...]
    warm_start: Path
    model: Path | None
    deadline: float
    rows: list[list[str]] = field(default_factory=list)

    def left(self) -> float:
        """Seconds until the model has to be written."""
        return self.deadline - PACKING - time.monotonic()

    def tell(self, name: str, *cells: object) -> None:
        """Keep a row of the table, and show it now."""
        self.rows.append([name, *map(str, cells)])
        click.echo("  ".join(self.rows[-1]), err=True)


@click.group()
def main() -> None:
    """Train the recipe of the shipped model, or join the shards of a trained one."""


@main.command()
@click.option("--minutes", type=click.FloatRange(min=1), default=25.0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/gpu"))
@click.option("--device", type=click.Choice(["cuda", "cpu"]), default="cuda", show_default=True)
@click.option("--stages", default="1,2,3,4,5", show_default=True, help="Their numbers.")
@click.option("--scale", type=float, default=4.0, show_default=True, help="Times the batch.")
@click.option("--steps", type=click.IntRange(min=1), help="Steps a stage, instead of timing it.")
@click.option("--workers", type=int, default=max(0, min(8, (os.cpu_count() or 1) - 2)))
@click.option("--warm-start", type=click.Path(path_type=Path), default=Path("runs/minilm"))
@click.option("--model", type=click.Path(path_type=Path), help="Start of the first stage, not 1.")
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="For all stages.")
@click.option("--checks/--no-checks", default=True, help="The kernels' tests and timings first.")
def train(minutes: float, stages: str, checks: bool, **options: Any) -> None:
    """Check the kernels, train the stages, write the model in shards, print a table."""
    run = Run(deadline=time.monotonic() + 60 * minutes, **options)
    run.out.mkdir(parents=True, exist_ok=True)
    if checks and run.device == "cuda":
        check_kernels(run)
    numbers = [int(part) for part in stages.split(",")]
    failed = ""
    try:
        for number in numbers:
            train_stage(run, number, numbers)
    except Exception as error:  # what was trained until then is written all the same
        failed = f"{type(error).__name__}: {error}"
        run.tell("failed", failed.splitlines()[0])
    pack(run, numbers)
    click.echo("\n".join(aligned([["what", "steps", "s/step", "minutes", "last"], *run.rows])))
    if failed:
        raise click.ClickException(failed)


def check_kernels(run: Run) -> None:
    """Run the kernels' tests, at most a fifth of the time, and their timings in a tenth."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(SOURCES)}
    tests = ["-m", "pytest", "-q", "-o", "addopts=", "--import-mode=importlib", "-m", "gpu"]
    tests += ["tests/kernels", "tests/lab/train/test_device.py"]
    missing = [n for n in ("pytest", "hypothesis") if importlib.util.find_spec(n) is None]
    if missing:
        run.tell("kernel tests", "left out, not installed:", *missing)
    else:
        call(run, "kernel tests", tests, environment, seconds=run.left() / 5)
    bench = ["-m", "drt_cli", "--device", run.device, "bench", "kernels", "--shape", "small"]
    call(run, "drt bench kernels", bench, environment, seconds=run.left() / 10)


def call(
    run: Run, name: str, arguments: Sequence[str], environment: dict[str, str], *, seconds: float
) -> None:
    """Run Python with a time limit; its output goes to a file, its last line into the table."""
    log = run.out / f"{name.replace(' ', '-')}.log"
    with log.open("w") as file:
        try:
            command = [sys.executable, *arguments]
            done = subprocess.run(
                command, cwd=ROOT, env=environment, stdout=file, stderr=file, timeout=seconds
            )
            said = f"exit {done.returncode}"
        except subprocess.TimeoutExpired:
            said = f"stopped after {seconds:.0f} s"
    lines = log.read_text(errors="replace").split("\n")
    run.tell(name, said, next((line for line in reversed(lines) if line.strip()), ""))


def train_stage(run: Run, number: int, numbers: Sequence[int]) -> None:
    """Train one stage for its share of the time that is left, or until its planned steps."""
    import torch

    from drt_lab.config.load import load_config
    from drt_lab.config.train import TrainConfig
    from drt_lab.train.loop import Loop
    from drt_lab.train.run import device, start

    config_file = CONFIGS[number]
    later = numbers[list(numbers).index(number) + 1 :]
    if any(steps_done(run, one) for one in later):
        run.tell(config_file.stem, steps_done(run, number), "", "", "a later stage has begun")
        return
    if run.left() <= 0:
        run.tell(config_file.stem, steps_done(run, number), "", "", "no time was left")
        return
    config = load_config(TrainConfig, config_file, overrides(run, number, numbers))
    plan = run.out / f"stage-{number}" / "plan.json"
    if plan.exists():
        config = with_steps(config, json.loads(plan.read_text())["steps"])
        if steps_done(run, number) >= config.optim.steps:
            run.tell(config_file.stem, steps_done(run, number), "", "", "was done before")
            return
    share = shares(numbers)[number]
    began = time.monotonic()
    torch.manual_seed(config.run.seed)
    torch.set_num_threads(config.run.threads)
    model, tokenizer = start(config)
    loop = Loop(config, model.to(device(config.run)), tokenizer)
    if not plan.exists():
        each = 0.0 if run.steps else time_step(loop, most=0.1 * share * run.left())
        # Less a twentieth, for checkpoints.
        steps = run.steps or max(1, int(0.95 * share * run.left() / each))
        plan.write_text(json.dumps({"steps": steps}))
        loop.config = config = with_steps(config, steps)
    # What is not used, because a stage was timed too slow, is left to those that follow.
    limit = max(0.01, run.left() / 60 * share)
    loop.config = replace(config, run=replace(config.run, limit_minutes=limit))
    first, trained = loop.step, time.monotonic()
    loop.run()
    each = (time.monotonic() - trained) / max(1, loop.step - first)
    minutes = (time.monotonic() - began) / 60
    done = f"{loop.step}/{config.optim.steps}"
    run.tell(config_file.stem, done, f"{each:.3f}", f"{minutes:.1f}", last_metrics(run, number))


def overrides(run: Run, number: int, numbers: Sequence[int]) -> list[str]:
    """Settings of a stage that differ from its file: place, start, device, batch."""
    from drt_lab.config.load import load_config
    from drt_lab.config.train import TrainConfig

    config = load_config(TrainConfig, CONFIGS[number])
    said = [f"run.out={run.out / f'stage-{number}'}", f"run.device={run.device}"]
    said.append(f"run.workers={run.workers}")
    if config.start.warm_start is not None:
        said.append(f"start.warm_start={run.warm_start}")
    elif number == numbers[0]:
        said.append(f"start.model={run.model or SHIPPED}")
    else:
        before = numbers[list(numbers).index(number) - 1]
        said.append(f"start.model={run.out / f'stage-{before}' / 'model'}")
    if config.questions.teacher is not None:
        said.append(f"questions.teacher={run.warm_start}")
    for section, keys in SCALED.items():
        part = getattr(config, section)
        if part.share > 0:
            said += [f"{section}.{k}={max(1, round(getattr(part, k) * run.scale))}" for k in keys]
    return [*said, *run.changes]


def shares(numbers: Sequence[int]) -> dict[int, float]:
    """The share of the time that is left when a stage begins, by the steps of the recipe."""
    from drt_lab.config.load import load_config
    from drt_lab.config.train import TrainConfig

    steps = {n: load_config(TrainConfig, CONFIGS[n]).optim.steps for n in numbers}
    return {n: steps[n] / sum(steps[m] for m in numbers[i:]) for i, n in enumerate(numbers)}


def with_steps(config: Any, steps: int) -> Any:
    """The configuration with another length of the schedule."""
    return replace(config, optim=replace(config.optim, steps=steps))


def steps_done(run: Run, number: int) -> int:
    """The step of a stage's checkpoint, 0 without one."""
    state = run.out / f"stage-{number}" / "state" / "state.json"
    return int(json.loads(state.read_text())["step"]) if state.exists() else 0


def time_step(loop: Any, *, most: float) -> float:
    """Seconds of a step's forward and backward pass, the first batches left out, timed for ``most``
    seconds; learns nothing.
    """
    import torch

    clock: list[float] = []
    seeds = [f"timing {number}" for number in range(TIMED + FIRST)]
    for number, seed in enumerate(seeds):
        drawn = loop.prefetcher.draw(seed, seeds[number + 1 :][: loop.prefetcher.depth])
        with torch.autocast(loop.device.type, torch.bfloat16, enabled=loop.config.run.bf16):
            loss, _ = loop.tasks.loss(loop.model, drawn)
        loss.backward()
        loop.optimizer.zero_grad(set_to_none=True)
        if loop.device.type == "cuda":
            torch.cuda.synchronize()
        clock.append(time.monotonic())
        if number >= FIRST and clock[-1] - clock[0] > most:
            break
    loop.prefetcher.close()
    taken = clock[FIRST - 1 :]
    return (taken[-1] - taken[0]) / (len(taken) - 1) * loop.config.optim.accumulate


def last_metrics(run: Run, number: int) -> str:
    """The newest value of each loss that a stage logged."""
    from drt_lab.train.metrics import read_metrics

    file = run.out / f"stage-{number}" / "metrics.jsonl"
    newest: dict[str, float] = {}
    if file.exists():
        for row in read_metrics(file):
            newest |= row
    return " ".join(f"{name} {newest[name]:.3f}" for name in SHOWN if name in newest)


def pack(run: Run, numbers: Sequence[int]) -> None:
    """Write the newest model as a compressed archive in shards."""
    models = [run.out / f"stage-{n}" / "model" for n in reversed(numbers)]
    found = next((m for m in models if (m / MODEL_FILES[-1]).exists()), None)
    if found is None:
        run.tell("shards", "none: no stage has written a model")
        return
    shards = run.out / "shards"
    shards.mkdir(exist_ok=True)
    for old in shards.glob("model.tar.xz.*"):
        old.unlink()
    sizes = []
    for number, data in enumerate(sliced(archive(found))):
        (shards / f"model.tar.xz.{number:03d}").write_bytes(data)
        sizes.append(len(data))
    run.tell("shards", len(sizes), "", "", f"{sum(sizes) / 1e6:.1f} MB of {found} in {shards}")


def archive(folder: Path) -> bytes:
    """A model's files as .tar.xz; bf16 is compressed best two bytes at a time."""
    whole = io.BytesIO()
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 2, "lc": 3, "lp": 1, "pb": 1}]
    with (
        lzma.open(whole, "wb", filters=filters) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for name in MODEL_FILES:
            tar.add(folder / name, arcname=name)
    return whole.getvalue()


def sliced(data: bytes) -> Iterator[bytes]:
    """Pieces of at most a shard's size."""
    yield from (data[at : at + SHARD] for at in range(0, len(data), SHARD))


@main.command()
@click.argument("shards", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
def join(shards: Path, out: Path) -> None:
    """Join the shards of a folder into a model folder, and load it."""
    parts = sorted(shards.glob("model.tar.xz.*"))
    names = [f"model.tar.xz.{number:03d}" for number in range(len(parts))]
    if not parts or [part.name for part in parts] != names:
        raise click.ClickException(f"{shards} holds {len(parts)} shards, expected all from .000 on")
    try:
        data = lzma.decompress(b"".join(part.read_bytes() for part in parts))
    except lzma.LZMAError as error:
        raise click.ClickException(
            f"{shards} is not whole ({error}); copy its files again"
        ) from error
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        tar.extractall(out, filter="data")
    from drt import verify_model

    found = verify_model(out)
    click.echo(f"{out}: {found.parameters:,} parameters, fingerprint {found.fingerprint}")


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines of columns; the last cell of a row may be as long as it is."""
    widths = [max((len(r[i]) for r in rows if i + 1 < len(r)), default=0) for i in range(4)]
    return [
        "  ".join([*(c.ljust(w) for c, w in zip(row[:-1], widths, strict=False)), row[-1]]).rstrip()
        for row in rows
    ]


if __name__ == "__main__":
    main()
