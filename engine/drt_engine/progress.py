"""Progress of training and evaluations on stderr, and of the passages that a question reads.

Knows nothing of what is reported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Watcher = Callable[[Any, Any, int], None]
_TEXT: ContextVar[Callable[[int, int], None] | None] = ContextVar("text", default=None)
_WATCHER: ContextVar[Watcher | None] = ContextVar("watcher", default=None)
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


@contextmanager
def watching_passages(watcher: Watcher) -> Iterator[None]:
    """Call ``watcher`` before each batch of retrieved passages is read.

    It gets the query, the passages, and how many of them were read before. For questions of the
    block's thread alone.
    """
    token = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(token)


def note_passages(query: Any, passages: Any, num_read: int) -> None:
    """Tell who watches, if anybody does, which passages are to be read, and how many are read."""
    watcher = _WATCHER.get()
    if watcher is not None:
        watcher(query, passages, num_read)


@contextmanager
def watching_text(watcher: Callable[[int, int], None]) -> Iterator[None]:
    """Call ``watcher`` while the model reads a document, with how far it has come.

    It gets the character up to which, and the tokens of the segment that it is in.
    """
    token = _TEXT.set(watcher)
    try:
        yield
    finally:
        _TEXT.reset(token)


def note_text(character: int, tokens: int) -> None:
    """Tell who watches, if anybody does, how far a document has been read."""
    watcher = _TEXT.get()
    if watcher is not None:
        watcher(character, tokens)
