"""Watching what a question reads, before it is read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from . import _engine
from ._types import ReadingStep


def watch_reading(callback: Callable[[ReadingStep], None]) -> AbstractContextManager[None]:
    """Call ``callback`` before a question in the ``with`` block reads the passages it retrieved.

    The step has the best sentence, which takes a tenth of the time of the answer. It is for
    questions of this thread, however they are asked: ``ask``, ``stream``, in a session. A question
    of several parts may read more than once.
    """
    return _engine.watch_reading(callback)
