"""A library read again from its own texts: damaged memory, or another model."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import fields
from pathlib import Path

import pytest
import torch

from drt_engine.errors import FingerprintMismatch, LockTimeout
from drt_engine.ingest import pipeline
from drt_engine.ingest.rebuild import read_salvaged, rebuild, repair
from drt_engine.store import ChunkBatch, Store
from drt_engine.store.salvage import salvage
from drt_engine.store.segments import landmark_files
from tests.model_folder import LETTERS, MANUAL, errors, library, read, read_text, runtime


def records(store: Store, id: str) -> ChunkBatch:
    return store.read_chunks(store.chunk_ids([id]))


def assert_same_bits(one: ChunkBatch, other: ChunkBatch) -> None:
    for field in fields(ChunkBatch):
        assert torch.equal(getattr(one, field.name), getattr(other, field.name)), field.name


@pytest.mark.few(1)
@pytest.mark.parametrize("compacted", [False, True])
def test_damaged_memory_is_read_again_bit_for_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compacted: bool
) -> None:
    monkeypatch.setattr(pipeline, "SEGMENT_CHUNKS", 5)
    with library(tmp_path / "library") as store:
        row = read_text(store, tmp_path, name="manual.md", text=MANUAL)
        read_text(store, tmp_path, name="letters.txt", text=LETTERS)
        if compacted:
            store.compact()
        before = records(store, row.id)
        segments = sorted((store.path / "segments").glob(f"{row.id}*.seg"))
        damaged = segments if compacted else [segments[1], segments[-1]]
        for number, segment in enumerate(damaged):
            data = bytearray(segment.read_bytes())
            data[-1] ^= 1
            segment.write_bytes(data if number == 0 else b"cut")
        store._memory.close()
        findings = store.check()
        assert len(errors(store)) == len(findings) >= len(damaged)
        done, left = repair(runtime(), store, findings)
        assert (len(done), left) == (len(damaged), [])
        assert store.check() == []
        assert_same_bits(records(store, row.id), before)


def test_the_search_index_and_shelves_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landmark_files, "MIN_LOOSE_SEGMENTS", 1)
    with library(tmp_path / "library") as store:
        read_text(store, tmp_path, name="manual.md", text=MANUAL)
        store.compact()
        hits = store.search_text("keeper")
        store._database._open().execute("INSERT INTO chunk_text (chunk_text) VALUES ('delete-all')")
        next((store.path / "segments").glob("*.lmk")).unlink()
        store._memory.close()
        assert {finding.kind for finding in store.check()} == {"search", "shelf"}
        assert repair(runtime(), store, store.check()) == ([], [])
        assert store.check() == [] and store.search_text("keeper") == hits


@pytest.mark.thorough
def test_a_library_is_rebuilt_for_another_model(tmp_path: Path) -> None:
    path = tmp_path / "library"
    with library(path) as store:
        row = read_text(store, tmp_path, name="manual.md", text=MANUAL)
        read_text(store, tmp_path, name="letters.txt", text=LETTERS)
        store.save_session("talk", transcript=[], meta={}, state=b"")
        before = store.documents()
        texts = {row.id: "".join(store.iter_text(row.id)) for row in before}
        place = store.place(row.id, MANUAL.index("thirty days"))
    other = runtime(chunk=8, width=24, heads=3, kv_heads=3)
    rows = rebuild(other, path, lock_timeout=1.0)
    assert [(r.id, r.title, r.source, r.created, r.characters) for r in rows] == [
        (r.id, r.title, r.source, r.created, r.characters) for r in before
    ]
    with pytest.raises(FingerprintMismatch), library(path):
        pass
    assert not (path / "rebuild").exists()
    (tmp_path / "fresh").mkdir()
    with library(path, other) as store, library(tmp_path / "fresh" / "library", other) as fresh:
        assert store.check() == []
        assert {row.id: "".join(store.iter_text(row.id)) for row in store.documents()} == texts
        assert store.place(row.id, MANUAL.index("thirty days")) == place
        again = read(fresh, tmp_path / "manual.md", other)
        assert_same_bits(records(store, row.id), records(fresh, again.id))
        assert [s.name for s in store.sessions()] == ["talk"]
        assert store.search_text("keeper") != []


@pytest.mark.thorough
def test_an_interrupted_rebuild_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "library"
    with library(path) as store:
        read_text(store, tmp_path, name="manual.md", text=MANUAL)
        read_text(store, tmp_path, name="letters.txt", text=LETTERS)
        before = store.documents()
    other = runtime(chunk=8, width=24, heads=3, kv_heads=3)
    seen: list[str] = []

    def stop(step: pipeline.IngestProgress) -> None:
        seen.append(step.source)
        if len(set(seen)) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rebuild(other, path, lock_timeout=1.0, progress=stop)
    with library(path) as store:
        assert store.documents() == before
    seen.clear()
    rebuild(other, path, lock_timeout=1.0, progress=lambda step: seen.append(step.source))
    assert len(set(seen)) <= 1, "the first document was read twice"
    with library(path, other) as store:
        assert [row.id for row in store.documents()] == [row.id for row in before]
        assert store.check() == []


def test_a_second_rebuild_at_once_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "library"
    with library(path) as store:
        row = read_text(store, tmp_path, name="manual.md", text=MANUAL)
    other = runtime(chunk=8, width=24, heads=3, kv_heads=3)
    refused: list[str] = []

    def rebuild_too(_: pipeline.IngestProgress) -> None:
        with pytest.raises(LockTimeout, match="another process rebuilds the library") as error:
            rebuild(other, path, lock_timeout=0.1)
        refused.append(str(error.value))

    assert [r.id for r in rebuild(other, path, lock_timeout=1.0, progress=rebuild_too)] == [row.id]
    assert refused
    with library(path, other) as store:
        assert store.check() == []
    assert rebuild(other, path, lock_timeout=1.0)  # the lock is free again


@pytest.mark.thorough
def test_what_others_write_while_a_rebuild_reads_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "library"
    with library(path) as store:
        for name, text in (("a.md", MANUAL), ("b.txt", LETTERS), ("c.txt", "One more page.\n")):
            read_text(store, tmp_path, name=name, text=text)
        removed, moved, forgotten = (row.id for row in store.documents())
    other = runtime(chunk=8, width=24, heads=3, kv_heads=3)
    steps: list[str] = []

    def write(step: pipeline.IngestProgress) -> None:
        steps.append(step.source)
        if len(set(steps)) != 3 or "written" in steps:
            return
        steps.append("written")  # the inner library holds two documents now
        with library(path, lock_timeout=0.1) as store:
            store.remove_document(removed)
            store.rename_source(moved, "/moved.txt")
            with pytest.raises(LockTimeout):
                store.forget_document(forgotten)
            read_text(store, tmp_path, name="d.txt", text="A new lamp was lit.\n")
            store.save_session("talk", transcript=[], meta={}, state=b"new")

    rows = rebuild(other, path, lock_timeout=1.0, progress=write)
    assert "written" in steps and [row.source for row in rows] == [
        "/moved.txt",
        str(tmp_path / "d.txt"),
    ]
    with library(path, other) as store:
        assert [row.id for row in store.documents()] == [row.id for row in rows]
        assert "new lamp" in "".join(store.iter_text(rows[1].id))
        assert store.load_session("talk").state == b"new"
        assert store.check() == []
    held = b"".join(file.read_bytes() for file in path.rglob("*") if file.is_file())
    assert forgotten.encode() not in held and not (path / "rebuild").exists()


def test_what_is_left_of_a_damaged_library_is_read_again(tmp_path: Path) -> None:
    with library(tmp_path / "library") as store:
        row = read_text(store, tmp_path, name="manual.md", text=MANUAL)
        torn = read_text(store, tmp_path, name="letters.txt", text=LETTERS)
        store.change_tags(row.id, add=["work"])
        before, places = records(store, row.id), store.places(row.id)
        lost_text = next(iter(store.iter_chunk_texts(torn.id)))[1].text
    with closing(sqlite3.connect(tmp_path / "library" / "catalog.db")) as connection:
        connection.execute(
            "UPDATE chunks SET text = x'00' WHERE ordinal = 1 AND document ="
            " (SELECT number FROM documents WHERE id = ?)",
            (torn.id,),
        )
        connection.commit()
    for segment in (tmp_path / "library" / "segments").iterdir():
        segment.write_bytes(b"cut")
    result = salvage(tmp_path / "library", tmp_path / "new", lock_timeout=1.0)
    assert [len(result.unread), result.documents] == [2, []]
    with library(tmp_path / "new") as fresh:
        read_salvaged(runtime(), fresh, result)
        again = fresh.document("manual.md")
        assert again == row._replace(tags=("work",)) and fresh.places(row.id) == places
        assert_same_bits(records(fresh, row.id), before)
        gaps = fresh.document("letters.txt (with gaps)")
        text = "".join(fresh.iter_text(gaps.id))
        assert text == LETTERS.replace(lost_text, "", 1) and errors(fresh) == []
    assert [finding.where for finding in result.lost] == [f"{torn.title} ({torn.source})"]
