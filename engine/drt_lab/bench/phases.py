"""Where the time of a question goes: the functions of retrieval, timed while questions are asked.

Asking itself has no clock in it: these functions are wrapped as long as a benchmark watches them.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from drt_engine.retrieval import candidates, library
from drt_engine.store.view import LibraryView

SCAN, BM25, CANDIDATES = "landmark scan", "bm25", "candidates"
RECORDS, LATE = "read records", "late interaction"
PASSAGES, READER, REST = "read passages", "reader pass", "prompt and answer"
PHASES = (SCAN, BM25, CANDIDATES, RECORDS, LATE, PASSAGES, READER, REST)
# Where each phase is called from, and under which name.
_WATCHED: tuple[tuple[Any, str, str], ...] = (
    (candidates, "landmark_topk", SCAN),
    (library, "lexical_scores", BM25),
    (library, "find_candidates", CANDIDATES),
    (library, "rerank", LATE),
    (LibraryView, "read_chunks", RECORDS),
    (library, "read_windows", PASSAGES),
    (library, "read_passages", READER),
)


@dataclass
class Seconds:
    """Seconds of a clock, and of the processor."""

    wall: float = 0.0
    cpu: float = 0.0

    @classmethod
    def now(cls) -> Seconds:
        """Return what the clocks say; the processor's counts all threads."""
        return cls(time.perf_counter(), time.process_time())

    def __sub__(self, other: Seconds) -> Seconds:
        return Seconds(self.wall - other.wall, self.cpu - other.cpu)

    def add(self, other: Seconds) -> None:
        """Add what another span of time took."""
        self.wall += other.wall
        self.cpu += other.cpu


class Stopwatch:
    """The time of each phase of the work that is done under ``watching``.

    A phase has its own time only: what it calls of other phases counts there.
    """

    def __init__(self) -> None:
        self.phases: defaultdict[str, Seconds] = defaultdict(Seconds)
        self._running: list[Seconds] = []  # of each phase that has begun: time of others inside

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Time the phases of this process until the block ends; what is left is ``REST``."""
        originals = [(owner, name, getattr(owner, name)) for owner, name, _ in _WATCHED]
        try:
            for owner, name, phase in _WATCHED:
                setattr(owner, name, self._timed(phase, getattr(owner, name)))
            with self._phase(REST):
                yield
        finally:
            for owner, name, original in originals:
                setattr(owner, name, original)

    def _timed(self, phase: str, work: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(work)
        def timed(*arguments: Any, **options: Any) -> Any:
            with self._phase(phase):
                return work(*arguments, **options)

        return timed

    @contextlib.contextmanager
    def _phase(self, phase: str) -> Iterator[None]:
        inside = Seconds()
        self._running.append(inside)
        start = Seconds.now()
        try:
            yield
        finally:
            taken = Seconds.now() - start
            self._running.pop()
            self.phases[phase].add(taken - inside)
            if self._running:
                self._running[-1].add(taken)
