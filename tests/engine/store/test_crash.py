"""Killed writers, second writers and full disks lose nothing that was committed."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from drt_engine.errors import LockTimeout, StorageFull, StoreError
from drt_engine.store import RecordLayout, Store
from drt_engine.store.catalogue.database import Database
from tests.engine.store import crash_writer
from tests.engine.store.helpers import (
    INT8,
    add_document,
    document_id,
    errors,
    make_batch,
    make_texts,
    open_durable,
    open_store,
    segment_files,
    text_id,
)
from tests.forks import Forks

ROOT = Path(__file__).parents[3]
WRITER = "from tests.engine.store.crash_writer import main; main()"
KILLS, SOME, MANY = 3, 40, 500


def kill_once(forks: Forks, library: Path, chance: random.Random) -> dict[int, int]:
    """Start a writer, kill it at some point; the chunks it said were committed, by document."""
    committed: dict[int, int] = {}
    # counted in commits, since a busy machine may need a second for the first one
    commits, delay = chance.randrange(12), chance.uniform(0.0, 0.02)
    alive = True
    with forks.start(WRITER, library, cwd=ROOT) as writer:
        while True:
            if alive and commits <= 0:
                time.sleep(delay)
                writer.send_signal(signal.SIGKILL)
                alive = False
            words = writer.stdout.readline().split()
            if not words:
                return committed
            committed[int(words[0])] = int(words[1])
            commits -= 1


@cache
def _numbers() -> dict[str, int]:
    return {text_id(crash_writer.pieces(number)): number for number in range(1, 10_000)}


def pieces_of(document_id: str) -> list[str]:
    """The text of a document that the server read."""
    return crash_writer.pieces(_numbers()[document_id])


def assert_nothing_lost(store: Store, committed: dict[int, int]) -> None:
    held = {row.id: row.chunks for row in store.documents() + store.partial_documents()}
    for number, chunks in committed.items():
        # a third document takes its predecessor's place when it is finished
        replaced = text_id(crash_writer.pieces(number + 1)) if number % 3 == 2 else ""
        assert held.get(text_id(crash_writer.pieces(number)), 0) >= chunks or replaced in held
    for row in store.documents():
        assert "".join(store.iter_text(row.id)) == "".join(pieces_of(row.id))


@pytest.mark.parametrize(
    "kills",
    [
        KILLS,
        pytest.param(SOME, marks=pytest.mark.slow),
        pytest.param(MANY, marks=pytest.mark.stress),
    ],
)
def test_killed_writers_lose_nothing_committed(library: Path, kills: int, forks: Forks) -> None:
    chance = random.Random(kills)
    committed: dict[int, int] = {}
    for _ in range(kills):
        committed |= kill_once(forks, library, chance)
        if (library / "catalog.db").exists():
            with open_store(library) as store:
                assert errors(store) == []
                assert_nothing_lost(store, committed)
    assert committed
    with open_store(library) as store:
        for row in store.partial_documents():
            add_document(store, 0, pieces_of(row.id), source=row.source)
        assert store.partial_documents() == []
        add_document(store, 10_000, ["the writer's lock is free"])
        assert store.check() == []


@pytest.mark.skipif(sys.platform != "linux", reason="looks descriptors up in /proc")
def test_commits_wait_for_the_disk(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []

    def record(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))

    monkeypatch.setattr(Database, "prepare", Database.prepare.__wrapped__)  # type: ignore
    with open_durable(library) as store:
        assert store._database.query("PRAGMA synchronous") == [(2,)]
        assert store._database.query("PRAGMA journal_mode") == [("wal",)]
        monkeypatch.setattr(os, "fsync", record)
        add_document(store, 1, ["text"])
    [segment] = segment_files(library)
    assert synced == [segment.with_suffix(".tmp"), library / "segments"]


@pytest.mark.parametrize("step", ["write", "rename", "sync_folder", "commit"])
def test_an_exception_at_any_step_leaves_what_was_committed(
    library: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    targets = {
        "write": "drt_engine.store.filesystem.disk.Disk.write",
        "rename": "drt_engine.store.filesystem.disk.Disk.rename",
        "sync_folder": "drt_engine.store.filesystem.disk.Disk.sync_folder",
        "commit": "drt_engine.store.catalogue.catalog._partial_number",
    }
    pieces = ["one ", "two ", "three "]
    with open_store(library) as store:
        first = add_document(store, 1, ["zero ", *pieces])
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(targets[step], interrupt)
            add_document(store, 2, pieces)
        assert errors(store) == []
        assert [row.id for row in store.documents()] == [first.id]
        assert add_document(store, 2, pieces).chunks == 3
    with open_store(library) as store:
        add_document(store, 3, [*pieces, "four "])
        assert store.check() == []


HOLDER = """
import sys
from pathlib import Path
from drt_engine.store.filesystem.lock import WriterLock
with WriterLock(Path(sys.argv[1]), timeout=1.0):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.thorough
def test_a_second_process_waits_then_gives_up(store: Store) -> None:
    add_document(store, 1, ["text to find"])
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(store.path / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder, open_store(store.path, lock_timeout=0.2) as second:
        assert holder.stdin is not None and holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        started = time.monotonic()
        with pytest.raises(LockTimeout, match=rf"process {holder.pid} .*0\.2 s.*--lock-timeout"):
            add_document(second, 2, ["text"])
        assert 0.2 <= time.monotonic() - started < 2
        with pytest.raises(LockTimeout):
            second.remove_document(document_id(1))
        assert second.search_text("find") and len(second.read_chunks([1]).ids) == 1
        second.save_session("s", transcript=[], meta={}, state=b"")
        holder.stdin.close()
        holder.wait()
        assert add_document(second, 2, ["text"]).chunks == 1


def test_two_stores_of_one_process_wait_for_each_other(store: Store) -> None:
    with open_store(store.path, lock_timeout=5.0) as second:
        writer = store.begin_document(
            document_id=text_id(["first"]), title="T", source="s", media_type="text/plain"
        )
        waiting = threading.Thread(target=add_document, args=(second, 2, ["second"]))
        waiting.start()
        time.sleep(0.1)
        assert store.documents() == []
        writer.append(make_batch(INT8, [4]), make_texts(["first"]))
        writer.finish(places=[])
        waiting.join()
    assert [row.id for row in store.documents()] == [text_id(["first"]), text_id(["second"])]


def test_a_busy_catalogue_is_a_lock_timeout(store: Store) -> None:
    other = sqlite3.connect(store.path / "catalog.db", isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        with open_store(store.path, lock_timeout=0.1) as second, pytest.raises(LockTimeout):
            second.set_setting("k", "v")
        other.execute("ROLLBACK")
    finally:
        other.close()


def full_write(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def half_write() -> Callable[[int, memoryview], int]:
    write, calls = os.write, 0

    def fake(descriptor: int, data: memoryview) -> int:
        nonlocal calls
        calls += 1
        return full_write() if calls > 1 else write(descriptor, data[:100])

    return fake


@pytest.mark.parametrize(
    ("name", "fake"),
    [("write", full_write), ("write", half_write()), ("fsync", full_write)],
    ids=["write", "second write", "fsync"],
)
def test_a_full_disk_is_one_sentence_and_no_loss(
    store: Store, monkeypatch: pytest.MonkeyPatch, name: str, fake: Callable[..., int]
) -> None:
    add_document(store, 1, ["kept"])
    with monkeypatch.context() as patch:
        patch.setattr(os, name, fake)
        with pytest.raises(StorageFull, match="is full: free some space"):
            add_document(store, 2, ["lost"])
    assert [path.suffix for path in (store.path / "segments").iterdir()] == [".seg"]
    assert errors(store) == []
    assert add_document(store, 2, ["found again"]).chunks == 1


def test_a_full_catalogue_is_one_sentence_and_no_loss(store: Store) -> None:
    add_document(store, 1, ["kept"])
    connection = store._database._open()
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StorageFull, match="is full: free some space"):
        add_document(store, 2, ["many different words " * 400] * 10)
    with pytest.raises(StorageFull):
        store.save_session("s", transcript=[], meta={}, state=bytes(100_000))
    assert errors(store) == []
    assert len(segment_files(store.path)) == 1
    connection.execute("PRAGMA max_page_count = 1000000")
    assert add_document(store, 2, ["many words " * 400] * 10).chunks == 10


def test_a_file_size_limit_counts_as_full(library: Path) -> None:
    wide = RecordLayout(chunk_tokens=64, kv_heads=2, head_size=64, landmark_size=384)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open_store(library, wide) as store:
        add_document(store, 1, ["kept"])
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
            with pytest.raises(StorageFull):
                add_document(store, 2, ["large "] * 60)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert errors(store) == []
        assert add_document(store, 2, ["large "] * 60).chunks == 60
        assert errors(store) == []


def test_an_unusable_folder_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="cannot use"):
        open_store(tmp_path / "file" / "library")
