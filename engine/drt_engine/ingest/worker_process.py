"""The writer's end of one worker process: starts it, talks to it, and notices its end.

Workers are new programs, not forks: a fork of a process that uses threads may hang, and
``multiprocessing`` would import the caller's main module again. They end with the writer, whatever
ends it, since the end of its pipe is the end of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from typing import Any

from drt_engine import errors
from drt_engine.errors import EngineError
from drt_engine.ingest.frames import Frame, read_frame, send_frame
from drt_engine.runtime import Runtime


class WorkerEnded(Exception):
    """A worker ended while it had a document open; the message says how."""


class WorkerProcess:
    """A running worker process: requests go in, frames come out."""

    def __init__(self, runtime: Runtime, threads: int) -> None:
        settings = {
            "model": os.fspath(runtime.folder.resolve()),
            "device": runtime.device.type,
            "dtype": runtime.dtype_name,
            "threads": threads,
        }
        path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)
        self._process = subprocess.Popen(
            # -P keeps the current folder, which may hold a json.py, off the worker's path.
            [sys.executable, "-P", "-m", "drt_engine.ingest.worker", json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": path},
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self.pid = self._process.pid
        self.cpu_seconds = 0.0

    def send(self, message: dict[str, Any], data: bytes = b"") -> None:
        """Send a request; raises WorkerEnded."""
        try:
            send_frame(self._input.fileno(), message, data)
        except OSError:
            raise WorkerEnded(self._how()) from None

    def receive(self) -> Frame:
        """Return the next frame; raises WorkerEnded, or the error that the worker reports."""
        try:
            message, data = read_frame(self._output)
        except (EOFError, ValueError):
            raise WorkerEnded(self._how()) from None
        self.cpu_seconds = message.get("cpu_seconds", self.cpu_seconds)
        if "mistake" in message:
            raise RuntimeError(f"in a worker: {message['mistake']}")
        if "error" in message:
            raise getattr(errors, message["error"], EngineError)(message["message"])
        return message, data

    def _how(self) -> str:
        """Wait for the end of the process and describe it."""
        self.kill()
        code = self._process.wait()
        return f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"

    def kill(self) -> None:
        """End the process at once; harmless when it has ended."""
        self._process.kill()

    def close(self) -> None:
        """End the process and wait for it."""
        self.kill()
        self._process.wait()
        for pipe in (self._input, self._output):
            with contextlib.suppress(OSError):
                pipe.close()
