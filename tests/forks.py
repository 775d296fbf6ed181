"""Processes that have imported torch when they begin: forks of one process that imports it once.

A test that needs a process of its own would else wait two seconds for imports. What it gets here
has its own memory, signals, files and end; ``python -m tests.forks`` is the process that forks.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
import types
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

_PIPE_BYTES = 1 << 20
ROOT = Path(__file__).parents[1]
# What commands import on demand; nothing that a process must be seen not to have imported.
MODULES = (
    "drt_cli.main",
    "drt_engine.answer.ask",
    "drt_engine.ingest.pipeline",
    "drt_engine.store.segments.reader",
)


class Fork:
    """A forked process, used as a ``subprocess.Popen`` with pipes for text."""

    def __init__(self, pid: int, server: Forks, pipes: Sequence[IO[str]]) -> None:
        self.pid, self._server = pid, server
        self.stdin, self.stdout, self.stderr = pipes
        self.returncode: int | None = None

    def __enter__(self) -> Fork:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()
        self.wait()
        self.stdout.close()
        self.stderr.close()

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def communicate(self, timeout: float = 60.0) -> tuple[str, str]:
        """Read both outputs to their ends, and wait for that of the process."""
        outputs: dict[IO[str], str] = {}

        def read(pipe: IO[str]) -> None:
            outputs[pipe] = pipe.read()

        pipes = (self.stdout, self.stderr)
        threads = [threading.Thread(target=read, args=(pipe,), daemon=True) for pipe in pipes]
        for thread in threads:
            thread.start()
        self.wait(timeout)
        for thread in threads:
            thread.join()
        with self:
            return outputs[self.stdout], outputs[self.stderr]

    def wait(self, timeout: float = 60.0) -> int:
        """Return the exit code; one that takes longer is killed, which is a ``TimeoutError``."""
        if self.returncode is None:
            try:
                self.returncode = self._server.exit_code(self.pid, timeout)
            except TimeoutError:
                os.kill(self.pid, signal.SIGKILL)
                self.returncode = self._server.reply(timeout)  # to the same request
                raise
        return self.returncode


class Forks:
    """The process that forks."""

    def __init__(self) -> None:
        self._socket, other = socket.socketpair()
        number = other.fileno()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.forks", str(number)],
            pass_fds=[number],
            cwd=ROOT,
        )
        other.close()

    def close(self) -> None:
        """End the process."""
        self._socket.close()
        self._process.wait()

    def start(
        self,
        code: str,
        *arguments: object,
        variables: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        taken_apart: bool = False,
    ) -> Fork:
        """Fork a process that runs ``code`` as Python does after ``-c``.

        Where ``taken_apart``, modules are in the end, too, which may print.
        """
        request = {
            "code": code,
            "arguments": [str(argument) for argument in arguments],
            "variables": {**os.environ, **(variables or {})},
            "cwd": str(cwd or Path.cwd()),
            "taken_apart": taken_apart,
        }
        pairs = [os.pipe() for _ in range(3)]
        for _, end in pairs[1:]:  # what is printed before anybody reads must not stop a process
            with contextlib.suppress(OSError):
                fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        ours = [os.fdopen(pairs[0][1], "w"), *(os.fdopen(pair[0]) for pair in pairs[1:])]
        theirs = [pairs[0][0], pairs[1][1], pairs[2][1]]
        socket.send_fds(self._socket, [b"start"], theirs)
        for descriptor in theirs:
            os.close(descriptor)
        pid = self._asked(request, 300.0)  # the first waits for imports
        return Fork(pid, self, ours)

    def run(
        self, code: str, *arguments: object, timeout: float = 60.0, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Fork a process, and wait for its end."""
        process = self.start(code, *arguments, **options)
        out, err = process.communicate(timeout)
        assert process.returncode is not None
        return subprocess.CompletedProcess([code], process.returncode, out, err)

    def exit_code(self, pid: int, timeout: float) -> int:
        """Wait for a process that was forked."""
        self._socket.sendall(b"wait ")
        return self._asked({"pid": pid}, timeout)

    def _asked(self, request: dict[str, Any], timeout: float) -> int:
        data = json.dumps(request).encode()
        self._socket.sendall(f"{len(data):<12}".encode() + data)
        return self.reply(timeout)

    def reply(self, timeout: float) -> int:
        """Receive the number that answers a request, or raise TimeoutError."""
        self._socket.settimeout(timeout)
        try:
            return int(exactly(self._socket, 12))
        finally:
            self._socket.settimeout(None)


def exactly(connection: socket.socket, size: int) -> bytes:
    """Receive ``size`` bytes; fewer, and the other end is gone."""
    data = b""
    while len(data) < size and (more := connection.recv(size - len(data))):
        data += more
    return data


def serve(connection: socket.socket) -> dict[str, Any] | None:
    """Answer requests until the other end is gone; in a fork, return what it is to run."""
    while True:
        kind, descriptors, _, _ = socket.recv_fds(connection, 5, 3)
        if not kind:
            return None
        request: dict[str, Any] = json.loads(exactly(connection, int(exactly(connection, 12))))
        if kind == b"wait ":
            result = os.waitstatus_to_exitcode(os.waitpid(request["pid"], 0)[1])
        elif (result := os.fork()) == 0:
            connection.close()
            for number, descriptor in enumerate(descriptors):
                os.dup2(descriptor, number)
                os.close(descriptor)
            return request
        for descriptor in descriptors:
            os.close(descriptor)
        connection.sendall(f"{result:<12}".encode())


def reopened(number: int, mode: str, **options: Any) -> Any:
    """Return the file of a descriptor."""
    return open(number, mode, encoding="utf-8", closefd=False, **options)


def run(request: dict[str, Any]) -> None:
    """Run the code of a request as the main module."""
    os.environ.clear()
    os.environ.update(request["variables"])
    os.chdir(request["cwd"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Those that were opened when the first process began may have been at another kind of file.
    sys.stdin, sys.stdout = reopened(0, "r"), reopened(1, "w")
    sys.stderr = reopened(2, "w", buffering=1, errors="backslashreplace")
    sys.argv = ["-c", *request["arguments"]]
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(request["code"], "<string>", "exec"), vars(module))


def main() -> None:
    connection = socket.socket(fileno=int(sys.argv[1]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in MODULES:
            importlib.import_module(name)
    gc.freeze()
    request = serve(connection)
    if request is None:
        return
    code: Any = 0
    try:
        run(request)
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    if not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    if request["taken_apart"]:
        sys.exit(code)
    atexit._run_exitfuncs()
    for output in (sys.stdout, sys.stderr):
        output.flush()
    os._exit(code)  # taking torch apart takes longer than most tests


if __name__ == "__main__":
    main()
