"""``drt bench library``: write, check, open, list and ask a library of made-up records.

The records are those of made_up.py, the questions of questions.py, and only files that are read
again are read by the model (again.py). Each number stands beside the disk's or the checksum's own
rate, or beside the same over a small library.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from drt_engine.ingest.temporary import open_library
from drt_engine.retrieval.clustering import required_faiss
from drt_engine.runtime import Runtime
from drt_engine.store import Store
from drt_lab.bench import again
from drt_lab.bench.made_up import MadeUp, make_document, make_library
from drt_lab.bench.parts import MEGA, BenchOptions, run_process
from drt_lab.bench.questions import asking
from drt_lab.bench.shards import simulated_shards
from drt_lab.bench.timing import load_average
from drt_lab.evaluate.report import BenchReport, BenchRow, bench_row

TOKENS = 1 << 18
SMALL_TOKENS = 4096
SMALL_DOCUMENTS = 100  # at least
CHECKED_BYTES = 4 << 30  # checked more than once only below this
WRITE, DISK = "write records", "write and fsync a file"
CHECK, CRC = "check records", "crc32 of the same bytes"


def bench_library(runtime: Runtime, options: BenchOptions) -> BenchReport:
    """Make one large document of ``tokens`` tokens, and a small one per 1,600, 10,000 at most."""
    if options.approximate:
        required_faiss()  # before hours go into making a library
    started = time.monotonic()
    tokens, files = options.tokens or TOKENS, options.files or again.FILES
    documents = max(SMALL_DOCUMENTS, min(10_000, tokens // 1_600))
    rows: list[BenchRow] = []
    load = load_average()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="drt-bench-")))
        libraries = folder if options.folder is None else options.folder
        small, large = libraries / "small", libraries / f"tokens-{tokens}"
        rows += _writing(runtime, small, large, tokens)
        rows += _checking(runtime, large, options)
        rows += asking(runtime, small, large, options)
        if options.shards is not None:
            rows += simulated_shards(runtime, large, options)
        rows += _small_documents(runtime, folder / "many", documents, options)
        rows += again.reading_again(
            runtime, folder, tokens=tokens, files=files, repeat=options.repetitions
        )
        with open_library(runtime, large) as store:
            stats = store.stats()
    return BenchReport(
        bench="library",
        rows=rows,
        seconds=time.monotonic() - started,
        model=runtime.name,
        calibration={
            "tokens": int(stats["tokens"]),
            "small_documents": documents,
            "files_read_again": files,
            "bytes_per_token": stats["bytes_per_token"],
            "threads": torch.get_num_threads(),
            "load_before": load,
            "load_after": load_average(),
        },
    )


def _writing(runtime: Runtime, small: Path, large: Path, tokens: int) -> list[BenchRow]:
    """Write the small and the large library; the rate beside a plain file of the same size.

    Libraries that are there already are not timed.
    """
    for library in (small, large):
        library.parent.mkdir(parents=True, exist_ok=True)
    make_library(runtime, small, tokens=SMALL_TOKENS)
    seconds = make_library(runtime, large, tokens=tokens)
    plain = [_plain_rate(large.parent / "plain") for _ in range(3)]
    rows = [bench_row(DISK, plain, unit="MB/s")]
    if seconds is None:
        return rows
    size = sum(f.stat().st_size for f in large.rglob("*") if f.is_file())
    rates = [size / seconds / MEGA]
    return [bench_row(WRITE, rates, unit="MB/s", against=DISK, against_values=plain), *rows]


def _plain_rate(path: Path) -> float:
    data = os.urandom(1 << 22)
    start_time = time.perf_counter()
    with path.open("wb") as file:
        for _ in range(8):
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
    seconds = time.perf_counter() - start_time
    path.unlink()
    return 8 * len(data) / seconds / MEGA


def _checking(runtime: Runtime, library: Path, options: BenchOptions) -> list[BenchRow]:
    files = [f for f in (library / "segments").iterdir() if f.is_file()]
    size = sum(file.stat().st_size for file in files)
    seconds, sums = [], []
    for _ in range(max(1, min(options.repetitions, 3, CHECKED_BYTES // size))):
        with open_library(runtime, library) as store:
            start_time = time.perf_counter()
            findings = store.check()
            seconds.append(time.perf_counter() - start_time)
        assert not findings, findings
        start_time = time.perf_counter()
        for file in files:
            zlib.crc32(file.read_bytes())
        sums.append(size / (time.perf_counter() - start_time) / MEGA)
    rates = [size / check_seconds / MEGA for check_seconds in seconds]
    return [
        bench_row(CHECK, rates, unit="MB/s", against=CRC, against_values=sums),
        bench_row(CRC, sums, unit="MB/s"),
        bench_row("check the whole library", seconds, unit="s"),
    ]


def _small_documents(
    runtime: Runtime, library: Path, documents: int, options: BenchOptions
) -> list[BenchRow]:
    made_up = MadeUp(runtime, seed=1)
    with open_library(runtime, library) as store:
        start_time = time.perf_counter()
        for number in range(1, documents + 1):
            make_document(store, made_up, number=number, chunks=1)
        written = documents / (time.perf_counter() - start_time)
    opening, listing, first, again = [], [], [], []
    for _ in range(options.repetitions):
        start_time = time.perf_counter()
        with open_library(runtime, library) as store:
            opening.append(1000 * (time.perf_counter() - start_time))
            listing.append(1000 * _seconds(store.documents))
            first.append(1000 * _seconds(partial(_scan, store)))
            again.append(1000 * _seconds(partial(_scan, store)))
    command = options.command(runtime, library, "library", "list")
    process = [run_process(command).total for _ in range(options.repetitions)]
    python = [run_process([sys.executable, "-c", "print()"]).total for _ in process]
    return [
        bench_row(f"write {documents:,} small documents", [written], unit="documents/s"),
        bench_row("open it", opening, unit="ms"),
        bench_row("list its documents", listing, unit="ms"),
        bench_row("`drt library list`", process, unit="s", against="python", against_values=python),
        bench_row("python", python, unit="s"),
        bench_row("first scan of its landmarks", first, unit="ms"),
        bench_row("next scan", again, unit="ms"),
    ]


def _scan(store: Store) -> int:
    return sum(len(ids) for ids, _ in store.scan_landmarks())


def _seconds(work: Callable[[], object]) -> float:
    start_time = time.perf_counter()
    work()
    return time.perf_counter() - start_time
