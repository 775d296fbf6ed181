"""Who opens a library's catalogue: SQLite alone may, which opens it in C and is not seen here.

When a process closes any descriptor of a file, POSIX takes all its locks on it away, those of its
SQLite connections too. Tests may open a catalogue, to damage or to copy it; the program may not.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

NAMES = tuple("catalog.db" + suffix for suffix in ("", "-wal", "-shm", "-journal"))
_ROOT = str(Path(__file__).parents[1]) + os.sep
_OURS = tuple(_ROOT + room + os.sep for room in ("engine", "kernels", "sdk", "drt_cli"))
_TESTS = _ROOT + "tests" + os.sep


class CatalogueOpens:
    """Remembers each place in the program that opened a catalogue, once installed."""

    def __init__(self) -> None:
        self.places: list[str] = []
        sys.addaudithook(self._hear)  # there is no way to take one away

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            path = os.fsdecode(arguments[0])
            if path.endswith(NAMES) and (place := _caller()):
                self.places.append(f"{place} opened {path}")


def _caller() -> str:
    """Return the nearest place in the program, or nothing where a test is nearer."""
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_OURS):
            return f"{file.removeprefix(_ROOT)}:{frame.f_lineno}"
        if file.startswith(_TESTS):
            return ""
        frame = frame.f_back  # type: ignore[assignment]
    return ""
