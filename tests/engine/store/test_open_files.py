"""Files that stay open: none that was deleted, few of those that are there, all closed in need."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from drt_engine.errors import TooManyOpenFiles
from drt_engine.store import Store
from drt_engine.store.filesystem.disk import Disk
from drt_engine.store.segments import open_files
from tests.engine.store.helpers import INT8, add_document, document_id, open_store, segment_files


def open_names(store: Store) -> set[str]:
    """The segment and landmark files that a library keeps open."""
    reader = store._opened_reader()
    return {*reader._files, *reader._landmark_files, *reader._copied}


def read_everything(store: Store) -> None:
    with store.snapshot() as view:
        view.read_chunks(view.chunk_ids())
        list(view.scan_landmarks())


@pytest.fixture
def reading(store: Store, library: Path) -> Any:
    """The same library, opened to read; what is read there stays open."""
    with open_store(library) as opened:
        yield opened


def test_files_of_removed_documents_are_closed_by_the_next_snapshot(
    store: Store, reading: Store
) -> None:
    for number in range(1, 9):
        add_document(store, number, [f"one {number} ", f"two {number} "])
    read_everything(reading)
    assert len(open_names(reading)) == 8
    for number in range(1, 8):
        store.remove_document(document_id(number))
    assert len(open_names(reading)) == 8  # until it is asked
    read_everything(reading)
    assert open_names(reading) == {path.name for path in segment_files(store.path)}


def test_a_writer_closes_what_it_has_removed(store: Store) -> None:
    for number in (1, 2, 3):
        add_document(store, number, ["one ", f"two {number} "])
    read_everything(store)
    store.remove_document(document_id(1))
    store.remove_document(document_id(2))
    store.clear_leftovers()
    assert open_names(store) == {path.name for path in segment_files(store.path)}


def test_forgotten_documents_are_closed_at_once_in_the_whole_process(
    store: Store, reading: Store, library: Path
) -> None:
    for number in range(1, 4):
        add_document(store, number, [f"one {number} ", f"two {number} "])
    read_everything(reading)
    held = reading.read_chunks(reading.chunk_ids([document_id(1)]))
    landmarks = held.landmarks.clone()
    (library.parent / "link").symlink_to(library)
    with Store.open(library.parent / "link") as other:  # as the SDK's Library does
        other.forget_document(document_id(1))
    assert open_names(reading) == {path.name for path in segment_files(library)}
    assert torch.equal(held.landmarks, landmarks)  # what was handed out stays


def test_a_process_with_few_descriptors_keeps_fewer_files_open(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_files, "descriptor_limit", lambda: 24)
    for number in range(1, 9):
        add_document(store, number, [f"one {number} "])
    read_everything(store)
    assert len(store._opened_reader()._files) == 3


class Shortage(Disk):
    """A disk that opens a segment only once other libraries' are closed, or never."""

    def __init__(self) -> None:
        self.short: Callable[[], bool] = lambda: False

    def call(self, step: str, path: Path, action: Callable[[], Any]) -> Any:
        if step == "open" and self.short():
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        return action()


def test_a_shortage_closes_files_of_all_libraries_and_heals(store: Store, tmp_path: Path) -> None:
    add_document(store, 1, ["one "])
    read_everything(store)
    disk = Shortage()
    with Store.open(
        tmp_path / "other", fingerprint="f", layout=INT8, create=True, disk=disk
    ) as other:
        add_document(other, 1, ["one "])
        disk.short = lambda: bool(store._opened_reader()._files)
        assert len(other.read_chunks(other.chunk_ids()).lengths) == 1
        assert not store._opened_reader()._files
        other._memory.close()
        disk.short = lambda: True
        with pytest.raises(TooManyOpenFiles, match="ulimit"):
            other.read_chunks(other.chunk_ids())
        disk.short = lambda: False
        assert len(other.read_chunks(other.chunk_ids()).lengths) == 1
