"""Ctrl-C while a step is computed ends the training after it, where its state can be saved."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def waiting_interrupt() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C wait; what is yielded says whether there was one. A second one acts at once.

    Other threads than the main one get no signals, and a process that ignores them goes on to.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield lambda: False
        return
    came = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        if came.is_set():
            before(number, frame)
        came.set()

    signal.signal(signal.SIGINT, note)
    try:
        yield came.is_set
    finally:
        signal.signal(signal.SIGINT, before)
