"""How many processor threads to compute with, and why; threads that work beside them.

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
    """A number of threads, and what it follows from."""

    count: int
    reason: str


def choose_threads(
    asked: int | None = None, *, environment: Mapping[str, str] = os.environ
) -> Threads:
    """Return how many threads to compute with: ``asked``, else OMP_NUM_THREADS, else one for each
    physical core that this process may use; never more than it may use processors.
    """
    allowed = len(allowed_processors())
    named = environment.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if asked is not None:
        found = Threads(asked, "asked for")
    elif named.isdecimal() and int(named) > 0:
        found = Threads(int(named), "OMP_NUM_THREADS")
    else:
        found = _free_choice()
    if found.count > allowed:
        more = f"{found.reason} {found.count}, but this process may use no more processors"
        return Threads(allowed, more)
    return found


def set_threads(asked: int | None = None) -> Threads:
    """Choose, tell PyTorch, and leave a line for those who debug."""
    chosen = choose_threads(asked)
    torch.set_num_threads(chosen.count)
    _log.debug("computing on %d threads (%s)", chosen.count, chosen.reason)
    return chosen


def worker(name: str) -> ThreadPoolExecutor:
    """Return one thread to work beside the computing ones; its tensor operations stay on itself.

    Else each thread that touches a tensor would bring a pool of its own, and they would wait for
    one another's processors.
    """
    thread = ThreadPoolExecutor(1, thread_name_prefix=name)
    count = torch.get_num_threads()
    thread.submit(_stay_alone).result()
    torch.set_num_threads(count)  # for threads to come; a pool that runs keeps its number
    return thread


def allowed_processors() -> set[int]:
    """Return the numbers of the processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def physical_cores(processors: set[int], cpus: Path = _CPUS) -> int:
    """Return how many cores these processors belong to; hyper-threads of one core share it."""
    cores = set()
    for number in processors:
        try:
            siblings = (cpus / f"cpu{number}/topology/thread_siblings_list").read_text()
        except OSError:
            siblings = str(number)
        cores.add(siblings.strip())
    return max(1, len(cores))


def quota(cgroups: Path = _CGROUPS) -> int | None:
    """Return how many whole processors the control group grants, at least 1; None when it does not
    say.
    """
    try:
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


def _free_choice() -> Threads:
    cores, granted = physical_cores(allowed_processors()), quota()
    if granted is not None and granted < cores:
        return Threads(granted, "quota of the control group")
    return Threads(cores, "physical cores of this process")


def _stay_alone() -> None:
    torch.set_num_threads(1)
    torch.get_num_threads()  # PyTorch asks its global number once for each thread: let it be now
