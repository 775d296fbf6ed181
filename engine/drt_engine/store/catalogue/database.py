"""The catalogue's SQLite connection: opening, transactions, errors in the store's own words.

Knows nothing of documents; the schema is in migrations.py and the queries in catalog.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from drt_engine.errors import CorruptStore, LockTimeout, StorageFull, StoreError
from drt_engine.files import forget_database, note_database
from drt_engine.store.catalogue import migrations
from drt_engine.store.catalogue.backup import backed_up, delete_backup
from drt_engine.store.catalogue.connection import add_functions, connect, is_writable, log_size
from drt_engine.store.filesystem.disk import DISK, FULL, Disk
from drt_engine.store.filesystem.library_folder import full_message
from drt_engine.store.filesystem.lock import WriterLock

Row = tuple[Any, ...]

# connections that a forked child was born with; SQLite's locks stay behind with the parent
_INHERITED: list[sqlite3.Connection] = []

# an IN list of any length as one parameter, which ``json_list`` makes
IN_LIST = "IN (SELECT value FROM json_each(?))"


def json_list(values: Sequence[int] | Sequence[str]) -> str:
    """Return the parameter for IN_LIST."""
    return json.dumps(values)


def storable(text: str) -> str:
    """Return text as SQLite takes it: bytes of a file name that are not UTF-8 become escapes."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # a lone surrogate that stands for no byte
        return text.encode("utf-8", "backslashreplace").decode("utf-8")


