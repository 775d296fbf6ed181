"""``drt bench ingest --workers N``: many small files, read by N workers and by one, in turns.

Each worker computes on one thread and was warmed up; all have equally many files. The ratio of
the rates needs N quiet processors; the processor's seconds of workers and writer, which other load
changes little, say how large it can be. With ``ray`` the workers are those of a Ray on this
machine, each of which writes a shard of its own.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from drt_engine.cluster.connection import LOCAL, connect
from drt_engine.cluster.shard_reader import ModelSettings
from drt_engine.cluster.sharded_reading import NamedFile, ReadingOptions, ShardedReading
from drt_engine.cluster.shards import ShardedLibrary
from drt_engine.documents import expand_paths
from drt_engine.errors import ConfigError
from drt_engine.ingest.parallel import Workers
from drt_engine.ingest.pipeline import ingest_source
from drt_engine.ingest.temporary import open_library
from drt_engine.runtime import Runtime
from drt_engine.store import Store
from drt_engine.threads import allowed_processors
from drt_lab.bench.parts import BenchOptions, generated_text
from drt_lab.bench.timing import load_average
from drt_lab.evaluate.report import BenchReport, BenchRow, bench_row

FILES, TOKENS = 48, 48_000
_WARM_UP = 2  # files for each worker
_ONE = "1 worker"


class Crew(Protocol):
    """Workers that read files into a library of theirs."""

    def read(self, files: Sequence[Path]) -> int: ...
    def cpu_seconds(self) -> float: ...


@dataclass
class Timing:
    """How long a crew took for the files of each turn, and the processor's seconds of all."""

    crew: Crew
    tokens: int = 0
    rates: list[float] = field(default_factory=list)
    workers_cpu: float = 0.0
    writer_cpu: float = 0.0

    def time(self, files: Sequence[Path]) -> None:
        """Read files, and count what it took."""
        workers, writer = self.crew.cpu_seconds(), time.process_time()
        began = time.perf_counter()
        tokens = self.crew.read(files)
        self.rates.append(tokens / (time.perf_counter() - began))
        self.tokens += tokens
        self.workers_cpu += self.crew.cpu_seconds() - workers
        self.writer_cpu += time.process_time() - writer


def bench_workers(runtime: Runtime, options: BenchOptions) -> BenchReport:
    """Read new files in every turn with one worker and with several."""
    started = time.monotonic()
    count = options.workers or 2
    if count < 2:
        raise ConfigError(f"workers is {count}, expected 2 or more, to compare with one")
    if options.ray not in (None, LOCAL):
        raise ConfigError(f"ray is {options.ray!r}, expected local: other machines differ")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="drt-bench-")))
        crews = _ray_crews if options.ray else _process_crews
        one, many = map(Timing, stack.enter_context(crews(runtime, count, folder)))
        for turn in range(options.repetitions + 1):
            files = _files(folder / f"turn{turn}", count, options, seed=turn)
            if not turn:
                for timing in (one, many):
                    timing.crew.read(files[: _WARM_UP * count])
                continue
            for timing in (one, many) if turn % 2 else (many, one):
                timing.time(files)
    return BenchReport(
        bench="ingest",
        rows=_rows(one, many, count, options=options),
        seconds=time.monotonic() - started,
        model=runtime.name,
        calibration={
            "workers": count,
            "processors": len(allowed_processors()),
            "load": load_average(),
            "files": options.files or FILES,
            "tokens": one.tokens // len(one.rates),
        },
    )


def _rows(one: Timing, many: Timing, count: int, *, options: BenchOptions) -> list[BenchRow]:
    files = (options.files or FILES) * len(one.rates)
    milliseconds = 1000 / files
    rows = [
        bench_row(_ONE, one.rates, unit="tokens/s"),
        bench_row(
            f"{count} workers", many.rates, unit="tokens/s", against=_ONE, against_values=one.rates
        ),
        bench_row("processor of the workers", [many.workers_cpu * milliseconds], unit="ms a file"),
        bench_row("processor of this process", [many.writer_cpu * milliseconds], unit="ms a file"),
    ]
    bound = largest_ratio(many.workers_cpu, many.writer_cpu, count, len(allowed_processors()))
    return [*rows, bench_row("largest ratio that these allow", [bound], unit="times")]


