"""Writes what is taken out of a library: as private as the library is, and never into one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_PRIVATE, _SHARED = 0o600, 0o666  # before the umask


def write_file(path: Path, content: str | bytes, *, private: bool) -> None:
    """Write a file, one that only its owner may read if it is private.

    A file that exists keeps the rights that its owner gave it. One with other names is replaced,
    since they may be those of a library's file.
    """
    mode = _PRIVATE if private else _SHARED
    try:
        status = os.stat(path)
    except OSError:  # which opening it will say better
        pass
    else:
        if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            os.unlink(os.path.realpath(path))
            mode = stat.S_IMODE(status.st_mode)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    if isinstance(content, str):  # whose question or path may hold what is not UTF-8
        content = content.encode("utf-8", errors="backslashreplace")
    with open(descriptor, "wb") as file:
        file.write(content)


def write_from_library(path: Path, content: str | bytes, library: Path) -> None:
    """Write a part of a library's documents, for its owner alone if the library is.

    Raises ``LibraryError`` for a path inside a library.
    """
    expect_outside(path)
    write_file(path, content, private=_is_private(library))


def write_shared(path: Path, text: str) -> None:
    """Write what is from no library; ``LibraryError`` for a path inside one."""
    expect_outside(path)
    write_file(path, text, private=False)


def expect_outside(path: Path) -> None:
    """Raise ``LibraryError`` for a path inside a library, links followed."""
    from drt import _engine
    from drt._errors import engine_errors

    with engine_errors():
        _engine.expect_outside(path)


def _is_private(library: Path) -> bool:
    try:
        return stat.S_IMODE(library.stat().st_mode) & 0o077 == 0
    except OSError:
        return True
