"""Snapshots, compaction, forgetting, shelves, and libraries of the first version."""

from __future__ import annotations

import errno
import itertools
import os
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
import torch

from drt_engine.errors import LockTimeout, StoreError
from drt_engine.files import lock
from drt_engine.store import Store
from drt_engine.store.catalogue import migrations
from drt_engine.store.catalogue.row_checksums import unpack_text
from drt_engine.store.filesystem import lock as readers_lock
from drt_engine.store.segments import landmark_files, reader
from drt_engine.store.view import LibraryView
from drt_kernels.scan import coder
from tests.engine.store.helpers import (
    INT8,
    add_document,
    document_id,
    errors,
    make_batch,
    make_texts,
    open_store,
    segment_files,
    text_id,
)
from tests.engine.store.operations import TURN, held

UNQUOTING = {**TURN, "citations": []}


@pytest.fixture
def many(store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Thirty documents of three chunks in as many files, shelved ten segments at a time."""
    monkeypatch.setattr(landmark_files, "MIN_LOOSE_SEGMENTS", 10)
    for number in range(1, 31):
        pieces = [f"quillwort{number} piece {i}. " for i in range(3)]
        add_document(store, number, pieces, per_segment=1)
    return store


def landmarks(store: LibraryView, documents: list[str] | None = None) -> dict[int, list[float]]:
    found = {}
    for ids, part in store.scan_landmarks(documents):
        found |= dict(zip(ids, part.tolist(), strict=True))
    return found


def read(store: LibraryView, number: int) -> list[torch.Tensor]:
    batch = store.read_chunks(store.chunk_ids([document_id(number)]))
    return [batch.keys, batch.values, batch.landmarks]


@pytest.mark.thorough
def test_shelves_hold_what_segments_hold(many: Store) -> None:
    assert 1 <= len(many._catalog.landmark_files()) <= 4
    for store in (many, open_store(many.path)):
        found = landmarks(store)
        assert list(found) == sorted(store.chunk_ids())
        stored = store.read_chunks(list(found)).landmarks.half()
        assert list(found.values()) == stored.tolist()
    assert list(landmarks(many, [document_id(7)])) == many.chunk_ids([document_id(7)])
    store.close()


@pytest.mark.thorough
def test_removed_documents_leave_a_scan_though_not_their_shelf(many: Store) -> None:
    before = landmarks(many)
    gone = many.chunk_ids([document_id(7)])
    many.remove_document(document_id(7))
    assert landmarks(many) == {k: v for k, v in before.items() if k not in gone}
    many.compact()
    assert landmarks(many) == {k: v for k, v in before.items() if k not in gone}
    [landmark_file] = many._catalog.landmark_files()
    assert (landmark_file.chunks, landmark_file.live) == (87, 87)


@pytest.mark.thorough
def test_what_counts_up_on_a_shelf_is_scanned_as_a_range(
    many: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = landmarks(many)
    first = many.chunk_ids([document_id(7)])[0]
    monkeypatch.setattr(reader, "SMALL_CHUNKS", 2)
    parts = [ids for ids, _ in many.scan_landmarks([document_id(7)])]
    assert parts == [range(first, first + 3)]  # of three segments
    monkeypatch.setattr(reader, "SCAN_ROWS", 2)
    parts = [list(ids) for ids, _ in many.scan_landmarks([document_id(7)])]
    assert parts == [[first, first + 1], [first + 2]]
    many.remove_document(document_id(7))
    many.compact()  # now the ids on the only shelf have a gap
    monkeypatch.setattr(reader, "SCAN_ROWS", 10)
    with open_store(many.path) as store:
        kinds = [type(ids) for ids, _ in store.scan_landmarks()]
        assert kinds == [range, list, *[range] * 7]
        gone = range(first, first + 3)
        assert landmarks(store) == {k: v for k, v in wanted.items() if k not in gone}


@pytest.mark.thorough
def test_who_scans_again_gets_codes_part_by_part(
    many: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "SCAN_ROWS", 40)
    monkeypatch.setattr(coder, "codes_pay", lambda rows, codes: True)
    wanted = landmarks(many)
    many.compact()  # one shelf of 90 chunks
    with open_store(many.path) as store:
        for expected in ([], [40], [40, 40], [40, 40, 10], [40, 40, 10]):
            with store.snapshot() as view:  # they outlast the snapshot that made them
                parts = list(view.scan_coded_landmarks())
            assert [len(part.codes.scales) for _, part in parts if part.codes] == expected
            rows = (zip(ids, part.rows.tolist(), strict=True) for ids, part in parts)
            assert dict(itertools.chain.from_iterable(rows)) == wanted
    monkeypatch.setattr(coder, "CODED_ROWS", 30)  # a part takes two scans
    with open_store(many.path) as store:
        coded = [
            [part.codes for _, part in store.scan_coded_landmarks() if part.codes] for _ in range(7)
        ]
        assert [len(codes) for codes in coded] == [0, 0, 1, 1, 2, 3, 3]
        assert [len(codes) for codes in coded[-1]] == [40, 40, 10]
        store.remove_document(document_id(7))
        left = list(store.scan_coded_landmarks())
        assert [len(ids) for ids, _ in left] == [18, 19, 40, 10]  # the first part has a gap
        assert all(part.codes is not None for _, part in left[2:])
        for _, part in left:
            if part.codes is not None and not part.codes.packed:
                rows = part.codes.values * part.codes.scales[:, None]
                assert torch.allclose(rows, part.rows.float(), atol=0.1)
        assert landmarks(store).keys() < wanted.keys()


@pytest.mark.thorough
def test_codes_that_do_not_pay_are_not_tried_again(
    many: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []

    def never(rows: torch.Tensor, codes: object) -> bool:
        tried.append(len(rows))
        return False

    monkeypatch.setattr(reader, "SCAN_ROWS", 40)
    monkeypatch.setattr(coder, "codes_pay", never)
    many.compact()
    for _ in range(4):
        assert not any(part.codes for _, part in many.scan_coded_landmarks())
    assert tried == [40]


@pytest.mark.thorough
def test_compaction_changes_no_chunk(many: Store) -> None:
    before, memory = held(many), read(many, 5)
    many.remove_document(document_id(7))
    size = sum(path.stat().st_size for path in many.path.rglob("*"))
    files = len(segment_files(many.path))
    add_document(many, 7, [f"quillwort7 piece {i}. " for i in range(3)])
    many.compact()
    assert sum(path.stat().st_size for path in many.path.rglob("*")) < size
    assert len(segment_files(many.path)) == 30 < files
    assert all(torch.equal(a, b) for a, b in zip(read(many, 5), memory, strict=True))
    assert sorted(many.search_text("quillwort9"))[0][0] in many.chunk_ids([document_id(9)])
    many.remove_document(document_id(7))
    assert len(held(many)) < len(before)
    many.compact()
    assert many.check() == []


@pytest.mark.thorough
def test_a_snapshot_stays_as_it_is(many: Store) -> None:
    other = open_store(many.path)
    with many.snapshot() as view:
        before = (view.documents(), landmarks(view), view.search_text("quillwort3"))
        memory = read(view, 3)
        add_document(other, 40, ["new "], source="/docs/3.txt")  # replaces document 3
        other.remove_document(document_id(4))
        assert (view.documents(), landmarks(view), view.search_text("quillwort3")) == before
        assert all(torch.equal(a, b) for a, b in zip(read(view, 3), memory, strict=True))
        assert "".join(view.iter_text(document_id(4))).startswith("quillwort4")
        assert len(other.documents()) == 29
        with pytest.raises(StoreError, match="cannot be written"):
            view._catalog.set_setting("k", "v")
        with view.snapshot() as same:
            assert same is view
    assert [finding.kind for finding in other.check()] == ["orphan"] * 6
    add_document(other, 41, ["next "])
    assert other.check() == [] == errors(many)
    assert landmarks(many) == landmarks(other)
    other.close()


READER = """
import sys
from pathlib import Path
from drt_engine.store import Store
from drt_engine.store.segments.records import landmark_bytes
with Store.open(Path(sys.argv[1])) as store, store.snapshot() as view:
    print(len(view.documents()), flush=True)
    sys.stdin.readline()
    rows = view._catalog.segments()
    found = [landmark_bytes(view._folder, row, view.layout) for row in rows]
    print(len(view.documents()), len(b"".join(found)), flush=True)
"""


@pytest.mark.thorough
def test_a_snapshot_of_another_process_keeps_its_files(store: Store) -> None:
    for number in (1, 2):
        add_document(store, number, [f"text {number} "] * 4)
    reader = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", READER, str(store.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with reader:
        assert reader.stdin is not None and reader.stdout is not None
        assert reader.stdout.readline() == "2\n"
        store.remove_document(document_id(1))
        assert len(segment_files(store.path)) == 2
        reader.stdin.write("\n")
        reader.stdin.flush()
        assert reader.stdout.readline() == "2 96\n"
    add_document(store, 3, ["more "])
    assert len(segment_files(store.path)) == 2
    assert store.check() == []


@pytest.mark.thorough
def test_a_killed_reader_holds_nothing_back(store: Store) -> None:
    add_document(store, 1, ["text "])
    command = [sys.executable, "-W", "ignore", "-c", READER, str(store.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None and reader.stdout.readline()
        reader.kill()
    store.forget_document(document_id(1))
    assert store.check() == [] and segment_files(store.path) == []


def folder_bytes(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file())


def test_forgetting_leaves_no_byte(many: Store) -> None:
    id, kept = text_id(["moonseed grows here. "]), "a document that stays "
    add_document(many, 50, [kept])
    with many.begin_document(
        document_id=id, title="Secret", source="/s", media_type="text/plain"
    ) as writer:
        writer.append(make_batch(INT8, [4], seed=99), make_texts(["moonseed grows here. "]))
        writer.finish(places=[(0, None, None)])
    for number in range(71, 90):  # until it is on a shelf
        add_document(many, number, [f"{kept}{number} "])
    many.save_session("talk", transcript=[UNQUOTING], meta={}, state=b"kept")
    quoting = {"question": "moon?", "answer": "", "citations": [{"document": id}]}
    many.save_session("quotes it", transcript=[quoting], meta={}, state=b"wiped state")
    many.note_source("/s", "digest-of-it", id)
    [chunk] = many.chunk_ids([id])
    batch = many.read_chunks([chunk])
    secrets = [
        many._database.query("SELECT text FROM chunks WHERE id = ?", (chunk,))[0][0],
        bytes(batch.ids.view(torch.uint8).flatten().tolist()),
        bytes(batch.landmarks.half().view(torch.uint8).flatten().tolist()),
        *(b"moonse", b"wiped state", b"digest-of-it", b"Secret", id.encode()),
    ]
    many._database.checkpoint()
    before = folder_bytes(many.path)
    assert [secret for secret in secrets if secret not in before] == []
    assert many.forget_document(id) == ["quotes it"]
    after = folder_bytes(many.path)
    assert [secret for secret in secrets if secret in after] == []
    assert [info.name for info in many.sessions()] == ["talk"]
    assert "".join(many.iter_text(document_id(50))) == kept
    assert many.check() == []


def test_forgetting_waits_for_readers_and_goes_on_later(library: Path) -> None:
    with open_store(library, lock_timeout=0.1) as store:
        add_document(store, 1, ["quillwort "])
        add_document(store, 2, ["fern "])
        with store.snapshot(), pytest.raises(LockTimeout, match="its bytes go with the next"):
            store.forget_document(document_id(1))
        assert [row.id for row in store.documents()] == [document_id(2)]
        assert "forgetting" in [finding.kind for finding in store.check()]
    with open_store(library) as store:
        add_document(store, 3, ["moss "])
        assert store.check() == []
        assert document_id(1).encode() not in folder_bytes(library)


@pytest.mark.thorough
def test_readers_that_overlap_do_not_keep_forgetting_waiting(library: Path) -> None:
    with open_store(library, lock_timeout=3.0) as store:
        add_document(store, 1, ["quillwort "])
        add_document(store, 2, ["fern "])
        reading, forgotten = [threading.Event(), threading.Event()], threading.Event()

        def read_in_turn(mine: int) -> None:
            with Store.open(library, lock_timeout=30.0) as reader:
                while not forgotten.is_set():
                    with reader.snapshot():
                        reading[mine].set()
                        reading[1 - mine].wait(0.5)  # it ends when the other has begun
                        reading[1 - mine].clear()

        threads = [threading.Thread(target=read_in_turn, args=(i,)) for i in (0, 1)]
        for thread in threads:
            thread.start()
        try:
            while not all(thread.is_alive() for thread in threads) or not reading[0].wait(0.1):
                time.sleep(0.01)
            store.forget_document(document_id(1))
        finally:
            forgotten.set()
            for thread in threads:
                thread.join()
        assert store.check() == []


def test_a_gate_of_another_user_keeps_no_reader_out(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(library) as store:
        add_document(store, 1, ["quillwort "])
    opened = readers_lock.open_plain

    def refused(path: Path, flags: int) -> int:
        if path.name == "gate" and flags == os.O_RDONLY:
            raise PermissionError(errno.EACCES, "denied", str(path))
        return opened(path, flags)

    monkeypatch.setattr(readers_lock, "open_plain", refused)
    (library / "gate").touch()
    with Store.open(library) as opened_store, opened_store.snapshot():
        assert opened_store.document_by_id(document_id(1)) is not None


@pytest.mark.thorough
def test_a_snapshot_within_another_does_not_wait_for_who_waits_for_both(library: Path) -> None:
    with open_store(library) as store:
        add_document(store, 1, ["quillwort "])
    with Store.open(library, lock_timeout=60.0) as reader, reader.snapshot():

        def forget() -> None:
            waits = pytest.raises(LockTimeout, match="its bytes go with the next")
            with open_store(library, lock_timeout=3.0) as store, waits:
                store.forget_document(document_id(1))

        thread = threading.Thread(target=forget)
        thread.start()
        while not is_closed(library / "gate"):
            time.sleep(0.01)
        with reader.snapshot(), Store.open(library, lock_timeout=60.0) as other, other.snapshot():
            assert thread.is_alive() and is_closed(library / "gate")
        thread.join()


def is_closed(gate: Path) -> bool:
    if not gate.exists():
        return False
    with gate.open("rb") as file:
        return not lock(file, shared=True)


def first_version(path: Path) -> None:
    """A library as the first version left it: plain texts, no seals, no shelves."""
    with open_store(path) as store:
        add_document(store, 1, ["heather ", "gorse and broom "])
        store.save_session("talk", transcript=[UNQUOTING], meta={}, state=b"state")
    with closing(sqlite3.connect(path / "new.db")) as connection:
        migrations.MIGRATIONS[0](connection)
        connection.execute("PRAGMA user_version = 1")
        connection.execute("ATTACH ? AS old", [str(path / "catalog.db")])
        connection.create_function("inflate", 1, unpack_text)
        columns = {
            "settings": "key, value",
            "documents": "number, id, state, title, source, media_type, characters, tokens,"
            " chunks, created",
            "segments": "id, document, name, first_ordinal, first_chunk, chunks",
            "places": "document, start, page, section",
            "sessions": "name, turns, created, updated, meta, transcript, state",
        }
        for table, names in columns.items():
            connection.execute(
                f"INSERT INTO main.{table} ({names}) SELECT {names} FROM old.{table}"
            )
        connection.execute(
            "INSERT INTO main.chunks SELECT id, document, ordinal, start, tokens, page, section,"
            " inflate(text) FROM old.chunks"
        )
        connection.execute("INSERT INTO main.chunk_text SELECT text FROM main.chunks")
        connection.commit()
    for file in path.glob("catalog.db*"):
        file.unlink()
    (path / "new.db").rename(path / "catalog.db")


def test_a_library_of_the_first_version_is_taken_over(library: Path) -> None:
    first_version(library)
    with open_store(library) as store:
        assert store.check() == []
        assert "".join(store.iter_text(document_id(1))) == "heather gorse and broom "
        assert [chunk for chunk, _ in store.search_text("gorse")] == [1, 2]  # 1 has it beside it
        assert store.load_session("talk").transcript == [UNQUOTING]
        add_document(store, 2, ["more "])
        store.compact()
        assert store.check() == [] and list(landmarks(store)) == [1, 2, 3]


def test_adopted_chunks_are_the_old_ones(store: Store) -> None:
    pieces = [f"line {i} of a log. " for i in range(10)]
    add_document(store, 1, pieces, source="/log", per_segment=4)
    with store.begin_document(
        document_id=text_id(pieces[:8]), title="L", source="/log", media_type="text/plain"
    ) as writer:
        writer.adopt(document_id(1), make_texts(pieces[:6]))
        writer.append(make_batch(INT8, [4] * 2), make_texts(pieces[6:8], start=102))
        old = store.read_chunks(store.chunk_ids([document_id(1)])[:6])
        row = writer.finish(places=[(0, None, None)])
    assert (row.chunks, [d.id for d in store.documents()]) == (8, [row.id])
    new = store.read_chunks(store.chunk_ids([row.id])[:6])
    for name in ("ids", "starts", "ends", "lengths", "keys", "values", "landmarks"):
        assert torch.equal(getattr(new, name), getattr(old, name)), name
    assert store.check() == []
