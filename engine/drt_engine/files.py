"""What systems do differently with open files: locks, flushing, reading at a place, links.

Knows descriptors and paths; knows nothing of what files hold.
"""

from __future__ import annotations

import errno
import importlib
import os
import stat
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import IO, Any

fcntl: Any
try:
    fcntl = importlib.import_module("fcntl")
except ImportError:  # Windows, whose locks are those of portalocker, which is installed there
    fcntl = None

# Windows opens files as text unless told not to, and has no other flag of these.
BINARY = getattr(os, "O_BINARY", 0)
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # for a FIFO
_REPARSE_POINT = 0x400  # FILE_ATTRIBUTE_REPARSE_POINT: links and junctions of Windows
resource: Any
try:
    resource = importlib.import_module("resource")
except ImportError:  # Windows
    resource = None
_DESCRIPTORS = 512  # where a system names no limit: what the C library of Windows allows
# of the operating system, where the process or the whole system has no descriptor left
OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
# databases that SQLite has open in this process, by path, and how many connections each has
_databases: Counter[str] = Counter()
_databases_guard = threading.Lock()
_DATABASE_SUFFIXES = ("", "-wal", "-shm", "-journal")
_positions = threading.Lock()  # where reading at a place moves the position that threads share


def descriptor_limit() -> int:
    """Return how many files this process may have open."""
    if resource is None:
        return _DESCRIPTORS
    limit = int(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


class DatabaseInUseError(OSError):
    """A file that SQLite has open in this process, which nothing else may open."""


def note_database(path: str) -> None:
    """Note a connection of this process to the database at an absolute path."""
    with _databases_guard:
        _databases[path] += 1


def forget_database(path: str) -> None:
    """Note that a connection was closed."""
    with _databases_guard:
        _databases[path] -= 1
        if not _databases[path]:
            del _databases[path]


def expect_no_database(path: str | os.PathLike[str]) -> None:
    """Raise DatabaseInUseError before a file is opened that SQLite has open, by whatever name.

    POSIX takes all of a process's locks on a file away when the process closes any descriptor of
    it, and the next process that uses the database would destroy it.
    """
    with _databases_guard:
        names = list(_databases)
    if not names:
        return
    try:
        status = os.stat(path)
    except OSError:  # which opening it will say better
        return
    for name in (name + suffix for name in names for suffix in _DATABASE_SUFFIXES):
        try:
            if os.path.samestat(os.stat(name), status):
                raise DatabaseInUseError(errno.EBUSY, "it is a file of a library", str(path))
        except FileNotFoundError:
            continue


def expect_plain_file(path: Path) -> None:
    """Raise OSError for what is there and is not a plain file, such as a FIFO that waits."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "it is not a plain file", str(path))


def read_small_file(path: Path, *, largest: int) -> bytes:
    """Return a plain file of at most ``largest`` bytes, without ever waiting; else OSError."""
    expect_no_database(path)
    with open(os.open(path, os.O_RDONLY | BINARY | NO_WAIT), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a plain file", str(path))
        if status.st_size > largest:
            excess = f"it has {status.st_size:,} bytes, expected at most {largest:,}"
            raise OSError(errno.EFBIG, excess, str(path))
        return file.read(largest)


def lock(file: int | IO[Any], *, shared: bool = False, wait: bool = False) -> bool:
    """Lock an open file against other openings of it; return whether it could be had.

    The end of the process frees it, and so does ``unlock`` followed by closing the file.
    """
    if fcntl is None:
        return _lock_without_fcntl(file, shared=shared, wait=wait)
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(file, kind if wait else kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock_without_fcntl(file: int | IO[Any], *, shared: bool, wait: bool) -> bool:
    portalocker = importlib.import_module("portalocker")
    flags = portalocker.LockFlags
    kind = flags.SHARED if shared else flags.EXCLUSIVE
    try:
        portalocker.lock(file, kind if wait else kind | flags.NON_BLOCKING)
    except portalocker.exceptions.AlreadyLocked:
        return False
    except portalocker.exceptions.LockException as error:
        raise OSError(f"a file cannot be locked ({error})") from error
    return True


def unlock(file: int | IO[Any]) -> None:
    """Free a lock before its file is closed, where closing alone frees it late: on Windows."""
    if fcntl is None:
        importlib.import_module("portalocker").unlock(file)


def can_lock_folders() -> bool:
    """Return whether a folder can be opened, and so locked and flushed, which Windows cannot."""
    return fcntl is not None


def flush(descriptor: int) -> None:
    """Write a file's bytes to the disk, on macOS through the disk's own memory too."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        try:
            fcntl.fcntl(descriptor, full)
            return
        except OSError:  # not every file system of macOS has it
            pass
    os.fsync(descriptor)


def flush_path(path: Path) -> None:
    """Write a file, or the names in a folder, to the disk; nothing for a folder of Windows."""
    if path.is_dir():
        if not can_lock_folders():
            return
        descriptor = os.open(path, os.O_RDONLY)
    else:
        # Windows flushes only what may be written to.
        descriptor = os.open(path, (os.O_RDONLY if can_lock_folders() else os.O_RDWR) | BINARY)
    try:
        flush(descriptor)
    finally:
        os.close(descriptor)


def read_at(descriptor: int, size: int, offset: int) -> bytes:
    """Return at most ``size`` bytes from ``offset``, from any thread."""
    if hasattr(os, "pread"):
        data: bytes = os.pread(descriptor, size, offset)
        return data
    with _positions:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.read(descriptor, size)


def write_at(descriptor: int, data: bytes | memoryview, offset: int) -> int:
    """Write at ``offset``, from any thread; return how many bytes were written."""
    if hasattr(os, "pwrite"):
        count: int = os.pwrite(descriptor, data, offset)
        return count
    with _positions:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.write(descriptor, data)


def is_link(path: Path) -> bool:
    """Return whether a path is a symbolic link or a junction, where opening could not tell."""
    try:
        state = os.lstat(path)
    except OSError:
        return False
    attributes = getattr(state, "st_file_attributes", 0)
    return stat.S_ISLNK(state.st_mode) or bool(attributes & _REPARSE_POINT)
