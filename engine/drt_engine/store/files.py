"""Files of a library: durable writing, deleting, clearing what a killed writer left.

Knows nothing of what the files hold.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from drt_engine.errors import StorageFull, StoreError

CATALOG_NAME = "catalog.db"
LOCK_NAME = "lock"
SEGMENTS_NAME = "segments"
SEGMENT_SUFFIX = ".seg"
TEMPORARY_SUFFIX = ".tmp"

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def full_message(path: Path) -> str:
    """One sentence for a disk without room."""
    return (
        f"the disk that holds the library at {path} is full: free some space and run the command"
        " again, reading continues where it stopped"
    )


@contextlib.contextmanager
def file_errors(library: Path) -> Iterator[None]:
    """Turn an operating system's error into the store's own."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StorageFull(full_message(library)) from error
        name = error.filename or library
        raise StoreError(
            f"cannot use {name} in the library at {library} ({error.strerror}): check the folder"
            " and its permissions"
        ) from error


def write_durably(path: Path, data: bytes | bytearray) -> None:
    """Write a new file under a temporary name, fsync, rename into place, fsync the folder."""
    temporary = path.with_suffix(TEMPORARY_SUFFIX)
    try:
        _write_new(temporary, data)
        os.rename(temporary, path)
        sync_folder(path.parent)
    except OSError:
        for name in (temporary, path):
            with contextlib.suppress(OSError):
                os.unlink(name)
        raise


def _write_new(path: Path, data: bytes | bytearray) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with memoryview(data) as rest:
            done = 0
            while done < len(rest):
                done += os.write(descriptor, rest[done:])
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def delete_segments(folder: Path, names: Iterable[str]) -> None:
    """Delete files whose rows are gone; one that cannot be deleted stays as an orphan."""
    for name in names:
        with contextlib.suppress(OSError):
            os.unlink(folder / name)


def orphans(folder: Path, committed: Collection[str]) -> list[str]:
    """Names in the segment folder that the catalogue does not know."""
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if entry.name not in committed)


def clear_orphans(folder: Path, committed: Collection[str]) -> None:
    """Delete what killed writers left; foreign files are not ours to delete."""
    ours = (SEGMENT_SUFFIX, TEMPORARY_SUFFIX)
    delete_segments(folder, [name for name in orphans(folder, committed) if name.endswith(ours)])


def folder_bytes(folder: Path) -> int:
    """Size of all files directly in a folder; one that vanishes meanwhile counts nothing."""
    total = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                total += entry.stat().st_size
    return total
