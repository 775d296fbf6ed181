"""What all benchmarks share: options, text to read, work to compare with, and measured processes.

Knows nothing of what is measured with it.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import torch

from drt_engine.config.model import ModelConfig, preset
from drt_engine.errors import ConfigError
from drt_engine.runtime import DEFAULT_MODEL, Runtime, choose_device, choose_dtype
from drt_engine.store.index.format import MAX_LISTS
from drt_engine.text.words import STOP_WORDS
from drt_engine.threads import set_threads
from drt_lab.bench.timing import Clock
from drt_lab.data.needle_words import ADJECTIVES, COLOURS, NOUNS, PLACES, THINGS
from drt_lab.evaluate.report import Number, median_iqr

MATMUL = "matmul"
MEGA, GIGA = 1e6, 1e9
_SIDE = 1536  # of the square matrices: large enough for the full rate, small enough to repeat
_GPU_SIDE = 8192
SHAPES = {"small": DEFAULT_MODEL, "128m": "drt-128m"}


@dataclass(frozen=True)
class BenchOptions:
    """How a benchmark runs: repetitions of each part, and the text that is read.

    ``file`` is a document to read; without one, about ``tokens`` tokens of text are made up.
    ``questions`` is a file with a ``question`` on each line, each of which is asked as well.
    ``shape`` is that of the tensors and models which need no text; ``compile`` adds a row that
    compiles first. ``pages`` are those of the PDF files that are made, ``files`` the small files
    that are read again. ``folder`` keeps the large libraries of made-up records, and ``shards`` is
    how many of them are simulated. ``lists`` are those of an approximate index, and ``approximate``
    adds questions that use one. ``plan`` names a preset whose training on ``ranks`` is planned,
    each of which multiplies matrices at ``flops`` operations a second. ``workers`` read small
    files; where ``ray`` is local they are those of a Ray.
    """

    model: str = DEFAULT_MODEL
    device: str = "auto"
    threads: int | None = None
    dtype: str = "auto"
    repetitions: int = 5
    tokens: int | None = None
    file: Path | None = None
    question: str = "Which words are said of the harbour at the market?"
    questions: Path | None = None
    shape: Literal["small", "128m"] = "small"
    compile: bool = False
    pages: int | None = None
    files: int | None = None
    folder: Path | None = None
    shards: int | None = None
    lists: int | None = None
    approximate: bool = False
    plan: str | None = None
    ranks: int | None = None
    flops: float | None = None
    minutes: float | None = None
    results: Path | None = None
    workers: int | None = None
    ray: str | None = None

    @property
    def config(self) -> ModelConfig:
        """The model configuration whose sizes ``shape`` names."""
        return preset(SHAPES[self.shape])

    def runtime(self) -> Runtime:
        """Load the model."""
        return Runtime.load(self.model, device=self.device, threads=self.threads, dtype=self.dtype)

    def machine(self) -> Machine:
        """Where to compute, and in which type, where no model is loaded."""
        set_threads(self.threads)
        device = choose_device(self.device)
        return Machine(device, choose_dtype(self.dtype, device))

    def __post_init__(self) -> None:
        if self.repetitions < 1:
            raise ConfigError(f"repetitions is {self.repetitions}, expected 1 or more")
        if self.tokens is not None and self.tokens < 64:
            raise ConfigError(f"tokens is {self.tokens}, expected 64 or more")
        if self.pages is not None and self.pages < 1:
            raise ConfigError(f"pages is {self.pages}, expected 1 or more")
        if self.files is not None and self.files < 1:
            raise ConfigError(f"files is {self.files}, expected 1 or more")
        if self.shards is not None and self.shards < 1:
            raise ConfigError(f"shards is {self.shards}, expected 1 or more")
        if self.minutes is not None and self.minutes <= 0:
            raise ConfigError(f"minutes is {self.minutes}, expected above 0")
        if self.lists is not None and not 1 <= self.lists <= MAX_LISTS:
            raise ConfigError(f"lists is {self.lists}, expected 1 to {MAX_LISTS}")
        if self.ranks is not None and self.ranks < 1:
            raise ConfigError(f"ranks is {self.ranks}, expected 1 or more")
        if self.flops is not None and not 0 < self.flops < float("inf"):
            raise ConfigError(f"flops is {self.flops}, expected a number above 0")
        if self.plan is None and (self.ranks or self.flops):
            raise ConfigError("ranks and flops are of a plan: name the model with --plan")
        if self.folder is not None and self.folder.exists() and not self.folder.is_dir():
            raise ConfigError(f"{self.folder} is a file, expected a folder for libraries")
        if self.file is not None and not self.file.is_file():
            raise ConfigError(f"{self.file} does not exist, expected a document to read")
        if self.questions is not None and not self.questions.is_file():
            raise ConfigError(f"{self.questions} does not exist, expected a file of questions")

    def text_file(self, folder: Path, *, tokens: int) -> Path:
        """Return the document to read, made in ``folder`` where none was given."""
        if self.file is not None:
            return self.file
        path = folder / "text.txt"
        path.write_text(generated_text(self.tokens or tokens), encoding="utf-8")
        return path

    def command(self, runtime: Runtime, library: Path, *arguments: str) -> list[str]:
        """Return the command line of another ``drt`` process with the same model and threads."""
        shared = ["--library", str(library), "--model", str(runtime.folder.resolve()), "--quiet"]
        threads = ["--threads", str(torch.get_num_threads()), "--device", runtime.device.type]
        name = "bf16" if runtime.dtype == torch.bfloat16 else "fp32"
        dtype = ["--dtype", "int8" if self.dtype == "int8" else name]
        return [sys.executable, "-m", "drt_cli", *shared, *threads, *dtype, *arguments]


def generated_text(tokens: int, *, seed: int = 0) -> str:
    """Return sentences of common English words, about a token each, in paragraphs."""
    rng = random.Random(seed)
    common = sorted(word for word in STOP_WORDS if len(word) > 1)
    rare = [*THINGS, *ADJECTIVES, *NOUNS, *COLOURS]
    parts: list[str] = []
    left = tokens
    while left > 0:
        size = rng.randrange(8, 25)
        words = rng.choices(common, k=size - size // 3) + rng.choices(rare, k=size // 3)
        rng.shuffle(words)
        if rng.random() < 0.1:
            words.append(rng.choice(PLACES["eval"]))
        left -= len(words) + 1
        parts.append(" ".join(words).capitalize() + ("." if rng.random() < 0.8 else ".\n\n"))
    return " ".join(parts)


class Place(Protocol):
    """What a Machine and a Runtime have in common."""

    @property
    def device(self) -> torch.device: ...
    @property
    def dtype(self) -> torch.dtype: ...


@dataclass(frozen=True)
class Machine:
    """A device and the type to compute in there."""

    device: torch.device
    dtype: torch.dtype


class Matmul:
    """A square matrix product in the type the model computes in: the rate to compare with."""

    def __init__(self, place: Place) -> None:
        generator = torch.Generator().manual_seed(0)
        side = _GPU_SIDE if place.device.type == "cuda" else _SIDE
        self._left, self._right = (
            torch.randn(side, side, generator=generator).to(place.device, place.dtype)
            for _ in range(2)
        )
        self._clock = Clock(place.device)
        self.flops = 2.0 * side**3
        self.seconds: list[float] = []
        self._clock.seconds(self._product)

    def time(self) -> None:
        """Time two products."""
        self.seconds.append(self._clock.seconds(self._product, 2))

    @property
    def rates(self) -> list[float]:
        """Floating-point operations a second, of each timing."""
        return [self.flops / seconds for seconds in self.seconds]

    def _product(self) -> None:
        with torch.inference_mode():
            self._left @ self._right


class MemoryCopy:
    """A copy of some bytes in memory."""

    def __init__(self, size: int, device: torch.device | None = None) -> None:
        self._source = torch.zeros(size, dtype=torch.uint8, device=device)
        self._target = torch.ones(size, dtype=torch.uint8, device=device)
        self._clock = Clock(self._source.device)
        self.seconds: list[float] = []

    def time(self) -> None:
        """Time one copy."""
        self.seconds.append(self._clock.seconds(self.copy))

    def copy(self) -> None:
        """Copy once."""
        self._target.copy_(self._source)

    @property
    def rates(self) -> list[float]:
        """Bytes copied a second, of each timing."""
        return [len(self._source) / seconds for seconds in self.seconds]


class Calibration:
    """A matrix product and a copy of memory, timed in every round of a benchmark."""

    def __init__(self, place: Place) -> None:
        self.matmul = Matmul(place)
        self.copy = MemoryCopy(1 << 26 if place.device.type == "cpu" else 1 << 30, place.device)
        self._dtype = place.dtype

    def time(self) -> None:
        """Time both once."""
        self.matmul.time()
        self.copy.time()

    def numbers(self, **extra: Number) -> dict[str, Number]:
        """Return what the report holds of it, before ``more``."""
        return {
            "matmul_gflops": median_iqr(self.matmul.rates)[0] / GIGA,
            "memcpy_gb_per_s": median_iqr(self.copy.rates)[0] / GIGA,
            "matmul_bits": torch.finfo(self._dtype).bits,
            "threads": torch.get_num_threads(),
            **extra,
        }


def wait(runtime: Runtime) -> None:
    """Wait until the device has done what it was given."""
    if runtime.device.type == "cuda":
        torch.cuda.synchronize()


@dataclass(frozen=True)
class ProcessTimes:
    """Seconds from the start of a process to its first output and to its end, and peak memory."""

    first_output: float
    total: float
    peak_bytes: int | None


def run_process(command: Sequence[str], variables: Mapping[str, str] | None = None) -> ProcessTimes:
    """Run a command to its end; raises ConfigError with its last line when it fails.

    ``variables`` are added to its environment.

    Peak memory is None where the system does not tell it of a single process.
    """
    with tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**environment(), **(variables or {})},
        )
        assert process.stdout is not None
        peak = _PeakMemory(process.pid)
        peak.start()
        process.stdout.read(1)
        first = time.perf_counter() - started
        process.stdout.read()
        process.stdout.close()
        code = process.wait()
        peak.ended.set()
        total = time.perf_counter() - started
        if code:
            errors.seek(0)
            message = errors.read().decode("utf-8", "replace")
            error_lines = message.strip().splitlines() or ["nothing"]
            name = " ".join(command[:3])
            raise ConfigError(f"{name} ended with code {code} and said: {error_lines[-1]}")
    return ProcessTimes(first, total, peak.bytes)


def environment() -> dict[str, str]:
    """Return an environment with the packages of this process, wherever they come from."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


class _PeakMemory(threading.Thread):
    """Watches the peak memory of a process, in bytes, until it ends; None where nothing tells.

    The kernel's own account at the end (``ru_maxrss``) would count this process's memory, which
    the child shares before it runs its command.
    """

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.bytes: int | None = None
        self.ended = threading.Event()
        self._status = Path(f"/proc/{pid}/status")

    def run(self) -> None:
        while not self.ended.wait(0.01):
            with contextlib.suppress(OSError):
                match = re.search(r"VmHWM:\s+(\d+) kB", self._status.read_text())
                if match:
                    self.bytes = int(match.group(1)) * 1024
