"""Locks across processes: the one writer's, and the one that snapshots share.

The kernel frees the lock of a process that died. Knows nothing of what is written.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from drt_engine.errors import LockTimeout
from drt_engine.files import lock, read_at, unlock, write_at
from drt_engine.store.filesystem.disk import FULL, READ_ONLY, open_plain

_POLL_SECONDS = 0.05
# snapshots of this process by lock file and thread: one inside another passes a closed gate
_snapshots: Counter[tuple[Path, int]] = Counter()


class WriterLock:
    """A counted lock: nested use inside one store is allowed, other stores and processes wait."""

    def __init__(self, path: Path, *, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._descriptor = -1
        self._depth = 0
        self._guard = threading.Lock()

    def acquire(self) -> bool:
        """Take the lock, and whether it was free in this store; LockTimeout naming the holder."""
        with self._guard:
            if self._depth == 0:
                self._descriptor = self._locked_descriptor()
            self._depth += 1
            return self._depth == 1

    def release(self) -> None:
        """Give the lock back; the file stays, since deleting it would let two writers in."""
        with self._guard:
            self._depth -= 1
            if self._depth == 0:
                descriptor, self._descriptor = self._descriptor, -1
                with contextlib.suppress(OSError):  # our number in it misleads nobody for long
                    os.ftruncate(descriptor, 0)
                with contextlib.suppress(OSError):  # closing it frees the lock as well
                    unlock(descriptor)
                os.close(descriptor)

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
        descriptor = open_plain(self._path, os.O_RDWR | os.O_CREAT)
        try:
            if not _locked_within(descriptor, self._timeout):
                raise LockTimeout(self._busy_message(descriptor))
            _sign(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _busy_message(self, descriptor: int) -> str:
        holder = ""
        with contextlib.suppress(PermissionError):  # Windows: what is locked cannot be read
            holder = read_at(descriptor, 32, 0).decode("ascii", "replace").strip()
        who = f"process {holder}" if holder else "another process"
        return (
            f"{who} is writing to the library at {self._path.parent} and did not finish within"
            f" {self._timeout:g} s: wait for it, or allow more time with --lock-timeout"
        )


class ReadersLock:
    """Shared by every snapshot; who deletes files asks whether there is none.

    Who waits for the readers closes a gate, so that others do not begin meanwhile: readers that
    overlap would keep it waiting for ever. The gate is fairness alone. A reader whose timeout
    passes before it goes on without, and so does one inside another of its thread, for which the
    gate would never open.
    """

    def __init__(self, path: Path, gate: Path, *, timeout: float) -> None:
        self._path = path
        self._gate = gate
        self.timeout = timeout

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Keep files from being deleted; waits while another process deletes some, or wants to."""
        snapshot = self._path, threading.get_ident()
        if not _snapshots[snapshot]:
            self._pass_gate()
        with self._opened_lock(self.timeout, shared=True) as is_locked:
            if not is_locked:
                raise LockTimeout(
                    f"another process is deleting files of the library at {self._path.parent} and"
                    f" did not finish within {self.timeout:g} s: ask again"
                )
            _snapshots[snapshot] += 1
            try:
                yield
            finally:
                _snapshots[snapshot] -= 1
                if not _snapshots[snapshot]:
                    del _snapshots[snapshot]

    @contextlib.contextmanager
    def excluded(self, *, wait: bool = False) -> Iterator[bool]:
        """Yield whether there is no reader; none begins before the block ends."""
        with (
            self._closed_gate() if wait else contextlib.nullcontext(),
            self._opened_lock(self.timeout if wait else 0.0) as is_locked,
        ):
            yield is_locked

    @contextlib.contextmanager
    def drained(self) -> Iterator[bool]:
        """Yield whether all readers ended in time; others wait at the gate until the block ends."""
        with self._closed_gate():
            with self._opened_lock(self.timeout) as is_locked:
                pass
            yield is_locked

    def _pass_gate(self) -> None:
        try:
            descriptor = open_plain(self._gate, os.O_RDONLY)
        except (FileNotFoundError, PermissionError):  # never closed, or by another user
            return
        try:
            if _locked_within(descriptor, self.timeout, shared=True):
                unlock(descriptor)
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _closed_gate(self) -> Iterator[None]:
        try:
            descriptor = open_plain(self._gate, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            if error.errno not in READ_ONLY | FULL:
                raise
            yield
            return
        try:
            is_locked = _locked_within(descriptor, self.timeout)
            try:
                yield
            finally:
                if is_locked:
                    with contextlib.suppress(OSError):
                        unlock(descriptor)
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _opened_lock(self, timeout: float, *, shared: bool = False) -> Iterator[bool]:
        try:
            descriptor = self._descriptor()
        except FileNotFoundError:  # nobody can delete files where no lock can be made
            yield shared
            return
        try:
            is_locked = _locked_within(descriptor, timeout, shared=shared)
            try:
                yield is_locked
            finally:
                if is_locked:
                    with contextlib.suppress(OSError):  # closing it frees the lock as well
                        unlock(descriptor)
        finally:
            os.close(descriptor)

    def _descriptor(self) -> int:
        """Return the lock file, made where it can be; FileNotFoundError where it cannot."""
        try:
            return open_plain(self._path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            if error.errno not in READ_ONLY | FULL:
                raise
        return open_plain(self._path, os.O_RDONLY)


def _locked_within(descriptor: int, timeout: float, *, shared: bool = False) -> bool:
    deadline = time.monotonic() + timeout
    while not lock(descriptor, shared=shared):
        if time.monotonic() >= deadline:
            return False
        time.sleep(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic())))
    return True


def _sign(descriptor: int) -> None:
    """Write our process id for those who wait; a full disk only costs them the number."""
    try:
        os.ftruncate(descriptor, 0)
        write_at(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
    except OSError:
        return
