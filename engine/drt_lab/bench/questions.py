"""Questions over a large and a small library in turns: their time, its phases, and the memory.

The processor's seconds are beside those of the clock: where other work runs on the machine, they
are what can be compared.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path

from drt_engine.answer.ask import ask
from drt_engine.answer.options import AskOptions
from drt_engine.ingest.temporary import open_library
from drt_engine.retrieval.index import IndexOptions, make_index
from drt_engine.runtime import Runtime
from drt_engine.search.search import SearchRequest, search
from drt_engine.store import Store
from drt_kernels.scan.coder import CODED_ROWS
from drt_lab.bench.ask import cold_processes
from drt_lab.bench.parts import MEGA, BenchOptions
from drt_lab.bench.phases import PHASES, Seconds, Stopwatch
from drt_lab.evaluate.report import BenchRow, bench_row

ASK, SEARCH = "ask", "search"
SMALL = "over 4k tokens"
APPROXIMATE = "by {} of {} lists"
_STATUS = Path("/proc/self/status")


def asking(runtime: Runtime, small: Path, large: Path, options: BenchOptions) -> list[BenchRow]:
    """Ask and search over both libraries in turns; then answer first, in an opening and a process.

    Milliseconds, of the clock and of the processor.
    """
    samples = _Samples(runtime, options.question)
    opened = []
    with open_library(runtime, small) as small_store, open_library(runtime, large) as large_store:
        for _ in range(2 + -(-large_store.stats()["chunks"] // CODED_ROWS)):
            for _ in large_store.scan_coded_landmarks():  # each scan makes codes for some more
                pass
        asked = [(SMALL, small_store), ("", large_store)]
        if options.approximate:
            index = make_index(large_store, IndexOptions(options.lists))
            asked.append((APPROXIMATE.format(index.probes, index.lists), large_store))
        for number in range(-2, options.repetitions):
            for name, store in asked:
                samples.take(name, store, counts=number >= 0)
        memory = _memory_rows()
        for _ in range(options.repetitions):
            start_time = time.perf_counter()
            with open_library(runtime, large) as store:
                opened.append(1000 * (time.perf_counter() - start_time))
    opened_first = _asked_after_opening(runtime, large, options)
    against = [1000 * taken.wall for taken in samples.whole[ASK, ""]]
    command = options.command(runtime, large, "ask", options.question)
    return [
        *samples.rows(),
        *memory,
        bench_row("open the large library", opened, unit="ms"),
        bench_row(
            "ask after opening", opened_first, unit="ms", against=ASK, against_values=against
        ),
        *cold_processes(command, options.repetitions),
    ]


class _Samples:
    """What questions took, by what was done and over which library."""

    def __init__(self, runtime: Runtime, question: str) -> None:
        self._runtime, self._question = runtime, question
        self.whole: dict[tuple[str, str], list[Seconds]] = {}
        self._phases: dict[tuple[str, str], list[float]] = {}

    def take(self, library: str, store: Store, *, counts: bool) -> None:
        """Ask and search once over a library."""
        approximate = library not in ("", SMALL)
        stopwatch, start = Stopwatch(), Seconds.now()
        with stopwatch.watching():
            ask(self._runtime, store, self._question, AskOptions(approximate=approximate))
        asked, start = Seconds.now() - start, Seconds.now()
        search(self._runtime, store, self._question, SearchRequest(approximate=approximate))
        if not counts:
            return
        self.whole.setdefault((ASK, library), []).append(asked)
        self.whole.setdefault((SEARCH, library), []).append(Seconds.now() - start)
        for phase in PHASES:
            cpu = 1000 * stopwatch.phases[phase].cpu
            self._phases.setdefault((phase, library), []).append(cpu)

    def rows(self) -> list[BenchRow]:
        """Return everything over the large library beside the same over the small one."""
        rows: list[BenchRow] = []
        libraries = dict.fromkeys(library for _, library in self.whole)
        for library in (name for name in libraries if name != SMALL):
            rows += self._compared_with_small(library)
        # The small library's rows are the same beside each.
        return list({row.name: row for row in rows}.values())

    def _compared_with_small(self, library: str) -> list[BenchRow]:
        rows: list[BenchRow] = []
        words = f" {library}" if library else ""
        for work in (ASK, SEARCH):
            for clock, suffix in (("wall", ""), ("cpu", ", processor")):
                large, small = (
                    [1000 * getattr(taken, clock) for taken in self.whole[work, name]]
                    for name in (library, SMALL)
                )
                names = (f"{work}{words}{suffix}", f"{work} {SMALL}{suffix}")
                rows += _compared(*names, large, small)
        for phase in PHASES:
            large, small = self._phases[phase, library], self._phases[phase, SMALL]
            rows += _compared(f"ask{words}: {phase}", f"ask {SMALL}: {phase}", large, small)
        return rows


def _compared(
    name: str, small_name: str, large: Sequence[float], small: Sequence[float]
) -> list[BenchRow]:
    small_row = bench_row(small_name, small, unit="ms")
    if not small_row.median:  # a phase that this model has not
        return []
    return [
        bench_row(name, large, unit="ms", against=small_name, against_values=small),
        small_row,
    ]


def _asked_after_opening(runtime: Runtime, library: Path, options: BenchOptions) -> list[float]:
    times = []
    for _ in range(options.repetitions):
        with open_library(runtime, library) as store:
            start_time = time.perf_counter()
            ask(runtime, store, options.question, AskOptions())
            times.append(1000 * (time.perf_counter() - start_time))
    return times


def _memory_rows() -> list[BenchRow]:
    """Return this process's resident memory, its own and of mapped files, where Linux tells it."""
    status = _STATUS.read_text("utf-8") if _STATUS.exists() else ""
    names = {"RssAnon": "memory after the questions", "RssFile": "mapped files after the questions"}
    matches = {name: re.search(rf"{name}:\s+(\d+) kB", status) for name in names}
    return [
        bench_row(names[name], [int(match[1]) * 1024 / MEGA], unit="MB")
        for name, match in matches.items()
        if match
    ]
