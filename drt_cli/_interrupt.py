"""Ctrl-C: work ends quietly, and soon, even where a library swallows the exception.

A library on disk survives being left at any moment, so leaving is always allowed.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import NoReturn

from ._errors import INTERRUPTED

PATIENCE = 1.5  # seconds from Ctrl-C until the process ends whatever it does
_patience = PATIENCE
_last: threading.Timer | None = None


def install() -> None:
    """Let Ctrl-C raise ``KeyboardInterrupt``, and a second one end the process at once."""
    signal.signal(signal.SIGINT, _interrupted)


def allow(seconds: float) -> None:
    """Give the work more time from Ctrl-C on, where it has other processes to end."""
    global _patience
    _patience = seconds


def forgive() -> None:
    """Let the process go on: the interruption was dealt with."""
    if _last is not None:
        _last.cancel()
    install()


def leave() -> NoReturn:
    """End the process at once, whatever its threads do."""
    os._exit(INTERRUPTED)


def _interrupted(_number: int, _frame: object) -> None:
    global _last
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    _last = threading.Timer(_patience, os._exit, [INTERRUPTED])
    _last.daemon = True
    _last.start()
    raise KeyboardInterrupt
