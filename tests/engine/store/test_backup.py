"""A backup is one moment's library, whoever writes meanwhile, and appears whole or not at all."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from drt_engine.errors import CorruptStore, StorageFull, StoreError
from drt_engine.store import Store
from drt_engine.store.filesystem.disk import Disk
from drt_engine.store.transfer.backup import copy_library
from tests.engine.store.disks import DyingDisk, FailingDisk, Killed
from tests.engine.store.helpers import (
    add_document,
    errors,
    open_store,
    segment_files,
    text_id,
)
from tests.forks import Forks

T = TypeVar("T")
ROOT = Path(__file__).parents[3]
# Documents come and go in turn, so that any moment's library holds consecutive numbers.
WRITE = """
import itertools, sys
from pathlib import Path
from tests.engine.store.helpers import add_document, document_id, open_store
with open_store(Path(sys.argv[1])) as store:
    for number in itertools.count(1):
        add_document(store, number, [f"text {number} "] * 5, per_segment=2)
        if number > 3:
            store.remove_document(document_id(number - 3))
        if number % 7 == 0:
            store.compact()
        print(number, flush=True)
"""


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "copies" / "monday.library"


def filled(library: Path, documents: int = 3) -> None:
    with open_store(library) as store:
        for number in range(1, documents + 1):
            add_document(store, number, [f"text {number} ", "of heather. "], per_segment=1)


def test_a_copy_is_the_library(library: Path, target: Path) -> None:
    filled(library)
    copy = copy_library(library, target)
    assert (copy.folder, copy.documents, copy.linked_bytes) == (str(target), 3, 0)
    assert [path.name for path in target.parent.iterdir()] == [target.name]
    assert target.stat().st_mode & 0o777 == 0o700
    with open_store(library) as store, Store.open(target) as kept:
        assert kept.check() == []
        assert kept.documents() == store.documents()
        add_document(store, 4, ["read later "])
        assert kept.count_documents() == 3


@pytest.mark.thorough
def test_one_moment_while_another_process_writes(library: Path, target: Path, forks: Forks) -> None:
    with open_store(library), forks.start(WRITE, library, cwd=ROOT) as writer:
        numbers = []
        for copies in range(4):
            for _ in range(4):
                number = int(writer.stdout.readline())
            place = target.with_name(f"{copies}.library")
            copy_library(library, place)
            with Store.open(place) as kept:
                rows = kept.documents()
                here = [int(row.title.split()[1]) for row in rows]
                assert here == list(range(here[0], here[0] + len(here))) and len(here) in (3, 4)
                assert here[-1] >= number, "an older moment than the copy's beginning"
                assert [row.id for row in rows] == [text_id([f"text {n} "] * 5) for n in here]
                numbers.append(here[-1])
        assert numbers == sorted(set(numbers)), "the writer went on"
        writer.send_signal(9)
    with open_store(library) as store:
        store.clear_leftovers()
        assert errors(store) == []


class RemovingDisk(Disk):
    """Removes a library's documents when the first of its segments is opened."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def call(self, step: str, path: Path, action: Callable[[], T]) -> T:
        if step == "open" and path.suffix == ".seg":
            for row in self._store.documents():
                self._store.remove_document(row.id)
        return action()


def test_files_that_are_removed_meanwhile_are_copied(library: Path, target: Path) -> None:
    filled(library)
    with open_store(library) as store:
        copy_library(library, target, disk=RemovingDisk(store))
        assert store.count_documents() == 0
    with Store.open(target) as kept:
        assert kept.check() == [] and kept.count_documents() == 3


def test_unchanged_files_of_an_earlier_copy_are_linked(library: Path, target: Path) -> None:
    filled(library)
    first = target.with_name("sunday.library")
    copy_library(library, first)
    with open_store(library) as store:
        add_document(store, 4, ["one more "])
        store.remove_document(store.documents()[0].id)
    damaged = segment_files(first)[-1]
    damaged.write_bytes(damaged.read_bytes() + b"x")  # of another size: not taken
    copy = copy_library(library, target, earlier=first)
    kept, old = segment_files(target), {path.name: path for path in segment_files(first)}
    linked = [path for path in kept if path.stat().st_nlink == 2]
    assert len(kept) == 5 and len(linked) == 3
    assert all(path.samefile(old[path.name]) for path in linked)
    assert copy.linked_bytes == sum(path.stat().st_size for path in linked)
    with Store.open(first) as store:
        assert store.count_documents() == 3, "an earlier copy stays as it is"


def test_damage_is_found_and_kept_only_where_nobody_checks(library: Path, target: Path) -> None:
    filled(library)
    segment = segment_files(library)[0]
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    with pytest.raises(CorruptStore, match="was not kept"):
        copy_library(library, target)
    assert list(target.parent.iterdir()) == []
    assert copy_library(library, target, check=False).documents == 3
    segment.unlink()
    with pytest.raises(StoreError, match=segment.name):
        copy_library(library, target.with_name("again"), check=False)


def test_nothing_is_replaced(library: Path, target: Path, tmp_path: Path) -> None:
    filled(library)
    target.mkdir(parents=True)
    copy_library(library, target)  # an empty folder is as good as none
    for place in (target, segment_files(target)[0], library, library / "segments" / "copy"):
        with pytest.raises(StoreError, match=r"already|inside"):
            copy_library(library, place)
    for name in ("nowhere", "copies"):
        with pytest.raises(StoreError, match="no library"):
            copy_library(tmp_path / name, tmp_path / "another")
    target.with_name("link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="already"):
        copy_library(library, target.with_name("link"))
    with Store.open(target) as kept:
        assert kept.count_documents() == 3


def test_a_copy_that_dies_leaves_no_library(library: Path, target: Path) -> None:
    filled(library, 1)
    at = 0
    while True:
        at += 1
        disk = DyingDisk(at, "after")
        try:
            copy_library(library, target, disk=disk)
        except Killed:
            assert not target.exists()
            (target.parent / f".{target.name}.part" / "segments").mkdir(parents=True)
            continue
        break
    assert at > 3
    with Store.open(target) as kept:
        assert kept.check() == [] and kept.count_documents() == 1
    assert [path.name for path in target.parent.iterdir()] == [target.name]


def test_a_full_disk_is_a_sentence(library: Path, target: Path) -> None:
    filled(library, 1)
    with pytest.raises(StorageFull, match="no room for the copy"):
        copy_library(library, target, disk=FailingDisk(3, errno.ENOSPC))
    assert list(target.parent.iterdir()) == []


def test_two_copies_to_one_place(library: Path, target: Path) -> None:
    filled(library, 1)
    other = target.parent / f".{target.name}.part"
    other.mkdir(parents=True)
    descriptor = os.open(other, os.O_RDONLY)
    try:
        from drt_engine.files import lock

        assert lock(descriptor)
        with pytest.raises(StoreError, match="wait for it"):
            copy_library(library, target)
    finally:
        os.close(descriptor)
    copy_library(library, target)


def test_names_that_lead_elsewhere_are_refused(library: Path, target: Path) -> None:
    filled(library, 1)
    with sqlite3.connect(library / "catalog.db") as connection:
        connection.execute("UPDATE segments SET name = '../../../secret.seg' WHERE id = 1")
    connection.close()
    with pytest.raises(CorruptStore, match="which is not a library's"):
        copy_library(library, target, check=False)
    assert list(target.parent.iterdir()) == []