class Database:
    """One connection, usable from several threads, one at a time."""

    def __init__(
        self, path: Path, *, timeout: float, disk: Disk = DISK, read_only: bool = False
    ) -> None:
        self.path = path
        self._timeout = timeout
        self._disk = disk
        self._guard = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self.changes = 0  # transactions of this connection, which data_version does not count
        self.in_doubt = False  # a commit failed: only the next opening tells what is on the disk
        self._alone = False  # others cannot use it now
        self._full = False  # read only as long as the disk has no room for SQLite's own files
        with self._errors():
            self.read_only = read_only or not is_writable(path)
            self._connection = self._connected()

    def _connected(self, *, to_write: bool = False) -> sqlite3.Connection:
        self._process = os.getpid()
        read_only = self.read_only and not to_write
        connection = connect(self.path, timeout=self._timeout, read_only=read_only)
        self._noted = os.path.abspath(self.path)
        note_database(self._noted)
        return connection

    def prepare(self, lock: WriterLock) -> None:
        """Check whose database this is and apply outstanding migrations; closes on failure."""
        try:
            with self._errors():
                connection = self._readable()
                if not migrations.is_current(connection, where=str(self.path)):
                    self._migrate(lock)
                # FULL: files are deleted after a commit, which must not be lost afterwards
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA fullfsync = ON")  # as ``files.flush``, on macOS
        except BaseException:
            self.close()
            raise

    def _readable(self) -> sqlite3.Connection:
        """Return the connection; on a full disk, one that only reads.

        SQLite makes a file beside a database to read it, unless it is opened as immutable.
        """
        try:
            self._open().execute("PRAGMA user_version").fetchone()
        except sqlite3.Error as error:
            if self.read_only and log_size(self.path):
                raise StoreError(
                    f"the library at {self.path.parent} was in use when it became read-only: copy"
                    " it to a place that can be written to, and open it there"
                ) from error
            if self.read_only or not isinstance(self._translated(error), StorageFull):
                raise
            self.close()
            self.read_only = self._full = True
            self._connection = self._connected()
        return self._open()

    def _expect_writable(self) -> None:
        if not self.read_only:
            return
        if not self._full:
            raise StoreError(
                f"the library at {self.path.parent} is read-only, it can be read but not changed:"
                " copy it to a place that can be written to"
            )
        self.close()  # room may have been made since
        self.read_only = self._full = False
        self._connection = self._connected()
        self._readable()
        if self.read_only:
            self._open_alone()

    def _open_alone(self) -> None:
        """Write without the file that connections share: no inode may be left for it.

        What is removed makes room for the others. Raises StorageFull.
        """
        self.close()
        self._connection = self._connected(to_write=True)
        try:
            self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            self.close()
            self._connection = self._connected()  # which reads
            raise StorageFull(full_message(self.path.parent)) from error
        self.read_only = self._full = False
        self._alone = True

    def _share_again(self) -> None:
        """Let others use the database again, after a transaction of ``_open_alone``."""
        if self._alone:
            self.close()
            self._alone = False
            self._connection = self._connected()
            self._readable()

    def _migrate(self, lock: WriterLock) -> None:
        if self.read_only:
            raise StoreError(
                f"the library at {self.path.parent} is of an older version, which must be brought"
                " up to date, and is read-only: copy it to a place that can be written to"
            )
        with lock, self.backed_up():
            self._open().execute("PRAGMA journal_mode = WAL")
            with self.transaction() as connection:
                migrations.migrate(connection)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Yield the database as it is now, for as long as the block lasts, whoever changes it."""
        with self._errors():
            frozen = Snapshot(
                self.path, timeout=self._timeout, disk=self._disk, read_only=self.read_only
            )
        try:
            frozen.freeze()
            yield frozen
        finally:
            frozen.close()

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Return all rows of a statement; no read transaction stays open behind it."""
        with self._guard, self._errors():
            return self._open().execute(sql, parameters).fetchall()

    @contextlib.contextmanager
    def attached(self, path: Path, name: str) -> Iterator[sqlite3.Connection]:
        """Yield the connection with another database attached until the block ends."""
        with self._guard, self._errors():
            connection = self._open()
            connection.execute(f"ATTACH ? AS {name}", (str(path),))
            try:
                yield connection
            finally:
                connection.execute(f"DETACH {name}")

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection itself, with its errors translated to the store's own."""
        with self._guard, self._errors():
            yield self._open()

    def first_row(self, sql: str, parameters: Sequence[Any] = ()) -> Row | None:
        """Return the first row of a statement, or None."""
        rows = self.query(sql, parameters)
        return rows[0] if rows else None

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield a write transaction: committed at the end, rolled back on any exception."""
        with self._guard, self._errors():
            self._open()
            self._expect_writable()
            connection = self._open()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                self._commit(connection)
                self.changes += 1
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                self._share_again()

    def commit_anew(self) -> None:
        """Commit a change that changes nothing, over what the log may hold behind its last commit.

        SQLite writes a commit to the log, then to the memory that connections share. Who is killed
        between the two leaves one that the next recovery of the log, after a crash, brings back.
        """
        with self.transaction() as connection:
            ((version,),) = connection.execute("PRAGMA user_version").fetchall()
            connection.execute(f"PRAGMA user_version = {int(version)}")

    @contextlib.contextmanager
    def scratch(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection for a check that SQLite takes for a change; changes are rolled back.

        Of a library that cannot be written to, to a copy.
        """
        with self._guard, self._errors():
            if not self.read_only:
                connection = self._open()
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                finally:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                return
            copy = add_functions(sqlite3.connect(""))  # temporary, deleted when closed
            try:
                self._open().backup(copy)
                yield copy
            finally:
                copy.close()

    def _commit(self, connection: sqlite3.Connection) -> None:
        if self.in_doubt:
            raise StoreError(
                f"an earlier commit to {self.path} failed: close the library and open it again"
            )
        try:
            self._disk.commit(connection, self.path)
        except BaseException as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            clean = connection.in_transaction or code == sqlite3.SQLITE_FULL
            # what was written may or may not survive a power cut: nothing may build on it
            self.in_doubt = code == sqlite3.SQLITE_IOERR or not clean
            raise

    def version(self) -> tuple[int, int]:
        """Return a value that changes with every commit, of this connection or another."""
        row = self.first_row("PRAGMA data_version")
        return (int(row[0]) if row else 0, self.changes)

    @contextlib.contextmanager
    def backed_up(self) -> Iterator[None]:
        """Keep a copy beside the database while the block rewrites it whole; StorageFull."""
        with self._guard, self._errors(), backed_up(self._open(), self.path, self._disk):
            yield

    def delete_backup(self) -> None:
        """Delete a copy that an unfinished operation left; StoreError."""
        with self._errors():
            delete_backup(self.path, self._disk)

    def vacuum(self) -> None:
        """Rewrite the file without free pages and empty the log; waits for other readers.

        Raises LockTimeout when another process keeps the log in use.
        """
        with self._guard, self._errors():
            connection = self._open()
            self._disk.maintain(connection, self.path, "VACUUM")
            self.checkpoint()

    def checkpoint(self) -> None:
        """Move the log into the file and cut it to nothing; LockTimeout when it is in use."""
        with self._guard, self._errors():
            statement = "PRAGMA wal_checkpoint(TRUNCATE)"
            self._disk.maintain(self._open(), self.path, statement)
            if log_size(self.path):
                raise _busy(self.path, self._timeout)

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        with self._guard:
            connection, self._connection = self._connection, None
            if connection is None:
                return
            if self._process != os.getpid():
                _INHERITED.append(connection)  # closing it would delete the parent's log
                return
            with contextlib.suppress(sqlite3.Error):
                connection.close()
            forget_database(self._noted)

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreError(
                f"the library at {self.path.parent} was closed: open it again before using it"
            )
        if self._process != os.getpid():
            raise StoreError(
                f"the library at {self.path.parent} was opened by process {self._process} and this"
                f" is its child {os.getpid()}: open it again here"
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
        except UnicodeDecodeError as error:  # of a message of SQLite's that quotes broken bytes
            raise _corrupt(self.path, self._timeout) from error

    def _translated(self, error: sqlite3.Error | OSError) -> StoreError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary code
        make = _TRANSLATIONS.get(code)
        if make is not None:
            return make(self.path, self._timeout)
        if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN) and _is_full(self.path.parent):
            return StorageFull(full_message(self.path.parent))
        return StoreError(
            f"cannot use the library's catalogue {self.path} ({error}): check the disk and the"
            " folder's permissions"
        )


class Snapshot(Database):
    """A connection that sees one moment and changes nothing."""

    def freeze(self) -> None:
        """Begin the transaction that all queries will see."""
        with self._errors():
            connection = self._open()
            connection.execute("PRAGMA query_only = ON")
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM settings").fetchone()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Refuse to write."""
        raise StoreError(f"a snapshot of the library at {self.path.parent} cannot be written to")
        yield self._open()  # makes this a generator


def _is_full(folder: Path) -> bool:
    """Return whether there is no room: of blocks, of inodes, or of the user's share."""
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            file.write(bytes(1 << 16))
    except OSError as error:
        return error.errno in FULL
    return shutil.disk_usage(folder).free < 1 << 20


def _full(path: Path, _timeout: float) -> StoreError:
    return StorageFull(full_message(path.parent))


def _corrupt(path: Path, _timeout: float) -> StoreError:
    return CorruptStore(
        f"the library's catalogue {path} is damaged or not a database: `drt library check"
        " --repair` saves all that is left into a new library"
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
