"""Copies a library's folder while others use it: one moment's catalogue, and the files it names.

A snapshot keeps those files from being deleted until they are copied, and SQLite's backup API
copies the catalogue, so writers need not wait. The copy appears under its name when it is whole and
checked. Older formats are copied, too. Knows nothing of what the files hold.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from drt_engine.errors import CorruptStore, StorageFull, StoreError
from drt_engine.files import can_lock_folders, flush_path, is_link, lock
from drt_engine.results import Backup
from drt_engine.store.catalogue import migrations
from drt_engine.store.catalogue.backup import copy_database
from drt_engine.store.catalogue.database import Snapshot
from drt_engine.store.filesystem import library_folder
from drt_engine.store.filesystem.disk import DISK, FULL, Disk, not_plain
from drt_engine.store.store import Store

_BLOCK = 1 << 20


def copy_library(
    source: Path,
    target: Path,
    *,
    earlier: Path | None = None,
    check: bool = True,
    lock_timeout: float = 10.0,
    disk: Disk = DISK,
) -> Backup:
    """Copy the library at ``source`` to the new folder ``target``, as it is at one moment.

    Files that ``earlier``, a backup on the same disk, has too are linked in place of copied.
    ``check`` verifies every checksum of the copy. Raises StoreError where there is no library or
    ``target`` is in use, CorruptStore where the copy is not sound, StorageFull.
    """
    with library_folder.file_errors(source):
        library_folder.expect_plain(source)
        if not (source / library_folder.CATALOG_NAME).is_file():
            raise StoreError(f"there is no library at {source}: name the folder of one")
    with _errors_of(target), _new_folder(source, target) as unfinished:
        copied, linked = _copy(
            source, unfinished, earlier=earlier, lock_timeout=lock_timeout, disk=disk
        )
        documents = _expect_sound(unfinished, target, check=check, lock_timeout=lock_timeout)
    return Backup(str(target), documents=documents, copied_bytes=copied, linked_bytes=linked)


def _expect_separate(source: Path, target: Path) -> None:
    """Raise StoreError where the copy would lie in the library, or replace something."""
    source_path, target_path = source.resolve(), target.resolve()
    if source_path == target_path or source_path in target_path.parents:
        raise StoreError(f"{target} is inside the library at {source}: name a folder outside it")
    if is_link(target) or target.is_file() or (target.is_dir() and any(target.iterdir())):
        raise StoreError(f"{target} is there already: name a folder that does not exist yet")


@contextlib.contextmanager
def _errors_of(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise StorageFull(
                f"the disk of {target} has no room for the copy, which was not kept: free some"
                " space there, or name a folder on another disk"
            ) from error
        raise StoreError(
            f"cannot copy to {target} ({error.strerror}: {error.filename}): check the folders and"
            " their permissions"
        ) from error


@contextlib.contextmanager
def _new_folder(source: Path, target: Path) -> Iterator[Path]:
    """Yield a hidden folder beside ``target``, which gets that name when the block succeeds."""
    _expect_separate(source, target)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.part")
    with _claimed(unfinished):
        try:
            yield unfinished
            flush_path(unfinished)
            if target.is_dir():
                target.rmdir()  # empty, else an OSError
            os.rename(unfinished, target)
            flush_path(target.parent)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise


@contextlib.contextmanager
def _claimed(unfinished: Path) -> Iterator[None]:
    """Make a folder, in the place of one that a killed copy left, and lock it for the block."""
    if not can_lock_folders():
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        yield
        return
    with _opened(unfinished.parent) as parent:
        lock(parent, wait=True)  # until the folder is made and locked
        if is_link(unfinished):
            raise not_plain(unfinished)
        if unfinished.exists():
            with _opened(unfinished) as left:
                if not lock(left):
                    raise StoreError(f"another copy is being written to {unfinished}: wait for it")
                shutil.rmtree(unfinished)
        unfinished.mkdir(mode=0o700)
        descriptor = os.open(unfinished, os.O_RDONLY)
        lock(descriptor)
    try:
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _copy(
    source: Path, target: Path, *, earlier: Path | None, lock_timeout: float, disk: Disk
) -> tuple[int, int]:
    """Copy catalogue and files of one moment; return the bytes copied and linked."""
    folder = library_folder.Folder(source, disk=disk, timeout=lock_timeout)
    catalog = source / library_folder.CATALOG_NAME
    with folder.readers.shared(), _frozen(catalog, lock_timeout, disk) as database:
        with database.reading() as connection:
            migrations.is_current(connection, where=str(catalog))
            copy_database(connection, target / library_folder.CATALOG_NAME)
        with Store.open(target, lock_timeout=lock_timeout) as copy:  # brings it up to date
            names = sorted(copy.file_names())
        _expect_file_names(names, catalog)
        return _copy_segments(folder, target, names, earlier)


@contextlib.contextmanager
def _frozen(catalog: Path, timeout: float, disk: Disk) -> Iterator[Snapshot]:
    database = Snapshot(catalog, timeout=timeout, disk=disk)
    try:
        database.freeze()
        yield database
    finally:
        database.close()


def _expect_file_names(names: Iterable[str], catalog: Path) -> None:
    """Raise CorruptStore for names that lead out of the folder: a library may be a stranger's."""
    for name in names:
        if Path(name).name != name or not name.endswith(library_folder.OUR_SUFFIXES):
            raise CorruptStore(
                f"the catalogue {catalog} names the file {name!r:.80}, which is not a library's:"
                " `drt library check --repair` saves what is left into a new library"
            )


def _copy_segments(
    folder: library_folder.Folder, target: Path, names: list[str], earlier: Path | None
) -> tuple[int, int]:
    segments = target / library_folder.SEGMENTS_NAME
    copied, linked = 0, 0
    for name in names:
        place = segments / name
        old = None if earlier is None else earlier / library_folder.SEGMENTS_NAME / name
        if old is not None and _link(old, place, folder):
            linked += place.stat().st_size
        else:
            copied += _copy_file(folder, name, place)
    for name in names:  # after all are written: the disk puts them in order
        folder.disk.call("fsync", segments / name, partial(flush_path, segments / name))
    flush_path(segments)
    return copied + (target / library_folder.CATALOG_NAME).stat().st_size, linked


def _link(old: Path, place: Path, folder: library_folder.Folder) -> bool:
    """Link a file of an earlier backup; return whether it is there, of equal size, and linked."""
    try:
        if old.lstat().st_size != (folder.segments / place.name).lstat().st_size or is_link(old):
            return False
        folder.disk.link(old, place)
    except OSError:  # gone, on another disk, or on one without links
        return False
    return True


def _copy_file(folder: library_folder.Folder, name: str, place: Path) -> int:
    """Copy one file; return its bytes."""
    with folder.disk.reading(folder.segments / name) as descriptor:
        with (
            open(descriptor, "rb", closefd=False) as source,
            open(place, "xb", opener=_private) as file,
        ):
            folder.disk.call("write", place, lambda: shutil.copyfileobj(source, file, _BLOCK))
        return place.stat().st_size


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _expect_sound(folder: Path, target: Path, *, check: bool, lock_timeout: float) -> int:
    """Open the copy; return how many documents it has. Raises CorruptStore for damage."""
    with Store.open(folder, lock_timeout=lock_timeout, create=False) as store:
        findings = store.check() if check else []
        damage = [finding for finding in findings if finding.severity == "error"]
        if damage:
            raise CorruptStore(
                f"the copy is damaged ({len(damage)} findings, the first {damage[0].where}:"
                f" {damage[0].message}) and was not kept as {target}: run `drt library check"
                " --repair` on the library first"
            )
        return store.count_documents()
