"""The catalogue's SQLite connection: opening, transactions, errors in the store's own words.

Knows nothing of documents; the schema is in migrations.py and the queries in catalog.py.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from drt_engine.errors import CorruptStore, LockTimeout, StorageFull, StoreError
from drt_engine.store import migrations
from drt_engine.store.files import full_message
from drt_engine.store.lock import WriterLock

Row = tuple[Any, ...]


class Database:
    """One connection, usable from several threads, one at a time."""

    def __init__(self, path: Path, *, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._guard = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        with self._errors():
            # SQLite gives the files it makes beside the database the mode of the database
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            self._connection = sqlite3.connect(
                path, timeout=timeout, isolation_level=None, check_same_thread=False
            )

    def prepare(self, lock: WriterLock) -> None:
        """Check whose database this is and apply outstanding migrations; closes on failure."""
        try:
            with self._errors():
                connection = self._open()
                if not migrations.is_current(connection, where=str(self._path)):
                    self._migrate(lock)
                # FULL: files are deleted after a commit, which must not be lost afterwards
                connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            self.close()
            raise

    def _migrate(self, lock: WriterLock) -> None:
        with lock:
            self._open().execute("PRAGMA journal_mode = WAL")
            with self.transaction() as connection:
                migrations.migrate(connection)

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """All rows of a statement; no read transaction stays open behind it."""
        with self._guard, self._errors():
            return self._open().execute(sql, parameters).fetchall()

    def one(self, sql: str, parameters: Sequence[Any] = ()) -> Row | None:
        """The first row of a statement, or None."""
        rows = self.query(sql, parameters)
        return rows[0] if rows else None

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A write transaction: committed at the end, rolled back on any exception."""
        with self._guard, self._errors():
            connection = self._open()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        with self._guard:
            connection, self._connection = self._connection, None
            if connection is not None:
                with contextlib.suppress(sqlite3.Error):
                    connection.close()

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreError(
                f"the library at {self._path.parent} was closed: open it again before using it"
            )
        return self._connection

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            if isinstance(error, sqlite3.ProgrammingError | sqlite3.IntegrityError):
                raise
            raise self._translated(error) from error

    def _translated(self, error: sqlite3.Error | OSError) -> StoreError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary code
        make = _TRANSLATIONS.get(code)
        if make is not None:
            return make(self._path, self._timeout)
        if code == sqlite3.SQLITE_IOERR and _is_full(self._path.parent):
            return StorageFull(full_message(self._path.parent))
        return StoreError(
            f"cannot use the library's catalogue {self._path} ({error}): check the disk and the"
            " folder's permissions"
        )


def _is_full(folder: Path) -> bool:
    state = os.statvfs(folder)
    return state.f_bavail * state.f_frsize < 1 << 20


def _full(path: Path, _timeout: float) -> StoreError:
    return StorageFull(full_message(path.parent))


def _corrupt(path: Path, _timeout: float) -> StoreError:
    return CorruptStore(
        f"the library's catalogue {path} is damaged or not a database: restore it from a copy, or"
        " read the documents into a new library"
    )


def _busy(path: Path, timeout: float) -> StoreError:
    return LockTimeout(
        f"another process is writing to the library at {path.parent} and did not finish within"
        f" {timeout:g} s: wait for it, or allow more time with --lock-timeout"
    )


_TRANSLATIONS: dict[int, Callable[[Path, float], StoreError]] = {
    sqlite3.SQLITE_FULL: _full,
    sqlite3.SQLITE_CORRUPT: _corrupt,
    sqlite3.SQLITE_NOTADB: _corrupt,
    sqlite3.SQLITE_BUSY: _busy,
    sqlite3.SQLITE_LOCKED: _busy,
}
