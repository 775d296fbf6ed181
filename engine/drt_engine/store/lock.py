"""The one writer's lock, held across processes with flock.

Knows nothing of what is written; readers never need it.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path
from types import TracebackType

from drt_engine.errors import LockTimeout

_POLL_SECONDS = 0.05


class WriterLock:
    """A counted lock: nested use inside one store is allowed, other stores and processes wait."""

    def __init__(self, path: Path, *, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._descriptor = -1
        self._depth = 0
        self._guard = threading.Lock()

    def acquire(self) -> None:
        """Take the lock; raises LockTimeout, naming the holder, after the timeout."""
        with self._guard:
            if self._depth == 0:
                self._descriptor = self._locked_descriptor()
            self._depth += 1

    def release(self) -> None:
        """Give the lock back; the file stays, since deleting it would let two writers in."""
        with self._guard:
            self._depth -= 1
            if self._depth == 0:
                os.ftruncate(self._descriptor, 0)
                os.close(self._descriptor)
                self._descriptor = -1

    def __enter__(self) -> WriterLock:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def _locked_descriptor(self) -> int:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        deadline = time.monotonic() + self._timeout
        try:
            while not _try_lock(descriptor):
                if time.monotonic() >= deadline:
                    raise LockTimeout(self._busy_message(descriptor))
                time.sleep(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic())))
            _sign(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _busy_message(self, descriptor: int) -> str:
        holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        who = f"process {holder}" if holder else "another process"
        return (
            f"{who} is writing to the library at {self._path.parent} and did not finish within"
            f" {self._timeout:g} s: wait for it, or allow more time with --lock-timeout"
        )


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sign(descriptor: int) -> None:
    """Leave our process id for those who wait; a full disk only costs them the number."""
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
    except OSError:
        return
