"""The one layer between the store and the operating system's files.

Whatever changes or reads a library's files goes through ``Disk.call``, one named step at a time, so
that tests can kill, record or fail any of them. Knows nothing of what the files hold; SQLite writes
the catalogue itself, only its commits pass here.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from drt_engine.files import (
    BINARY,
    NO_FOLLOW,
    NO_WAIT,
    expect_no_database,
    flush,
    flush_path,
    is_link,
    read_at,
)

T = TypeVar("T")
Bytes = bytes | bytearray | memoryview | mmap.mmap


# of the operating system, where a file or its folder cannot be written to
READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}
# where there is no room: on the disk, for another file, or in the user's share
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def open_plain(path: Path, flags: int, *, follow: bool = False) -> int:
    """Return a descriptor of a plain file.

    Raises OSError for a link, a FIFO, a device, without ever waiting.
    A library may come from somebody else: a link in it could lead to any file of the user's.
    ``follow`` allows links, for a path that the user has named, which may be a catalogue.
    """
    if follow:
        expect_no_database(path)
    flags |= BINARY | NO_WAIT | (0 if follow else NO_FOLLOW)
    if not follow and not NO_FOLLOW and is_link(path):
        raise not_plain(path)
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        # ENXIO: of a FIFO or a socket
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
            raise not_plain(path) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise not_plain(path)
    return descriptor


def not_plain(path: Path) -> OSError:
    """Return the error for a link or a special file where a library has a file or a folder."""
    return OSError(errno.EINVAL, "it is a link or a special file", str(path))


class Disk:
    """Files as the store uses them; every method is one step, and a failed one is not retried."""

    # Step and path are for tests that override this method to kill, record or fail a step.
    def call(self, step: str, path: Path, action: Callable[[], T]) -> T:  # noqa: ARG002  see above
        """Do one step on ``path``; all methods end here."""
        return action()

    def create(self, path: Path) -> int:
        """Return a descriptor to write a file that must not exist yet."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY
        return self.call("create", path, lambda: os.open(path, flags, 0o600))

    def write(self, descriptor: int, path: Path, data: Bytes) -> None:
        """Write all of ``data``."""

        def action() -> None:
            with memoryview(data) as remaining:
                done = 0
                while done < len(remaining):
                    done += os.write(descriptor, remaining[done:])

        self.call("write", path, action)

    def sync(self, descriptor: int, path: Path) -> None:
        """Make a file's bytes durable."""
        self.call("fsync", path, lambda: flush(descriptor))

    def sync_folder(self, path: Path) -> None:
        """Make the names in a folder durable."""
        self.call("fsync folder", path, lambda: flush_path(path))

    def rename(self, old: Path, new: Path) -> None:
        """Give a file its final name, in the place of an older one."""
        self.call("rename", new, lambda: os.replace(old, new))

    def link(self, old: Path, new: Path) -> None:
        """Give a file a second name."""
        follow = os.link not in os.supports_follow_symlinks
        self.call("link", new, lambda: os.link(old, new, follow_symlinks=follow))

    def unlink(self, path: Path) -> None:
        """Take a file's name away."""
        self.call("unlink", path, lambda: os.unlink(path))

    def commit(self, connection: sqlite3.Connection, path: Path) -> None:
        """End a transaction: what it changed is durable afterwards."""
        self.call("commit", path, lambda: connection.execute("COMMIT"))

    def maintain(self, connection: sqlite3.Connection, path: Path, statement: str) -> None:
        """Run a statement that rewrites the catalogue's file."""
        step = "vacuum" if statement.startswith("VACUUM") else "checkpoint"
        self.call(step, path, lambda: connection.execute(statement).fetchall())

    def open(self, path: Path) -> int:
        """Return a descriptor to read a file."""
        return self.call("open", path, lambda: open_plain(path, os.O_RDONLY))

    def read(self, descriptor: int, path: Path, *, size: int, offset: int) -> bytes:
        """Return at most ``size`` bytes from ``offset``."""
        return self.call("read", path, lambda: read_at(descriptor, size, offset))

    def map(self, descriptor: int, path: Path, size: int) -> mmap.mmap:
        """Return the file's bytes, mapped.

        ``size`` was compared with the file's size by the caller.
        The mapping is private and writable: tensors over read-only memory make torch warn, and
        nothing written through it could reach the file. Never close it while tensors over it
        live; dropping the last reference unmaps it.
        """
        return self.call("map", path, lambda: mmap.mmap(descriptor, size, access=mmap.ACCESS_COPY))

    @contextlib.contextmanager
    def reading(self, path: Path) -> Iterator[int]:
        """Yield an open descriptor, closed at the end."""
        descriptor = self.open(path)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def write_durably(self, path: Path, data: Bytes) -> None:
        """Write a new file under a temporary name, fsync, rename into place, fsync the folder."""
        with DurableFile(self, path, path.with_suffix(TEMPORARY_SUFFIX)) as file:
            file.write(data)


TEMPORARY_SUFFIX = ".tmp"
DISK = Disk()


class DurableFile:
    """A new file that appears whole under its name, or not at all, when its block ends."""

    def __init__(self, disk: Disk, path: Path, temporary: Path) -> None:
        self._disk, self._path, self._temporary = disk, path, temporary
        self._descriptor = -1
        self.size = 0

    def __enter__(self) -> DurableFile:
        self._descriptor = self._disk.create(self._temporary)
        return self

    def write(self, data: Bytes) -> None:
        """Append bytes."""
        self._disk.write(self._descriptor, self._temporary, data)
        self.size += len(data)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        places = [self._temporary]
        try:
            try:
                if kind is None:
                    self._disk.sync(self._descriptor, self._temporary)
            finally:
                os.close(self._descriptor)
            if kind is None:
                self._disk.rename(self._temporary, self._path)
                places = [self._path]
                self._disk.sync_folder(self._path.parent)
                places = []
        finally:
            for place in places:  # after a failed step nothing of the file may stay
                with contextlib.suppress(OSError):
                    self._disk.unlink(place)
