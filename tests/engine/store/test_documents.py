"""Documents come, resume, are replaced, renamed, found and removed."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from drt_engine.documents.base.source import printable_path
from drt_engine.errors import FingerprintMismatch, NotFound, StoreError
from drt_engine.store import Store
from tests.engine.store.helpers import (
    BF16,
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


def test_a_partial_document_is_hidden_and_resumes(library: Path) -> None:
    pieces = [f"sentence {i}. " for i in range(6)]
    with open_store(library) as store:
        batch = make_batch(INT8, [4, 4, 4])
        with store.begin_document(
            document_id=text_id(pieces), title="T", source="s", media_type="text/plain"
        ) as writer:
            assert writer.committed_chunks == 0
            writer.append(batch, make_texts(pieces[:3]))
            assert writer.committed_chunks == 3
    with open_store(library) as store:
        assert store.documents() == [] and store.chunk_ids() == []
        assert list(store.scan_landmarks()) == [] and store.search_text("sentence") == []
        assert store.document_by_id(text_id(pieces)) is None
        assert [row.chunks for row in store.partial_documents()] == [3]
        assert [(f.kind, f.severity) for f in store.check()] == [("partial", "note")]
        row = add_document(store, 1, pieces, source="s")
        assert row.chunks == 6 and store.partial_documents() == []
        assert "".join(store.iter_text(row.id)) == "".join(pieces)
        assert len(store.search_text("sentence")) == 6
        assert torch.equal(store.read_chunks([1]).ids[0], batch.ids[0])
        assert store.check() == []


def test_a_changed_file_replaces_its_old_version_when_finished(store: Store) -> None:
    old = add_document(store, 1, ["the old text"], source="/a.txt")
    other = add_document(store, 3, ["another"], source="/b.txt")
    with open_store(store.path) as reader:
        landmarks = list(reader.scan_landmarks([old.id]))
        with store.begin_document(
            document_id=text_id(["the new text"]),
            title="New",
            source="/a.txt",
            media_type="text/plain",
        ) as writer:
            writer.append(make_batch(INT8, [4]), make_texts(["the new text"]))
            assert reader.document("/a.txt") == old
            assert reader.text(old.id, 4, 7) == "old"
            assert reader.read_chunks(reader.chunk_ids([old.id])).lengths.tolist() == [4]
            row = writer.finish(places=[])
        assert [r.id for r in reader.documents()] == [other.id, row.id]
        assert reader.search_text("old") == []
        with pytest.raises(StoreError, match="not in the library"):
            reader.read_chunks(landmarks[0][0])
    assert len(segment_files(store.path)) == 2


def test_finishing_drops_an_abandoned_older_version(store: Store) -> None:
    with store.begin_document(
        document_id=document_id(1), title="T", source="s", media_type="text/plain"
    ) as writer:
        writer.append(make_batch(INT8, [4]), make_texts(["abandoned"]))
    add_document(store, 2, ["finished"], source="s")
    assert store.partial_documents() == []
    assert len(segment_files(store.path)) == 1


def test_a_ready_document_is_not_read_again(store: Store) -> None:
    row = add_document(store, 1, ["text"])
    assert store.document_by_id(row.id) == row
    with pytest.raises(StoreError, match="already"):
        add_document(store, 1, ["text"])
    add_document(store, 2, ["the lock was given back"])


def test_removal_deletes_rows_and_files_and_reuses_no_id(store: Store) -> None:
    add_document(store, 1, ["apples "] * 3)
    row = add_document(store, 2, ["pears "] * 3)
    before = store.chunk_ids([row.id])
    store.remove_document(row.id)
    assert [r.id for r in store.documents()] == [document_id(1)]
    assert store.search_text("pears") == []
    assert len(segment_files(store.path)) == 1
    for broken in (
        lambda: store.read_chunks(before),
        lambda: store.chunk_rows(before),
        lambda: store.neighbours_of(before),
    ):
        with pytest.raises(StoreError, match="ask again"):
            broken()
    again = add_document(store, 2, ["pears "] * 3)
    assert not set(before) & set(store.chunk_ids([again.id]))
    with pytest.raises(NotFound, match="no document"):
        store.remove_document(document_id(9))


def test_a_scan_survives_a_removal_under_way(store: Store) -> None:
    for number in (1, 2):
        add_document(store, number, [f"{number} "] * 200)
    with open_store(store.path) as reader:
        scan = reader.scan_landmarks()
        ids, landmarks = next(scan)
        kept = landmarks.clone()
        store.remove_document(document_id(1))
        store.remove_document(document_id(2))
        assert list(scan) == []
        assert torch.equal(landmarks, kept) and len(ids) == 200


def test_rename_source_replaces_what_stood_there(store: Store) -> None:
    first = add_document(store, 1, ["first"], source="/a")
    second = add_document(store, 2, ["second"], source="/b")
    store.rename_source(second.id, "/c")
    assert store.document("/c").id == second.id
    store.rename_source(second.id, "/a")
    assert [row.id for row in store.documents()] == [second.id]
    assert len(segment_files(store.path)) == 1
    with pytest.raises(NotFound):
        store.rename_source(first.id, "/z")


def test_a_title_that_is_the_name_of_a_file_is_renamed_with_it(store: Store) -> None:
    named = add_document(store, 1, ["first"], title="a.txt", source="/docs/a.txt")
    titled = add_document(store, 2, ["second"], title="Handbook", source="/docs/b.txt")
    for row in (named, titled):
        store.rename_source(row.id, f"/new/{row.id}.txt")
    titles = {row.id: row.title for row in store.documents()}
    assert titles == {named.id: f"{named.id}.txt", titled.id: "Handbook"}
    assert store.check() == []


def test_names(store: Store) -> None:
    id = add_document(store, 1, ["a"], title="Handbook", source="/docs/hand.md").id
    log = add_document(store, 2, ["b"], title="Log", source="/docs/log.md").id
    add_document(store, 3, ["c"], title="Log", source="/docs/second.md")
    for name in (id, id[:4], id[:5].upper(), "Handbook", "/docs/hand.md", "hand.md"):
        assert store.document(name).title == "Handbook", name
    with pytest.raises(NotFound, match=f"2 documents are called 'Log'.*{log}"):
        store.document("Log")
    with pytest.raises(NotFound, match="did you mean 'Handbook'"):
        store.document("Handbok")
    with pytest.raises(NotFound):
        store.document(id[:3])
    with pytest.raises(NotFound, match="no document"):
        store.chunk_ids([document_id(7)])


def test_a_file_name_that_is_not_utf8(store: Store) -> None:
    row = add_document(store, 1, ["text"], source="/docs/caf\udce9.txt", title="caf\udce9")
    assert store.document("/docs/caf\udce9.txt") == row
    store.rename_source(row.id, "/other/\udce9")
    assert store.document("/other/\udce9").id == row.id
    with pytest.raises(NotFound):
        store.document("\udce8")


def test_texts_places_rows_and_neighbours(store: Store) -> None:
    pieces = ["Ä line.\n", "😀 emoji ", "and ", "the end"]
    full = "".join(pieces)
    places = [(0, 1, None), (8, 1, "Part > One"), (10, 2, "Part > One"), (20, None, "Two")]
    with store.begin_document(
        document_id=text_id(pieces), title="T", source="s", media_type="text/plain"
    ) as writer:
        writer.append(make_batch(INT8, [4] * 4), make_texts(pieces, page=3, section="Part > One"))
        row = writer.finish(places=places)
    add_document(store, 2, ["other"])
    assert row.characters == len(full)
    for start in range(len(full) + 2):
        for end in range(len(full) + 3):
            assert store.text(row.id, start, end) == full[start:end]
        expected = [place[1:] for place in places if place[0] <= start][-1]
        assert store.place(row.id, start) == expected
    with pytest.raises(ValueError, match="below zero"):
        store.text(row.id, -1, 3)
    ids = store.chunk_ids([row.id])
    rows = store.chunk_rows([ids[2], ids[0]])
    assert [(r.ordinal, r.start, r.text, r.page) for r in rows] == [
        (2, 16, "and ", 3),
        (0, 0, "Ä line.\n", 3),
    ]
    assert store.neighbours_of([ids[3], ids[0]]) == {
        ids[3]: (ids[2], None),
        ids[0]: (None, ids[1]),
    }
    assert store.neighbours_of([]) == {}
    with pytest.raises(StoreError, match="ask again"):
        store.neighbours_of([ids[0], 10**6])


def test_iterating_a_text_that_is_removed_says_so(store: Store) -> None:
    row = add_document(store, 1, ["word "] * 600)
    pieces = store.iter_text(row.id)
    assert next(pieces).startswith("word")
    store.remove_document(row.id)
    with pytest.raises(StoreError, match="removed while it was read"):
        list(pieces)


def test_another_model_is_refused(library: Path) -> None:
    with open_store(library) as store:
        store.set_setting("model", "drt-test")
        assert store.get_setting("none") is None
    with pytest.raises(FingerprintMismatch, match=r"drt-test.*other-model.*ingest"):
        Store.open(library, fingerprint="other-model", layout=INT8)
    with pytest.raises(FingerprintMismatch, match="bf16"):
        open_store(library, BF16)
    with Store.open(library) as store:
        assert store.layout == INT8 and store.documents() == []


def test_a_library_made_without_a_model_takes_the_first_one(library: Path) -> None:
    with Store.open(library, create=True) as store:
        assert store.fingerprint is None and store.check() == []
        assert list(store.scan_landmarks()) == []
        with pytest.raises(StoreError, match="without a model"):
            store.begin_document(document_id=document_id(1), title="T", source="s", media_type="t")
    with open_store(library) as store:
        add_document(store, 1, ["text"])
        assert errors(store) == []


def test_folders_that_are_no_library(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="drt ingest"):
        Store.open(tmp_path / "missing")
    assert not (tmp_path / "missing").exists()
    full = tmp_path / "full"
    full.mkdir()
    (full / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match="neither empty nor a library"):
        open_store(full)
    assert [entry.name for entry in full.iterdir()] == ["notes.txt"]
    with pytest.raises(StoreError, match="is a file"):
        open_store(full / "notes.txt")


def test_an_interrupted_creation_goes_on(library: Path) -> None:
    (library / "segments").mkdir(parents=True)
    (library / "lock").touch()
    with pytest.raises(StoreError, match="drt ingest"):
        Store.open(library)
    (library / "catalog.db").touch()
    with open_store(library) as store:
        add_document(store, 1, ["text"])
        assert store.check() == []


def test_threads_share_a_store(store: Store) -> None:
    pieces = [f"piece {i} " for i in range(30)]
    row = add_document(store, 1, pieces)
    ids = store.chunk_ids()

    def work(number: int) -> bool:
        if number % 4 == 0:
            add_document(store, number + 2, [f"more {number}"])
        batch = store.read_chunks([ids[number], ids[-1]])
        return len(batch.ids) == 2 and store.chunk_rows([ids[number]])[0].text == pieces[number]

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(30)))
    assert "".join(store.iter_text(row.id)) == "".join(pieces)
    assert len(store.documents()) == 9


def test_only_the_owner_may_read(store: Store) -> None:
    add_document(store, 1, ["secret"])
    modes = {stat.S_IMODE(p.stat().st_mode) for p in store.path.rglob("*") if p.is_file()}
    assert modes == {0o600}
    for folder in (store.path, store.path / "segments"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_closed_store_says_so(library: Path) -> None:
    store = open_store(library)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="was closed"):
        store.documents()


def test_a_name_whose_bytes_are_no_text_is_found_as_the_system_gives_it(store: Store) -> None:
    path = os.fsdecode(b"/letters/bad\xff\xfe.txt")
    row = add_document(store, 1, ["text"], source=printable_path(path), title=Path(path).name)
    assert row.source == "/letters/bad\\xff\\xfe.txt"
    for name in (path, Path(path).name, row.source):
        assert store.document(name).id == row.id
    with pytest.raises(NotFound, match="d800"):  # which stands for no byte
        store.document("bad\ud800.txt")


def test_stats(store: Store) -> None:
    add_document(store, 1, ["four "] * 5)
    stats = store.stats()
    assert (stats["documents"], stats["chunks"], stats["tokens"]) == (1, 5, 20)
    assert stats["segment_bytes"] == segment_files(store.path)[0].stat().st_size
    assert stats["bytes_per_token"] > 0 and stats["fingerprint"] == store.fingerprint


def test_listing_imports_no_torch(store: Store) -> None:
    add_document(store, 1, ["text to find"])
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from drt_engine.store import Store\n"
        f"with Store.open(Path({str(store.path)!r})) as store:\n"
        "    store.documents(); store.stats(); store.sessions(); store.chunk_ids()\n"
        "    assert store.search_text('find') and store.check() == []\n"
        "assert not {'torch', 'numpy'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_documents_that_are_not_named_are_counted_once(store: Store) -> None:
    for number in range(5):
        add_document(
            store, number, [f"text {number}"], source=f"/folder/{number}.txt", title=f"T{number}"
        )
    with pytest.raises(NotFound, match="there is 'T0', 'T1', 'T2' and 2 more$"):
        store.document("nothing alike")
