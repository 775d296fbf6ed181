"""Starts the helper process in the background, and ends it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from typing import Any

from drt_cli._options import Settings

from .identity import identity
from .place import HelperInfo, opened_folder, running_helper

PATIENCE = 3.0  # seconds that a helper has to end
_BEGINNING = 30.0  # seconds that one has to begin, on a busy machine
_STEP = 0.02


def start_helper(settings: Settings) -> int | None:
    """Start a helper with the model of these settings, which replaces one that has another.

    Return its process id, or None where one is there already or none can be started.
    """
    from drt import __version__, _engine

    options: dict[str, Any] = {
        "model": _engine.model_path(settings.model),
        "device": settings.device,
        "dtype": settings.dtype,
        "idle_minutes": settings.idle_minutes,
    }
    info = HelperInfo(0, identity(), version=__version__, began=0.0, **options)
    current = current_helper()
    if current is not None and current.same_work(info):
        return None
    words = [sys.executable, "-P", "-m", "drt_cli._warm.helper", json.dumps(options)]
    null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    with contextlib.suppress(OSError):  # the next command is slower, that is all
        # Not subprocess, which warns of processes that are left behind.
        return os.posix_spawn(sys.executable, words, _environment(), file_actions=null, setsid=True)
    return None


def has_begun(pid: int) -> bool:
    """Wait until a helper that was started here can be found and stopped; False if it ended."""
    deadline = time.monotonic() + _BEGINNING
    while time.monotonic() < deadline:
        helper = current_helper()
        if helper is not None and helper.pid == pid:
            return True
        if os.waitpid(pid, os.WNOHANG)[0]:
            return helper is not None  # another one was faster
        time.sleep(_STEP)
    return False


def stop_helper(folder: int, helper: HelperInfo) -> bool:
    """End a helper, and return whether it ended; commands that it runs are not ended."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(helper.pid, number)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                current = running_helper(folder)
                if current is None or current.pid != helper.pid:
                    return True
            time.sleep(_STEP)
    return False


def current_helper() -> HelperInfo | None:
    """Return the helper that runs, or None."""
    try:
        with opened_folder() as folder:
            return running_helper(folder)
    except OSError:
        return None


def _environment() -> dict[str, str]:
    """Return the environment, with an absolute state folder: the helper is elsewhere."""
    variables = dict(os.environ)
    if state := variables.get("DRT_STATE_DIR"):
        variables["DRT_STATE_DIR"] = os.path.abspath(state)
    return variables
