"""The helper beside ``drt serve``: a fork of the server, which has the same model in memory.

Made before the server has threads or a socket, it is like any other helper: commands of the same
user reach it in the state folder, for any library, and wait for none of the server's questions. It
ends with the server.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn, Protocol

from drt_cli import _forking
from drt_cli._options import Settings
from drt_cli._status import waiting

from . import is_wanted


class Closable(Protocol):
    """What can be closed: a socket, a file."""

    def close(self) -> None: ...


@contextmanager
def helper_beside(
    settings: Settings, library: Path, *, without: Closable | None = None
) -> Iterator[None]:
    """Answer commands with the model of the server that runs in the block, where that is wanted.

    ``without`` is open in the server already, and closed in the helper.
    """
    end = None
    if is_wanted(settings) and find_spec("uvicorn") is not None:
        end = _fork_helper(settings, library, without)
    try:
        yield
    finally:
        if end is not None:
            os.close(end)


def _fork_helper(settings: Settings, library: Path, without: Closable | None) -> int | None:
    """Load the model and fork; return a descriptor with whose last copy the helper ends."""
    from drt import DrtError, _engine
    from drt._errors import engine_errors

    how: dict[str, Any] = {"device": settings.device, "dtype": settings.dtype}
    try:
        with engine_errors(), waiting(settings, question=False):
            how["model"] = _engine.model_path(settings.model)
            _engine.preload(**how)
    except DrtError:  # the server says why
        return None
    options = how | {"idle_minutes": settings.idle_minutes, "server": os.path.abspath(library)}
    if _forking.uses_gpu() or _forking.has_other_threads():
        return None  # which no fork survives
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    watched, end = os.pipe()
    pid = os.fork()
    if pid:
        os.close(watched)
        os.waitpid(pid, 0)
        return end
    try:
        os.close(end)
        if without is not None:
            without.close()
        os.setsid()
        if not os.fork():  # so that nobody has to wait for its end
            _become_helper(options, watched)
    finally:
        os._exit(0)


def _become_helper(options: dict[str, Any], watched: int) -> NoReturn:
    from .helper import run_helper

    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    run_helper(options, server=watched)
    os._exit(0)
