"""What a process needs for its forks to compute: no thread but its own, and no GPU."""

from __future__ import annotations

import os
import sys
import time

_THREADS = "/proc/self/task"
_WAIT = 2.0  # seconds; a thread that has been joined may still be listed
_MOST = 1  # threads of a process that can fork


def import_numpy() -> None:
    """Import numpy without the threads that OpenBLAS begins with it, of which drt has no use."""
    name = "OPENBLAS_NUM_THREADS"
    before = os.environ.get(name)
    os.environ[name] = "1"  # read as the library is loaded, and of no meaning afterwards
    try:
        import numpy  # noqa: F401
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before


def has_other_threads() -> bool:
    """Return whether this process has threads beside this one, once those that end are gone."""
    end = time.monotonic() + _WAIT
    while len(os.listdir(_THREADS)) > _MOST:
        if time.monotonic() > end:
            return True
        time.sleep(0.001)
    return False


def uses_gpu() -> bool:
    """Return whether this process uses a GPU, which its forks cannot."""
    return "torch" in sys.modules and bool(sys.modules["torch"].cuda.is_initialized())