def largest_ratio(workers_cpu: float, writer_cpu: float, count: int, processors: int) -> float:
    """Return how many times as fast as one worker several can be, by their processors' seconds.

    The writer works beside them: it is one process, and takes its share of the processors.
    """
    one = max(workers_cpu, writer_cpu, (workers_cpu + writer_cpu) / processors)
    many = max(workers_cpu / count, writer_cpu, (workers_cpu + writer_cpu) / processors)
    return one / many


def _files(folder: Path, shards: int, options: BenchOptions, *, seed: int) -> list[Path]:
    """Make small files, as many for each of several shards."""
    folder.mkdir()
    count = options.files or FILES
    tokens = max(64, (options.tokens or TOKENS) // count)
    room = dict.fromkeys(range(shards), -(-count // shards))
    library = ShardedLibrary(folder / "library", shards)
    paths: list[Path] = []
    number = 0
    while len(paths) < count:
        path = folder / f"{number}.txt"
        number += 1
        if room[library.shard_of(path)]:
            room[library.shard_of(path)] -= 1
            text = generated_text(tokens, seed=seed * 1_000_003 + number)
            path.write_text(text, encoding="utf-8")
            paths.append(path)
    return paths


class _Processes:
    """Workers of this process, which writes what they compute."""

    def __init__(self, runtime: Runtime, workers: Workers, store: Store) -> None:
        self._runtime, self._workers, self._store = runtime, workers, store

    def read(self, files: Sequence[Path]) -> int:
        tokens = 0
        sources = expand_paths([str(file) for file in files])
        for source, reading in self._workers.readings(self._store, sources):
            if isinstance(source, Exception):
                raise source
            row, _ = ingest_source(self._runtime, self._store, source, reading=reading)
            tokens += row.tokens
        return tokens

    def cpu_seconds(self) -> float:
        return sum(self._workers.cpu_seconds.values())


class _Actors:
    """Workers of a Ray on this machine, which write themselves."""

    def __init__(self, reading: ShardedReading) -> None:
        self._reading = reading

    def read(self, files: Sequence[Path]) -> int:
        tokens = 0
        for result in self._reading.results([NamedFile(file) for file in files]):
            if result.error is not None:
                raise result.error
            assert result.row is not None
            tokens += result.row.tokens
        return tokens

    def cpu_seconds(self) -> float:
        return self._reading.cpu_seconds()


@contextlib.contextmanager
def _process_crews(runtime: Runtime, count: int, folder: Path) -> Iterator[tuple[Crew, Crew]]:
    """Yield one process and several, each with a library."""
    with (
        Workers(runtime, 1) as single,
        Workers(runtime, count) as several,
        open_library(runtime, folder / "one") as one,
        open_library(runtime, folder / "many") as many,
    ):
        yield _Processes(runtime, single, one), _Processes(runtime, several, many)


@contextlib.contextmanager
def _ray_crews(runtime: Runtime, count: int, folder: Path) -> Iterator[tuple[Crew, Crew]]:
    """Yield one actor and several, each with a shard."""
    settings = ModelSettings(str(runtime.folder), runtime.device.type, 1, runtime.dtype_name)
    options = ReadingOptions(settings)
    with (
        connect(LOCAL, cpus=1 + count) as cluster,
        ShardedReading(cluster, ShardedLibrary(folder / "one", 1), options) as one,
        ShardedReading(cluster, ShardedLibrary(folder / "many", count), options) as many,
    ):
        one.open()
        many.open()
        yield _Actors(one), _Actors(many)
