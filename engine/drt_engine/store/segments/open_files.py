"""The segment files that this process keeps open: how many may be, and closing those of no use.

Several libraries, and several openings of one, share the descriptors of a process. Knows nothing of
tensors.
"""

from __future__ import annotations

import os
import threading
import weakref
from pathlib import Path
from typing import Protocol

from drt_engine.files import descriptor_limit

MAX_OPEN = 256  # segment files of one reader
_SHARE = 8  # of a process's descriptors, one reader keeps at most this part


class Reader(Protocol):
    """What keeps files of a library open."""

    @property
    def library(self) -> Path:
        """The folder of the library."""

    def drop_deleted(self) -> None:
        """Close files that were deleted."""

    def close(self) -> None:
        """Close all files; they are opened again when they are needed."""


_readers: weakref.WeakSet[Reader] = weakref.WeakSet()
_guard = threading.Lock()


def register(reader: Reader) -> None:
    """Let a reader's files be closed by others of the process."""
    with _guard:
        _readers.add(reader)


def max_open_files() -> int:
    """Return how many segment files one reader may keep open."""
    return max(1, min(MAX_OPEN, descriptor_limit() // _SHARE))


def drop_deleted_files(library: Path) -> None:
    """Close deleted files of a library in all of this process's readers, as after forgetting."""
    folder = os.path.realpath(library)
    for reader in _all():
        if os.path.realpath(reader.library) == folder:
            reader.drop_deleted()


def close_files() -> None:
    """Close the files of all readers, where the process has no descriptor left."""
    for reader in _all():
        reader.close()


def _all() -> list[Reader]:
    with _guard:
        return list(_readers)
