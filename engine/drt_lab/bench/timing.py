"""How work is timed: in turns, on a CPU or by the events of a GPU whose cache was emptied.

Knows nothing of what is timed.
"""

from __future__ import annotations

import logging
import math
import os
import random
import sys
import time
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache

import torch

_log = logging.getLogger("drt")
_SHORT = 0.02  # seconds; shorter work is repeated within one timing, so caches are its own
_MOST = 200  # times within one timing: each costs a GPU its flush, too
_FLUSH = 1 << 29  # bytes: more than any GPU's L2, and as long as a launch takes
_GPU_SHARE = 0.9  # of a GPU's memory: what needs more is left out, and nobody else's work suffers

Work = Callable[[], object]


def load_average() -> float | None:
    """Return how many processes wanted to run in the last minute; None on Windows."""
    if sys.platform == "win32":
        return None
    return os.getloadavg()[0]


class Clock:
    """Times work on one device, in seconds."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._flush = _flush_buffer(device) if device.type == "cuda" else None

    def seconds(self, work: Work, times: int = 1) -> float:
        """Do ``work`` some ``times``; return the seconds of one."""
        if self._flush is not None:
            return sum(self._by_events(work, self._flush) for _ in range(times)) / times
        start_time = time.perf_counter()
        for _ in range(times):
            work()
        return (time.perf_counter() - start_time) / times

    def wait(self) -> None:
        """Return when the device has done what it was given."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    @staticmethod
    def _by_events(work: Work, flush: torch.Tensor) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        # Not waited for: while the GPU is busy with it, the work is launched behind it.
        flush.zero_()
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end)) / 1000


@lru_cache(maxsize=1)
def _flush_buffer(device: torch.device) -> torch.Tensor:
    torch.cuda.set_per_process_memory_fraction(_GPU_SHARE)
    return torch.empty(_FLUSH, dtype=torch.uint8, device=device)


def in_turns(
    works: Mapping[str, Work],
    clock: Clock,
    *,
    repetitions: int,
    needed: Collection[str] = (),
) -> dict[str, list[float]]:
    """Time each work ``repetitions`` times, in rounds of all.

    Each round has another order, since work after one that empties a cache is slower. Work that
    cannot run here is left out with a line that says why, unless it is ``needed``.
    """
    times: dict[str, int] = {}
    for name, work in works.items():
        try:
            work()  # compiles, fills caches, takes memory
            clock.wait()
            once = clock.seconds(work)
        except Exception as error:  # whatever an alternative raises here is the reason to report
            if name in needed:
                raise
            _log.warning("left out: %s (%s)", name, reason(error))
            continue
        times[name] = min(_MOST, max(1, math.ceil(_SHORT / max(once, 1e-7))))
    seconds: dict[str, list[float]] = {name: [] for name in times}
    chance, order = random.Random(0), list(times)
    for _ in range(repetitions):
        chance.shuffle(order)
        for name in list(order):
            try:
                seconds[name].append(clock.seconds(works[name], times[name]))
            except Exception as error:  # such as memory that others took meanwhile
                if name in needed:
                    raise
                _log.warning("left out: %s (%s)", name, reason(error))
                order.remove(name)
                del seconds[name]
    return seconds


def reason(error: Exception) -> str:
    """Return the kind of an error and the first sentence of its message."""
    lines = str(error).strip().splitlines() or ["without a word"]
    return f"{type(error).__name__}: {lines[0].split('. ')[0]}"
