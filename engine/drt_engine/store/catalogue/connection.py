"""Opens a catalogue with SQLite, the only thing that may ever open one.

POSIX takes all of a process's locks on a file away when the process closes any descriptor of that
file, those of its other connections too. The next process that closes the library then takes itself
for the last one, and deletes the log that the others write to. So whether a catalogue can be
written to is asked by its path, and nothing here opens it but ``sqlite3.connect``.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from pathlib import Path

from drt_engine.store.catalogue.index_text import indexed
from drt_engine.store.catalogue.row_checksums import pack_text, unpack_text
from drt_engine.store.filesystem.disk import not_plain

LOG_SUFFIX, SHARED_SUFFIX = "-wal", "-shm"
_EFFECTIVE = os.access in os.supports_effective_ids


def connect(path: Path, *, timeout: float, read_only: bool) -> sqlite3.Connection:
    """Return a connection to the database at ``path``, made empty where there is none.

    Raises OSError for a link or a special file, and sqlite3.Error.
    """
    is_new = not _is_plain(path)
    options = "?mode=rwc" if is_new else "?mode=rw"
    if read_only:
        # SQLite writes a file beside a database with a log even to read it
        options = "?mode=ro" if log_size(path) else "?mode=ro&immutable=1"
    connection = sqlite3.connect(
        path.absolute().as_uri() + options,
        uri=True,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
    )
    if is_new:  # by its path; SQLite gives the files beside it the same mode
        with contextlib.suppress(OSError):  # of a file system without modes
            os.chmod(path, 0o600)
    return add_functions(connection)


def add_functions(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Give a connection the functions that the schema uses, and return it."""
    connection.create_function("deflate", 1, pack_text, deterministic=True)
    connection.create_function("inflate", 1, unpack_text, deterministic=True)
    connection.create_function("indexed", 3, indexed, deterministic=True)
    return connection


def is_writable(path: Path) -> bool:
    """Return whether a database, or its folder where there is none, can be written to."""
    places = [path, path.parent] if path.exists() else [path.parent]
    return all(os.access(place, os.W_OK, effective_ids=_EFFECTIVE) for place in places)


def log_size(path: Path) -> int:
    """Return the bytes in a database's log."""
    try:
        return os.stat(path.with_name(path.name + LOG_SUFFIX)).st_size
    except FileNotFoundError:
        return 0


def _is_plain(path: Path) -> bool:
    """Return whether a plain file is there; OSError where something else is."""
    try:
        mode = os.stat(path, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(mode):
        raise not_plain(path)
    return True
