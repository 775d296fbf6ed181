"""The connection of one exchange over HTTP, which can be cut from another thread.

Limits of single reads do not end a head or comments that come byte by byte. Shutting the socket
down does, and wakes the thread that reads from it, which closing it would not.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any


class Line:
    """The connection that an httpx request is traced with, and the time that it has.

    Use it as a context manager: after ``seconds`` it is cut.
    """

    def __init__(self, seconds: float) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._timer = threading.Timer(seconds, self.cut)
        self._timer.daemon = True
        self.is_cut = False

    def __enter__(self) -> Line:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            self._drop()

    def trace(self, event: str, info: dict[str, Any]) -> None:
        """Take the socket when it is connected; a copy, since TLS replaces the first one."""
        if event != "connection.connect_tcp.complete":
            return
        with self._lock:
            self._drop()  # of the request before
            self._socket = info["return_value"].get_extra_info("socket").dup()
            self._shut_down()

    def cut(self) -> None:
        """End the exchange, in whatever state it is."""
        with self._lock:
            self.is_cut = True
            self._shut_down()

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _shut_down(self) -> None:
        if self.is_cut and self._socket is not None:
            with contextlib.suppress(OSError):  # the other side has ended it
                self._socket.shutdown(socket.SHUT_RDWR)


def counted(pieces: Iterator[bytes], limit: int, error: Exception) -> Iterator[bytes]:
    """Yield the pieces of a body; raises ``error`` where they are more bytes than ``limit``."""
    total = 0
    for piece in pieces:
        total += len(piece)
        if total > limit:
            raise error
        yield piece
