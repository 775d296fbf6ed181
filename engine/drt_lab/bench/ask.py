"""``drt bench ask``: a question to a document read before, warm and from a cold process."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

from drt_engine.answer.ask import ask
from drt_engine.answer.options import AskOptions
from drt_engine.answer.preview import watch_reading
from drt_engine.documents import Source
from drt_engine.ingest.pipeline import ingest_source
from drt_engine.ingest.temporary import open_library
from drt_engine.runtime import Runtime
from drt_engine.store import Store
from drt_lab.bench.helper import Helper
from drt_lab.bench.parts import (
    GIGA,
    MATMUL,
    MEGA,
    BenchOptions,
    Matmul,
    MemoryCopy,
    ProcessTimes,
    run_process,
    wait,
)
from drt_lab.data.json_lines import read_records
from drt_lab.evaluate.qa import check_quoting
from drt_lab.evaluate.report import BenchReport, BenchRow, bench_row, median_iqr

TOKENS = 30_000
ASK, STORED, COLD, PYTHON = "ask", "ask --no-reread", "cold `drt ask`", "python importing torch"
FIRST_WORDS = "ask, first words"
HELPED = "`drt ask` with its helper process"
_IMPORT = [sys.executable, "-c", "import torch; print()"]


def bench_ask(runtime: Runtime, options: BenchOptions) -> BenchReport:
    """Ask one question again and again; raises ConfigError for a model that does not quote.

    How much of what was retrieved is read differs by question, so others are asked, too, where the
    options name a file of them.
    """
    started = time.monotonic()
    check_quoting(runtime, reread=False)
    questions = _questions(options.questions)
    matmul, copy = Matmul(runtime), MemoryCopy(1 << 26)
    modes = {ASK: True, STORED: False} if runtime.config.reads_passages else {STORED: False}
    warm: dict[str, list[float]] = {name: [] for name in modes}
    first: list[float] = []
    cold: list[ProcessTimes] = []
    python: list[ProcessTimes] = []
    with tempfile.TemporaryDirectory(prefix="drt-bench-") as name:
        library = Path(name) / "library"
        file = options.text_file(Path(name), tokens=TOKENS)
        command = options.command(runtime, library, "--warm", "off", "ask", options.question)
        helped: list[ProcessTimes] = []
        with (
            Helper.started(options, runtime, library) as helper,
            open_library(runtime, library) as store,
        ):
            row, _ = ingest_source(runtime, store, Source.from_path(file))
            for reread in modes.values():
                _timed(runtime, store, options.question, reread=reread)
            for _ in range(options.repetitions):
                for mode, reread in modes.items():
                    matmul.time()
                    warm[mode].append(_timed(runtime, store, options.question, reread=reread))
                first += _first_words(runtime, store, options.question)
                copy.time()
                cold.append(run_process(command))
                if helper is not None:
                    helped.append(helper.ask(options.question))
                python.append(run_process(_IMPORT))
            each = [
                [_timed(runtime, store, question, reread=True) for question in questions]
                for _ in range(options.repetitions)
            ]
    return BenchReport(
        bench="ask",
        rows=[
            *_warm_rows(warm, matmul),
            *_first_rows(first, warm),
            *_each_rows(each, matmul),
            *_helped_rows(helped, warm, python),
            *_cold_rows(cold, python),
        ],
        seconds=time.monotonic() - started,
        model=runtime.name,
        calibration={
            "matmul_gflops": median_iqr(matmul.rates)[0] / GIGA,
            "memcpy_gb_per_s": median_iqr(copy.rates)[0] / GIGA,
            "matmul_bits": torch.finfo(runtime.dtype).bits,
            "threads": torch.get_num_threads(),
            "tokens": row.tokens,
        },
    )


def _questions(path: Path | None) -> list[str]:
    """Return the questions of a file, none without one; raises ``DataError``."""
    return [] if path is None else [record.string("question") for record in read_records(path)]


def _timed(runtime: Runtime, store: Store, question: str, *, reread: bool) -> float:
    start_time = time.perf_counter()
    ask(runtime, store, question, AskOptions(reread=reread))
    wait(runtime)
    return time.perf_counter() - start_time


def _first_words(runtime: Runtime, store: Store, question: str) -> list[float]:
    """Return the seconds until the best retrieved sentence is there; none where none is read."""
    seconds: list[float] = []
    start_time = time.perf_counter()
    with watch_reading(lambda _: seconds.append(time.perf_counter() - start_time)):
        ask(runtime, store, question, AskOptions())
    return seconds[:1]


def _first_rows(first: list[float], warm: dict[str, list[float]]) -> list[BenchRow]:
    if not first:
        return []
    against, reference = next(iter(warm.items()))
    milliseconds = [[1000 * s for s in seconds] for seconds in (first, reference)]
    return [
        bench_row(
            FIRST_WORDS,
            milliseconds[0],
            unit="ms",
            against=against,
            against_values=milliseconds[1],
        )
    ]


def _warm_rows(warm: dict[str, list[float]], matmul: Matmul) -> list[BenchRow]:
    milliseconds = {name: [1000 * s for s in seconds] for name, seconds in warm.items()}
    products = [1000 * s for s in matmul.seconds]
    rows = []
    for name, values in milliseconds.items():
        against, reference = (STORED, milliseconds[STORED]) if name == ASK else (MATMUL, products)
        rows.append(bench_row(name, values, unit="ms", against=against, against_values=reference))
    return [*rows, bench_row(MATMUL, products, unit="ms")]


def _each_rows(each: list[list[float]], matmul: Matmul) -> list[BenchRow]:
    """Return what a question takes: the median over the questions of the median over repetitions.

    ``each`` [repetitions, questions] are seconds.
    """
    medians = [1000 * statistics.median(times) for times in zip(*each, strict=True)]
    if not medians:
        return []
    products = [1000 * s for s in matmul.seconds]
    words = f"of {len(medians)} questions"
    return [
        bench_row(
            f"ask, median {words}", medians, unit="ms", against=MATMUL, against_values=products
        ),
        bench_row(f"ask, mean {words}", [statistics.fmean(medians)], unit="ms"),
    ]


def _helped_rows(
    helped: list[ProcessTimes], warm: dict[str, list[float]], python: list[ProcessTimes]
) -> list[BenchRow]:
    """Return what a command in the helper takes, and of that what is not the question."""
    if not helped:
        return []
    imports = [process.total for process in python]
    asking = next(iter(warm.values()))
    pairs = zip(helped, asking, strict=True)
    values = {
        f"{HELPED}, first output": [process.first_output for process in helped],
        f"{HELPED}, but for the question": [p.first_output - seconds for p, seconds in pairs],
        f"{HELPED}, to its end": [process.total for process in helped],
    }
    return [
        bench_row(name, seconds, unit="s", against=PYTHON, against_values=imports)
        for name, seconds in values.items()
    ]


def cold_processes(command: list[str], repetitions: int) -> list[BenchRow]:
    """Run a ``drt ask`` in processes of its own, by turns with ones that only import torch."""
    cold, python = [], []
    for _ in range(repetitions):
        cold.append(run_process(command))
        python.append(run_process(_IMPORT))
    return _cold_rows(cold, python)


def _cold_rows(cold: list[ProcessTimes], python: list[ProcessTimes]) -> list[BenchRow]:
    imports = [process.total for process in python]
    rows = [
        bench_row(
            f"{COLD}, first output",
            [process.first_output for process in cold],
            unit="s",
            against=PYTHON,
            against_values=imports,
        ),
        bench_row(PYTHON, imports, unit="s"),
    ]
    peaks = [p.peak_bytes / MEGA for p in cold if p.peak_bytes is not None]
    return [*rows, bench_row(f"peak memory of {COLD}", peaks, unit="MB")] if peaks else rows
