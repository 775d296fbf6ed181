"""Libraries that wait for no disk, and begin with a catalogue that was migrated once.

Only a power cut would tell the difference. To go through every migration takes longer than most
tests of a library; an older library, one whose disk records or fails steps, and those of other
processes go through them.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from functools import cache, wraps
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from drt_engine.store.catalogue.database import Database
    from drt_engine.store.filesystem.lock import WriterLock


def make_quick(patch: pytest.MonkeyPatch) -> None:
    """Let files and catalogues of this process be quick."""
    patch.setattr("os.fsync", os.fstat)  # of a descriptor, too
    if "drt_engine.store.catalogue.database" in sys.modules:
        _begin_with_copies(patch)
        _wait_for_no_disk(patch)


def _wait_for_no_disk(patch: pytest.MonkeyPatch) -> None:
    from drt_engine.store.catalogue.database import Database

    prepare = Database.prepare

    @wraps(prepare)
    def prepare_and_go_on(self: Database, lock: WriterLock) -> None:
        prepare(self, lock)
        self._open().execute("PRAGMA synchronous = OFF")

    patch.setattr(Database, "prepare", prepare_and_go_on)


def _begin_with_copies(patch: pytest.MonkeyPatch) -> None:
    from drt_engine.store.catalogue import migrations
    from drt_engine.store.catalogue.connection import add_functions
    from drt_engine.store.catalogue.database import Database
    from drt_engine.store.filesystem.disk import Disk

    @cache
    def migrated(steps: tuple[object, ...]) -> sqlite3.Connection:
        memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        add_functions(memory)
        migrations.migrate(memory)
        return memory

    migrate = Database._migrate

    def copy_or_migrate(self: Database, lock: WriterLock) -> None:
        if self.read_only or type(self._disk) is not Disk or not _is_new(self._open()):
            migrate(self, lock)
            return
        with lock:
            connection = self._open()
            connection.execute("PRAGMA synchronous = OFF")  # until all is prepared
            connection.execute("PRAGMA journal_mode = WAL")
            if _is_new(connection):  # as no other process made it meanwhile
                migrated(migrations.MIGRATIONS).backup(connection)
        if not migrations.is_current(self._open(), where=str(self.path)):
            migrate(self, lock)

    patch.setattr(Database, "_migrate", copy_or_migrate)


def _is_new(connection: sqlite3.Connection) -> bool:
    """Return whether nothing is in a database."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return not version and not tables
