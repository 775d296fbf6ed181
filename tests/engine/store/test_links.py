"""A library that somebody sent: links and special files in it are refused, not followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drt_engine.errors import EngineError, StoreError
from drt_engine.store import Store
from tests.engine.store.helpers import add_document, open_store, segment_files
from tests.engine.store.operations import read_again
from tests.engine.store.test_hostile import use_everything
from tests.sampling import sampled

LOCKS = ["lock", "readers", "gate"]
NAMES = ["catalog.db", "catalog.db-wal", "catalog.db-shm", *LOCKS, "segments", "rebuild"]


@pytest.fixture
def made(library: Path) -> Path:
    with open_store(library) as store:
        add_document(store, 1, ["text "] * 3)
        add_document(store, 2, ["more "] * 3)
        with store.snapshot():
            pass
    return library


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """What a link may lead to, and must stay as it is."""
    folder = tmp_path / "work"
    folder.mkdir()
    for name in ("thesis.txt", "a.seg", "b.lmk", "c.tmp"):
        (folder / name).write_text("mine")
    return folder


def try_everything(library: Path) -> None:
    with pytest.raises(StoreError, match="is a link or a special file"):
        use_everything(library)
    refused = pytest.raises(StoreError, match="is a link or a special file")
    with refused, open_store(library) as store:
        add_document(store, 3, ["new "])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("target", sampled(["thesis.txt", ".", "nowhere"], {0}))
def test_links_are_refused(made: Path, work: Path, name: str, target: str) -> None:
    path = made / name
    if path.exists():
        path.rename(made.parent / "moved")
    path.symlink_to(work / target)
    try_everything(made)
    assert sorted(entry.name for entry in work.iterdir()) == [
        "a.seg", "b.lmk", "c.tmp", "thesis.txt"
    ]  # fmt: skip
    assert {entry.read_text() for entry in work.iterdir()} == {"mine"}
    path.unlink()
    if (made.parent / "moved").exists():
        (made.parent / "moved").rename(path)
    with Store.open(made) as store:
        assert store.check() == []


@pytest.mark.parametrize("name", ["catalog.db", "catalog.db-wal", *LOCKS, "segments"])
def test_special_files_are_refused_without_waiting(made: Path, name: str) -> None:
    path = made / name
    if path.exists():
        path.rename(made.parent / "moved")
    os.mkfifo(path)
    try_everything(made)
    path.unlink()
    if (made.parent / "moved").exists():
        (made.parent / "moved").rename(path)
    with Store.open(made) as store:
        assert store.check() == []


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_segments_that_are_no_plain_files(made: Path, work: Path, kind: str) -> None:
    segment = segment_files(made)[0]
    whole = work / "whole"
    whole.write_bytes(segment.read_bytes())
    segment.unlink()
    if kind == "link":  # even to the very bytes
        segment.symlink_to(whole)
    elif kind == "fifo":
        os.mkfifo(segment)
    else:
        segment.mkdir()
    with open_store(made) as store:
        assert "segment" in {finding.kind for finding in store.check()}
        for use in (
            lambda: store.read_chunks(store.chunk_ids()),
            lambda: list(store.scan_landmarks()),
            lambda: store.export_archive(made.parent / "out.drtlib"),
        ):
            with pytest.raises(StoreError) as raised:
                use()
            assert "\n" not in str(raised.value)
        store.remove_document(segment.name[:16])
        if kind == "folder":
            segment.rmdir()
        assert store.check() == [] and whole.exists()


def test_links_in_an_unfinished_rebuild(made: Path, work: Path) -> None:
    with open_store(made) as store:
        assert store.fingerprint is not None and store.layout is not None
        with store.rebuilding(store.fingerprint, store.layout) as fresh:
            read_again(store, fresh)
        inner = segment_files(made / "rebuild")[0]
        inner.unlink()
        inner.symlink_to(work / "thesis.txt")
        assert store.swap_in_rebuilt()
        assert "segment" in {finding.kind for finding in store.check()}
        with pytest.raises(StoreError):
            store.read_chunks(store.chunk_ids())
        assert (work / "thesis.txt").read_text() == "mine"
        for row in store.documents():
            store.remove_document(row.id)
        assert store.check() == [] and (work / "thesis.txt").read_text() == "mine"


def test_the_librarys_own_folder_may_be_a_link(made: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(made)
    with open_store(tmp_path / "link") as store:
        add_document(store, 3, ["new "])
        assert store.check() == []


def test_an_archive_that_is_no_file_is_refused_without_waiting(made: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with open_store(made) as store:
        for path in (tmp_path / "pipe", tmp_path):
            with pytest.raises(EngineError, match="cannot read the archive"):
                store.import_archive(path)
        store.export_archive(tmp_path / "out.drtlib")
        (tmp_path / "link").symlink_to(tmp_path / "out.drtlib")
        assert store.import_archive(tmp_path / "link") == []
        assert store.check() == []
