"""Watching what a question reads, before it is read."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from . import _engine
from ._types import ReadingStep


def watch_reading(callback: Callable[[ReadingStep], None]) -> AbstractContextManager[None]:
    """Call ``callback`` before a question in the ``with`` block reads the passages it retrieved.

    Its first step comes within a tenth of the time of the answer, and another one before each batch
    of passages. It is for questions of this thread, however they are asked: ``ask``, ``stream``, in
    a session; and for those that an ``AsyncAssistant`` is asked in this task, with the callback in
    the event loop's thread. A question of several parts may read more than once.
    """
    loop = _running_loop()
    if loop is None:
        return _engine.watch_reading(callback)
    thread = threading.get_ident()

    def hand_over(step: ReadingStep) -> None:
        if threading.get_ident() == thread:
            callback(step)
        else:
            loop.call_soon_threadsafe(callback, step)

    return _engine.watch_reading(hand_over)


def _running_loop() -> Any:
    """Return this thread's running event loop, if there is one; a process without need not wait."""
    if "asyncio" not in sys.modules:
        return None
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
