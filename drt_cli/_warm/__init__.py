"""A helper process that has the model loaded, and runs commands of later processes.

The first command starts it in the background. Later ones pass it their arguments, environment and
standard streams over a socket of the user's; it forks, and the fork runs the command as if it were
the process that was called. So output, exit codes and files are the same, and nothing of one
command remains for the next. Where anything is unexpected, the command runs in its own process.

Linux only: nowhere else may a process fork that has computed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from drt_cli._options import Settings

Command = Callable[..., int | None]

inside = False  # whether this process is a fork of the helper


def with_helper(function: Command) -> Command:
    """Let a command run in the helper where there is one, and start one after it where not."""

    @wraps(function)
    def run(settings: Settings, /, **options: Any) -> int | None:
        if not is_wanted(settings):
            return function(settings, **options)
        if not inside:
            from .client import run_in_helper

            code = run_in_helper()
            if code is not None:
                return code
        try:
            return function(settings, **options)
        finally:
            _start(settings)

    return run


def is_wanted(settings: Settings) -> bool:
    """Return whether a helper may be used: unless asked for only on a terminal, and not in CI."""
    if sys.platform != "linux" or settings.warm == "off" or settings.debug:
        return False
    if settings.warm == "on":
        return True
    return sys.stdout.isatty() and not os.environ.get("CI")


def _start(settings: Settings) -> None:
    """Start a helper for the next command, if this one had to load a model itself."""
    if "drt_engine.preloaded" not in sys.modules:
        return
    from drt import _engine

    if not _engine.was_missed():
        return
    torch = sys.modules["torch"]
    if torch.cuda.is_initialized():  # which no fork survives
        return
    from .start import start_helper

    start_helper(settings)
