"""A library's folder: names, errors in the store's own words, deleting what no reader needs.

Knows nothing of what the files hold.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from drt_engine.errors import StorageFull, StoreError, TooManyOpenFiles
from drt_engine.files import OUT_OF_DESCRIPTORS
from drt_engine.store.filesystem.disk import DISK, FULL, TEMPORARY_SUFFIX, Disk, not_plain
from drt_engine.store.filesystem.lock import ReadersLock

CATALOG_NAME = "catalog.db"
BACKUP_NAME = "backup.db"
LOCK_NAME = "lock"
READERS_NAME = "readers"
GATE_NAME = "gate"
SEGMENTS_NAME = "segments"
REBUILD_NAME = "rebuild"
REMOVED_NAME = "removed"
SEGMENT_SUFFIX = ".seg"
LANDMARK_FILE_SUFFIX = ".lmk"
INDEX_SUFFIX = ".ivf"
OUR_SUFFIXES = (SEGMENT_SUFFIX, LANDMARK_FILE_SUFFIX, INDEX_SUFFIX, TEMPORARY_SUFFIX)


def full_message(path: Path) -> str:
    """Return one sentence for a disk without room."""
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
        raise file_error(error, library) from error


# of the operating system, where a file system has no locks, such as some of networks
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP}


def file_error(error: OSError, library: Path) -> StoreError:
    """Return the store's own error for an operating system's."""
    if error.errno in FULL:
        return StorageFull(full_message(library))
    if error.errno in OUT_OF_DESCRIPTORS:
        return TooManyOpenFiles(
            f"a file of the library at {library} cannot be opened ({error.strerror}): try again"
            " later, or allow more open files with `ulimit -n`"
        )
    if error.errno in _NO_LOCKS:
        return StoreError(
            f"the file system of the library at {library} cannot lock files ({error.strerror}), and"
            " without locks two programs would destroy it: move it to another disk"
        )
    name = error.filename or library
    return StoreError(
        f"cannot use {name} in the library at {library} ({error.strerror}): check the folder"
        " and its permissions"
    )


def expect_plain(library: Path) -> None:
    """Raise OSError for a link or a special file where a library has a file or a folder.

    The library's folder itself may be a link: the user has named it.
    """
    logs = [CATALOG_NAME + suffix for suffix in ("-wal", "-shm", "-journal")]
    files = (CATALOG_NAME, *logs, BACKUP_NAME, LOCK_NAME, READERS_NAME, GATE_NAME)
    folders = (SEGMENTS_NAME, REBUILD_NAME, REMOVED_NAME)
    for name in (*files, *folders):
        try:
            mode = os.stat(library / name, follow_symlinks=False).st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        if not (stat.S_ISDIR(mode) if name in folders else stat.S_ISREG(mode)):
            raise not_plain(library / name)


def expect_outside(path: Path) -> None:
    """Raise StoreError for a file to be written inside a library, links followed."""
    for folder in Path(os.path.realpath(path)).parents:
        if os.path.isfile(folder / CATALOG_NAME) and os.path.isdir(folder / SEGMENTS_NAME):
            raise StoreError(
                f"cannot write {path}: it is inside the library at {folder}, so name a file"
                " elsewhere"
            )


class Folder:
    """The files of one library; deletes only what no snapshot of a reader may still need."""

    def __init__(self, path: Path, *, disk: Disk = DISK, timeout: float) -> None:
        self.path = path
        self.segments = path / SEGMENTS_NAME
        self.disk = disk
        self.readers = ReadersLock(path / READERS_NAME, path / GATE_NAME, timeout=timeout)
        self.leftovers = True  # files without a row may be there

    def write(self, name: str, data: bytes | bytearray) -> None:
        """Write a new file durably; StorageFull, StoreError."""
        with file_errors(self.path):
            self.disk.write_durably(self.segments / name, data)

    def delete(self, names: Iterable[str]) -> bool:
        """Delete files whose rows are gone; False where some stay, as orphans, for the next writer.

        While a reader holds a snapshot nothing is deleted: its rows may name these files.
        """
        names = list(names)
        if not names:
            return True
        try:
            with self.readers.excluded() as alone:
                if alone:
                    alone = self.unlink(names)
        except OSError:  # their rows are gone: it is no failure of what the caller did
            alone = False
        self.leftovers = self.leftovers or not alone
        return alone

    def unlink(self, names: Iterable[str]) -> bool:
        """Delete files while no reader is there; whether all are gone, whatever becomes of one."""
        return False not in [self._unlinked(name) for name in names]

    def _unlinked(self, name: str) -> bool:
        try:
            self.disk.unlink(self.segments / name)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def orphans(self, committed: Collection[str]) -> list[str]:
        """Return the names in the segment folder that the catalogue does not know."""
        with os.scandir(self.segments) as entries:
            return sorted(entry.name for entry in entries if entry.name not in committed)

    def own_orphans(self, committed: Collection[str]) -> list[str]:
        """Return what killed writers left; foreign files are not ours to delete."""
        with file_errors(self.path):
            names = [name for name in self.orphans(committed) if name.endswith(OUR_SUFFIXES)]
            return [name for name in names if not _is_folder(self.segments / name)]


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def removed_bytes(library: Path) -> int:
    """Return the size of the removed documents that can be brought back."""
    try:
        return folder_bytes(library / REMOVED_NAME)
    except FileNotFoundError:
        return 0


def folder_bytes(folder: Path) -> int:
    """Return the size of all files directly in a folder; one that is deleted meanwhile counts 0."""
    total = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                total += entry.stat(follow_symlinks=False).st_size
    return total
