"""The number of CPU threads to compute with, and helper threads that do not compete with them.

Knows nothing of models.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch

_log = logging.getLogger("drt")
_CPUS = Path("/sys/devices/system/cpu")
_CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Threads:
    """A number of threads, and the reason for it."""

    count: int
    reason: str


def choose_threads(
    requested: int | None = None, *, environment: Mapping[str, str] = os.environ
) -> Threads:
    """Return how many threads to compute with.

    That is ``requested``, else ``OMP_NUM_THREADS``, else one per physical core that this process
    may use; never more than the processors that it may use.
    """
    allowed = len(allowed_processors())
    # OpenMP allows a list, one number for each level of nesting; the first is ours.
    variable = environment.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if requested is not None:
        threads = Threads(requested, "asked for")
    elif variable.isdecimal() and int(variable) > 0:
        threads = Threads(int(variable), "OMP_NUM_THREADS")
    else:
        threads = _default_threads()
    if threads.count > allowed:
        reason = f"{threads.reason} {threads.count}, but this process may use no more processors"
        return Threads(allowed, reason)
    return threads


def set_threads(requested: int | None = None) -> Threads:
    """Choose a number of threads, pass it to PyTorch, and log the reason."""
    threads = choose_threads(requested)
    torch.set_num_threads(threads.count)
    _log.debug("computing on %d threads (%s)", threads.count, threads.reason)
    return threads


def worker(name: str) -> ThreadPoolExecutor:
    """Return an executor with one thread, whose tensor operations stay on that thread.

    Otherwise each thread that touches a tensor would start an OpenMP pool of its own, and the pools
    would compete for the processors.
    """
    thread = ThreadPoolExecutor(1, thread_name_prefix=name)
    count = torch.get_num_threads()
    thread.submit(use_threads, 1).result()
    # Restores the global number for threads started later; a running pool keeps its own.
    torch.set_num_threads(count)
    return thread


def use_threads(count: int) -> None:
    """Let tensor operations of this thread use so many; those of threads that ran keep theirs."""
    torch.set_num_threads(count)
    # PyTorch reads its global number once per thread, at first use: make that happen now.
    torch.get_num_threads()


def allowed_processors() -> set[int]:
    """Return the numbers of the processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        processors: set[int] = os.sched_getaffinity(0)
        return processors
    return set(range(os.cpu_count() or 1))


def physical_cores(processors: set[int], cpus: Path = _CPUS) -> int:
    """Return how many cores these processors belong to; hyper-threads share a core."""
    cores = set()
    for number in processors:
        try:
            siblings = (cpus / f"cpu{number}/topology/thread_siblings_list").read_text()
        except OSError:
            siblings = str(number)
        cores.add(siblings.strip())
    return max(1, len(cores))


def quota(cgroups: Path = _CGROUPS) -> int | None:
    """Return how many whole processors the control group grants, at least 1; None for no limit."""
    try:  # version 2 of control groups, then version 1
        limit, period = (cgroups / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            limit = (cgroups / "cpu/cpu.cfs_quota_us").read_text().strip()
            period = (cgroups / "cpu/cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    if not (limit.isdecimal() and period.isdecimal() and int(period)):
        return None  # "max", or -1
    return max(1, int(limit) // int(period))


def _default_threads() -> Threads:
    cores, granted = physical_cores(allowed_processors()), quota()
    if granted is not None and granted < cores:
        return Threads(granted, "quota of the control group")
    return Threads(cores, "physical cores of this process")
