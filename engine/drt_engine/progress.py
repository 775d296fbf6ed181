"""Progress of training and evaluations on stderr, and how a caller silences it.

Knows nothing of what is reported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_SILENT: ContextVar[bool] = ContextVar("silent", default=False)


@contextmanager
def silenced(silent: bool = True) -> Iterator[None]:
    """Report nothing inside the block, if ``silent``; in the block's thread alone."""
    token = _SILENT.set(silent)
    try:
        yield
    finally:
        _SILENT.reset(token)


def is_silenced() -> bool:
    """Return whether progress is not to be shown."""
    return _SILENT.get()


def report(line: str) -> None:
    """Print a line of progress on stderr, at once."""
    if not is_silenced():
        print(line, file=sys.stderr, flush=True)
