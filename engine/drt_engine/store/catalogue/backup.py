"""A copy of the catalogue, kept beside it while an operation rewrites it whole.

SQLite makes it, so that it is one moment's catalogue whoever writes meanwhile. It goes when SQLite
finds the rewritten catalogue whole; what a failure or a power cut leaves is for ``salvage.py``.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from drt_engine.files import flush_path
from drt_engine.store.catalogue.connection import connect
from drt_engine.store.filesystem.disk import TEMPORARY_SUFFIX, Disk
from drt_engine.store.filesystem.library_folder import BACKUP_NAME


@contextlib.contextmanager
def backed_up(connection: sqlite3.Connection, path: Path, disk: Disk) -> Iterator[None]:
    """Keep a copy of the database at ``path`` while the block rewrites it.

    A new one is not copied. Raises sqlite3.Error or OSError, before the block, without room for it.
    """
    if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
        yield
        return
    backup = path.with_name(BACKUP_NAME)
    disk.call("backup", path, lambda: copy_database(connection, backup))
    try:
        yield
    finally:
        with contextlib.suppress(sqlite3.Error, OSError):  # then it stays
            if connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",):
                disk.unlink(backup)


def delete_backup(path: Path, disk: Disk) -> None:
    """Delete a copy that an operation left, which holds what was removed since."""
    for name in (BACKUP_NAME, _temporary(path).name):
        with contextlib.suppress(FileNotFoundError):
            disk.unlink(path.with_name(name))


def copy_database(connection: sqlite3.Connection, backup: Path) -> None:
    """Write a copy of the database as the connection sees it, durably, under a new name."""
    temporary = _temporary(backup)
    for suffix in ("", "-journal"):  # of a copy that was killed
        temporary.with_name(temporary.name + suffix).unlink(missing_ok=True)
    try:
        target = connect(temporary, timeout=0.0, read_only=False)
        try:
            target.execute("PRAGMA synchronous = OFF")  # flushed below
            connection.backup(target)
        finally:
            target.close()
        flush_path(temporary)
        os.replace(temporary, backup)
        flush_path(backup.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _temporary(backup: Path) -> Path:
    return backup.with_name(BACKUP_NAME).with_suffix(TEMPORARY_SUFFIX)
