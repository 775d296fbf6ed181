"""The helper process: loads the model, and forks for each command. ``python -m`` runs it.

It computes with one thread, so that it has no other when it forks; a fork computes with as many as
its command asks for. It ends after a time without commands, when it is told to (SIGTERM), and when
its socket, the program or Python is no longer there.
"""

from __future__ import annotations

import contextlib
import gc
import json
import math
import os
import select
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NoReturn

from . import wire
from .identity import identity
from .place import (
    SOCKET,
    HelperInfo,
    is_own_peer,
    opened_folder,
    running_helper,
    socket_address,
    take_lock,
    write_info,
)
from .start import stop_helper

_LOOK = 30.0  # seconds between two looks whether what it needs is still there
_PROGRAM = (os.path.abspath(__file__), sys.executable)
_WAITING = 16  # commands that may wait to be accepted
_TEXT = "# Lease\n\nThe notice period is three months. The keeper signs the log every day.\n"
_MOVING = 100  # tries to take the lock of a helper that has just begun or ended


def main() -> None:
    """Serve until nothing was asked for some time."""
    run_helper(json.loads(sys.argv[1]))


def run_helper(options: dict[str, Any], *, server: int | None = None) -> None:
    """Serve until nothing was asked for some time, or until the descriptor of a server is closed.

    With ``server`` the model is in memory.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.umask(0o077)
    os.chdir("/")  # so that it keeps no folder busy
    from drt import __version__

    info = HelperInfo(
        pid=os.getpid(),
        identity=identity(),
        version=__version__,
        began=time.time(),
        **options,
    )
    with opened_folder(create=True) as folder:
        lock = _take_over(folder, info)
        if lock is None:
            return
        write_info(lock, info)
        # Before seconds go into a model: where there can be no socket, there is no helper.
        with _bound(folder) as listener:
            number = _socket_number(folder)
            try:
                _load(info)
                listener.listen(_WAITING)
                write_info(lock, HelperInfo(**{**vars(info), "ready": True}))
                _Serving(folder, lock, listener, info, number, server).serve()
            finally:
                if _socket_number(folder) == number:
                    os.unlink(SOCKET, dir_fd=folder)


def _take_over(folder: int, info: HelperInfo) -> int | None:
    """Return the lock once a helper with other work has ended; None where one may stay."""
    for _ in range(_MOVING):
        lock = take_lock(folder)
        if lock is not None:
            return lock
        with contextlib.suppress(OSError):
            current = running_helper(folder)
            if current is not None and current.same_work(info):
                return None
            if current is not None and not stop_helper(folder, current):
                return None
        time.sleep(0.02)
    return None


def _bound(folder: int) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(SOCKET, dir_fd=folder)  # of one that was killed
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(socket_address(folder))
    return listener


def _socket_number(folder: int) -> int | None:
    with contextlib.suppress(OSError):
        return os.stat(SOCKET, dir_fd=folder, follow_symlinks=False).st_ino
    return None


def _load(info: HelperInfo) -> None:
    """Load the model and all that commands import, so that each fork has it from the start."""
    from drt import _engine

    if info.server is None:
        _engine.preload(info.model, device=info.device, dtype=info.dtype)
    torch = sys.modules["torch"]
    if torch.cuda.is_initialized():
        raise SystemExit  # which no fork survives
    drawn = torch.get_rng_state()
    _rehearse(info)
    torch.set_rng_state(drawn)
    gc.collect()
    gc.freeze()  # so that no fork copies memory by looking for garbage


def _rehearse(info: HelperInfo) -> None:
    """Read and ask once, which imports and prepares what a first question would."""
    from drt import Assistant
    from drt_cli.commands import ask, chat, search, summarize  # noqa: F401

    how: dict[str, Any] = {"model": info.model, "device": info.device, "dtype": info.dtype}
    with tempfile.TemporaryDirectory(prefix="drt-") as folder:
        file = Path(folder) / "lease.md"
        file.write_text(_TEXT, encoding="utf-8")
        with Assistant(Path(folder) / "library", threads=1, **how) as assistant:
            assistant.ingest(file)
            assistant.session().ask("How long is the notice period?")
            assistant.search("notice period")
            assistant.summarize("lease.md")


class _Serving:
    """Accepts commands, forks for each, and tells how each fork ended."""

    def __init__(
        self,
        folder: int,
        lock: int,
        listener: socket.socket,
        info: HelperInfo,
        number: int | None,
        server: int | None,
    ) -> None:
        self._folder, self._lock, self._listener = folder, lock, listener
        self._info, self._number = info, number
        self._server = [] if server is None else [server]
        self._running: dict[int, socket.socket] = {}
        self._ended = False
        self._last = time.monotonic()

    def serve(self) -> None:
        """Return when the helper is to end; what its forks do continues."""
        self._wake, waker = socket.socketpair()
        waker.setblocking(False)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._end)
        idle = math.inf if self._server else self._info.idle_minutes * 60
        while not self._ended and self._is_in_place():
            watched: list[Any] = [self._listener, self._wake, *self._server]
            ready, _, _ = select.select(watched, [], [], min(_LOOK, idle))
            if self._server and self._server[0] in ready:  # which is closed
                break
            if self._wake in ready:
                self._wake.recv(4096)
            self._reap()
            if self._listener in ready and not self._ended:
                self._accept()
            now = time.monotonic()
            if self._running:
                self._last = now
            if now - self._last >= idle:
                break

    def _is_in_place(self) -> bool:
        """Return whether others can still reach this helper, and run the same program."""
        return _socket_number(self._folder) == self._number and all(map(os.path.exists, _PROGRAM))

    def _end(self, _number: int, _frame: object) -> None:
        self._ended = True

    def _reap(self) -> None:
        while self._running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            connection = self._running.pop(pid)
            code = os.waitstatus_to_exitcode(status)
            message = (wire.EXIT, code) if code >= 0 else (wire.KILLED, -code)
            with contextlib.suppress(OSError):  # its command has mostly heard it, and gone
                connection.send(wire.MESSAGE.pack(*message), socket.MSG_DONTWAIT)
            connection.close()

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        if not is_own_peer(connection):
            connection.close()
            return
        self._last = time.monotonic()
        pid = os.fork()
        if pid:
            self._running[pid] = connection
            return
        try:
            self._become(connection)
        finally:
            os._exit(1)  # never back into the helper's loop

    def _become(self, connection: socket.socket) -> NoReturn:
        """Leave what is the helper's, and run the command that was passed."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        self._listener.close()
        self._wake.close()
        for descriptor in (self._lock, self._folder, *self._server):
            os.close(descriptor)
        for other in self._running.values():
            other.close()
        from .forked import run_command

        run_command(connection, self._info.identity)


if __name__ == "__main__":
    main()
