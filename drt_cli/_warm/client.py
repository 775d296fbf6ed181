"""Runs the command of this process in the helper, if one is there that can; imports no torch."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from drt_cli._errors import FAILED, report
from drt_cli._state import this_terminal

from . import wire
from .identity import identity
from .place import is_own_peer, opened_folder, socket_address

PATIENCE = 2.0  # seconds that a helper has to accept a command, which takes it some 20 ms


def run_in_helper() -> int | None:
    """Run this process's command in the helper and return its exit code.

    None if there is no helper, or one that does not accept or was ended before the first output:
    then nothing was done that matters, and the command is to be run here.
    """
    connection = _connected()
    if connection is None:
        return None
    with connection:
        try:
            _send(connection)
            answer = wire.receive(connection)
            if answer is None or answer[0] != wire.ACCEPTED:
                return None
            wire.send(connection, wire.GO)
        except (OSError, ValueError):  # a timeout is an OSError
            return None
        return _wait(connection, pid=answer[1])


def _connected() -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(PATIENCE)
        with opened_folder() as folder:
            connection.connect(socket_address(folder))
        if is_own_peer(connection):
            return connection
    except OSError:
        pass
    connection.close()
    return None


def _request() -> wire.Request:
    umask = os.umask(0o077)
    os.umask(umask)
    return wire.Request(
        identity=identity(),
        arguments=sys.argv[1:],
        environment=dict(os.environ),
        terminal=this_terminal(),
        encodings=[stream.encoding for stream in (sys.stdin, sys.stdout, sys.stderr)],
        processors=sorted(os.sched_getaffinity(0)),
        umask=umask,
    )


def _send(connection: socket.socket) -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        wire.send_request(connection, _request(), [0, 1, 2, folder])
    finally:
        os.close(folder)


def _wait(connection: socket.socket, *, pid: int) -> int | None:
    """Return the exit code once the command is done; pass on what the keyboard sends."""
    connection.settimeout(None)
    writing = False
    with _keyboard(connection, pid):
        while True:
            try:
                message = wire.receive(connection)
            except (OSError, ValueError):
                message = None
            if message is None:
                break
            letter, number = message
            if letter == wire.WRITING:
                writing = True
            elif letter == wire.EXIT:
                return number
            elif letter == wire.KILLED:
                if number != signal.SIGKILL:
                    _die(number)
                break
    if not writing:
        return None
    report("the helper process was ended before the answer was complete; ask again.")
    return FAILED


def _die(number: int) -> None:
    """End as the command did, such as by a closed pipe."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


@contextmanager
def _keyboard(connection: socket.socket, pid: int) -> Iterator[None]:
    """Pass on Ctrl-C, which the command deals with as ever; Ctrl-Z stops both processes."""

    def interrupt(_number: int, _frame: object) -> None:
        with contextlib.suppress(OSError):
            wire.send(connection, wire.INTERRUPT)

    def stop(_number: int, _frame: object) -> None:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGCONT)

    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, interrupt),
        signal.SIGTSTP: signal.signal(signal.SIGTSTP, stop),
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
