"""The fork of the helper that becomes a command: its streams, its folder, its end."""

from __future__ import annotations

import io
import os
import signal
import socket
import sys
import threading
from typing import Any, NoReturn

import drt_cli._warm
from drt_cli import _state
from drt_cli._errors import FAILED
from drt_cli._pipe import Output

from . import wire
from .client import PATIENCE


def run_command(connection: socket.socket, identity: str) -> NoReturn:
    """Run the command that a connection passes, tell its exit code, and end."""
    connection.settimeout(PATIENCE)
    try:
        request, streams = wire.receive_request(connection)
        if request.identity != identity:
            wire.send(connection, wire.REFUSED)
            os._exit(0)
        wire.send(connection, wire.ACCEPTED, os.getpid())
        if wire.receive(connection) != (wire.GO, 0):
            os._exit(0)
    except (OSError, ValueError):
        os._exit(0)
    connection.settimeout(None)
    link = _Link(connection)
    _become(request, streams, link)
    code = _run()
    link.end(code)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    os._exit(code)


def _become(request: wire.Request, streams: list[int], link: _Link) -> None:
    """Take over the streams, the folder and the environment of the process that was called."""
    *standard, folder = streams
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.fchdir(folder)
    os.close(folder)
    os.umask(request.umask)
    os.sched_setaffinity(0, request.processors)
    os.environ.clear()
    os.environ.update(request.environment)
    sys.argv = ["drt", *request.arguments]
    _state.use_terminal(request.terminal)
    drt_cli._warm.inside = True  # noqa: SLF001  its own package
    _open_streams(request.encodings, link)
    threading.Thread(target=link.watch, daemon=True).start()


def _open_streams(encodings: list[str], link: _Link) -> None:
    """Open the standard streams as Python does."""
    stdin, stdout, stderr = (io.FileIO(n, "rw"[n > 0], closefd=False) for n in range(3))
    sys.stdin = _Announcing(io.BufferedReader(stdin), encodings[0])
    sys.stdout = _Announcing(
        io.BufferedWriter(stdout), encodings[1], line_buffering=stdout.isatty()
    )
    sys.stderr = _Announcing(
        io.BufferedWriter(stderr), encodings[2], "backslashreplace", line_buffering=True
    )
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        stream.link = link


def _run() -> int:
    from drt_cli.main import main

    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else FAILED
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return code


class _Link:
    """The connection to the process that was called, as its command uses it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._announced = self._ended = False

    def announce(self) -> None:
        """Tell, once, that a stream is used: from now on the command cannot be run again."""
        if not self._announced:
            self._announced = True
            wire.send(self._connection, wire.WRITING)

    def end(self, code: int) -> None:
        """Tell the exit code."""
        self._ended = True
        wire.send(self._connection, wire.EXIT, code)

    def watch(self) -> None:
        """Interrupt the command by Ctrl-C, and end it with the process that was called."""
        while True:
            try:
                message = wire.receive(self._connection)
            except (OSError, ValueError):
                message = None
            if self._ended:
                return
            if message is None:
                os.kill(os.getpid(), signal.SIGTERM)
                return
            if message[0] == wire.INTERRUPT:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


class _Announcing(Output):
    """A standard stream that tells before it is used."""

    link: _Link

    def write(self, text: str) -> int:
        self.link.announce()
        return super().write(text)

    def read(self, size: int | None = -1) -> str:
        self.link.announce()
        return super().read(size)

    def readline(self, size: int = -1) -> str:  # type: ignore[override]
        self.link.announce()
        return super().readline(size)

    def __next__(self) -> str:  # type: ignore[override]
        self.link.announce()
        return super().__next__()

    @property
    def buffer(self) -> Any:
        self.link.announce()
        return super().buffer
