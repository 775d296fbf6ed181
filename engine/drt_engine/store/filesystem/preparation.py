"""Prepares the folder of a library: made where there is nothing, refused where there is more."""

from __future__ import annotations

import os
from pathlib import Path

from drt_engine.errors import CorruptStore, StoreError
from drt_engine.store.filesystem import library_folder
from drt_engine.store.filesystem.disk import READ_ONLY, Disk


def prepare_folder(path: Path, *, create: bool, disk: Disk) -> None:
    """Make or accept a library's folder; StoreError for anything else."""
    catalog = path / library_folder.CATALOG_NAME
    if path.exists() and not path.is_dir():
        raise StoreError(f"{path} is a file, not a library: name a folder")
    if not catalog.exists():
        _accept_new(path, create=create)
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        disk.sync_folder(path.parent)
    elif not catalog.stat().st_size and not _size_of(catalog.with_name(f"{catalog.name}-wal")):
        _expect_no_segments(path)  # as a crash or a full disk may leave it
    if not (path / library_folder.SEGMENTS_NAME).is_dir():
        try:
            (path / library_folder.SEGMENTS_NAME).mkdir(mode=0o700, exist_ok=True)
            disk.sync_folder(path)
        except OSError as error:
            if error.errno not in READ_ONLY:
                raise


def _size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _expect_no_segments(path: Path) -> None:
    """Raise CorruptStore for segments without a catalogue: as of a new library all would go."""
    segments = path / library_folder.SEGMENTS_NAME
    if segments.is_dir() and any(segments.iterdir()):
        raise CorruptStore(
            f"the library at {path} has lost its {library_folder.CATALOG_NAME}: `drt"
            " library check --repair` saves all that is left into a new library"
        )


def _accept_new(path: Path, *, create: bool) -> None:
    names = set(os.listdir(path)) if path.exists() else set()
    _expect_no_segments(path)
    if names - {
        library_folder.SEGMENTS_NAME,
        library_folder.LOCK_NAME,
        library_folder.READERS_NAME,
        library_folder.GATE_NAME,
    }:
        raise StoreError(
            f"{path} is neither empty nor a library: choose another folder with --library"
        )
    if not create:
        raise StoreError(
            f"there is no library at {path}: read a document into it first with `drt ingest PATH`"
        )
