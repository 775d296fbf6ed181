"""A pipe of standard output whose reader leaves: the process ends as SIGPIPE ends it.

Python ignores SIGPIPE, and that stays so: where it were not ignored, a client that closes its
connection, or a reader's child process that ends, would end the whole process, too.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import threading
from typing import NoReturn

_SHELL = 128  # what a shell adds to the number of the signal that ended a process


class Output(io.TextIOWrapper):
    """Standard output that ends the process where nobody reads it, as in ``drt ... | head``.

    A library on disk survives that at any moment. Not a raw file: where Ctrl-C comes between its
    writing and its return, what is written would be taken for unwritten, and be written again.
    """

    def write(self, text: str, /) -> int:
        """Write as ``io.TextIOWrapper`` does."""
        try:
            return super().write(text)
        except BrokenPipeError:
            _end()

    def flush(self) -> None:
        """Flush as ``io.TextIOWrapper`` does."""
        try:
            super().flush()
        except BrokenPipeError:
            _end()


def end_with_reader() -> None:
    """Let this process end where the reader of its standard output or error leaves."""
    if not hasattr(signal, "SIGPIPE"):
        return
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if type(stream) is not io.TextIOWrapper:  # one of a test, or of the helper, which has it
            continue
        with contextlib.suppress(ValueError, OSError):  # closed, or full: it stays as it is
            encoding, errors = stream.encoding, stream.errors
            by_line, at_once = stream.line_buffering, stream.write_through
            stream.flush()
            output = Output(
                stream.detach(), encoding, errors, line_buffering=by_line, write_through=at_once
            )
            setattr(sys, name, output)
            setattr(sys, f"__{name}__", output)


def _end() -> NoReturn:
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)
    os._exit(_SHELL + signal.SIGPIPE)
