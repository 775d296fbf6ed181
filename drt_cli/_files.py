"""Writes what is taken out of a library: as private as the library is."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_PRIVATE, _SHARED = 0o600, 0o666  # before the umask


def write_file(path: Path, text: str, *, private: bool) -> None:
    """Write a file, one that only its owner may read if it is private.

    A file that exists keeps the rights that its owner gave it.
    """
    mode = _PRIVATE if private else _SHARED
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    # A question or a path from the command line may hold what is not UTF-8.
    with open(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        file.write(text)


def write_from_library(path: Path, text: str, library: Path) -> None:
    """Write text of a library's documents, for its owner alone if the library is."""
    write_file(path, text, private=_is_private(library))


def _is_private(library: Path) -> bool:
    try:
        return stat.S_IMODE(library.stat().st_mode) & 0o077 == 0
    except OSError:
        return True
