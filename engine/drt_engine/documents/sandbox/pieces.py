"""What a reader process writes, in pieces, and no longer than a deadline.

Knows pipes; knows nothing of what is in them.
"""

from __future__ import annotations

import os
import queue
import select
import sys
import threading
from typing import Any, Protocol

OUT_OF_TIME = 152  # exit code of a reader process that computed too long; a shell's for SIGXCPU
_BYTES = 1 << 16
_AHEAD = 16  # pieces that a thread reads before anybody asks for them


class Pieces(Protocol):
    """Reads the output of a process with a limit of time."""

    def read(self, seconds: float) -> bytes | None:
        """Return what there is, empty at the end; None where nothing comes in time."""

    def close(self) -> None:
        """Let go of the pipe, once the process is at its end."""


class PolledPieces:
    """Asks the kernel whether there is something."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll: Any = None
        if sys.platform != "win32":  # which has ThreadedPieces
            self._poll = select.poll()
            self._poll.register(descriptor, select.POLLIN)

    def read(self, seconds: float) -> bytes | None:
        if seconds <= 0 or not self._poll.poll(seconds * 1000):
            return None
        return os.read(self._descriptor, _BYTES)

    def close(self) -> None:
        pass


class ThreadedPieces:
    """Reads in a thread, where pipes cannot be asked: on Windows."""

    def __init__(self, descriptor: int) -> None:
        self._pieces: queue.Queue[bytes] = queue.Queue(_AHEAD)
        self._closed = False
        self._thread = threading.Thread(target=self._fill, args=(descriptor,), daemon=True)
        self._thread.start()

    def _fill(self, descriptor: int) -> None:
        data = b"more"
        while data and not self._closed:
            try:
                data = os.read(descriptor, _BYTES)
            except OSError:
                data = b""
            self._pieces.put(data)

    def read(self, seconds: float) -> bytes | None:
        try:
            return self._pieces.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return None

    def close(self) -> None:
        self._closed = True
        while self._thread.is_alive():  # it may wait for room
            self.read(0.01)


def pieces_of(descriptor: int) -> Pieces:
    """Return the way to read a pipe that this system has."""
    return PolledPieces(descriptor) if hasattr(select, "poll") else ThreadedPieces(descriptor)
