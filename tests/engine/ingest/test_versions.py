"""A file that is read again: never twice, and no more of it than has changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drt_engine.documents import Source
from drt_engine.ingest import pipeline
from drt_engine.ingest.pipeline import ingest_source
from drt_engine.store import Store
from tests.engine.ingest.counted import Counted, assert_same_bits, records
from tests.model_folder import LETTERS, MANUAL, library, read, runtime, text_of


def test_the_same_file_again_is_a_no_op(store: Store, manual: Path, counted: Counted) -> None:
    row, new = ingest_source(runtime(), store, Source.from_path(manual))
    assert new
    before = counted.chunks
    again, new = ingest_source(runtime(), store, Source.from_path(manual))
    assert (again, new) == (row, False)
    assert counted.chunks == before


def test_a_changed_file_replaces_its_old_version(store: Store, manual: Path) -> None:
    old = read(store, manual)
    manual.write_text(MANUAL.replace("thirty", "cows"), encoding="utf-8")
    new = read(store, manual)
    assert [row.id for row in store.documents()] == [new.id] != [old.id]
    assert store.search_text("thirty") == [] != store.search_text("cows")


def test_a_growing_file_reads_only_what_is_new(
    store: Store, tmp_path: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "SEGMENT_CHUNKS", 5)
    log = tmp_path / "log.txt"
    log.write_text(MANUAL, encoding="utf-8")
    old = read(store, log)
    before = counted.chunks
    log.write_text(MANUAL + LETTERS, encoding="utf-8")
    new = read(store, log)
    again = counted.chunks - before
    kept = old.chunks // 5 * 5
    assert again == new.chunks - kept or again == new.chunks - kept + 5  # the last line may join
    assert [row.id for row in store.documents()] == [new.id]
    assert text_of(store, new) == MANUAL + LETTERS
    with library(tmp_path / "whole") as other:
        whole = read(other, log)
        assert_same_bits(records(store, new.id), records(other, whole.id))


@pytest.mark.few(1)
@pytest.mark.parametrize("place", [0, 500, 900])
def test_a_changed_file_is_read_again_from_the_change(
    store: Store,
    tmp_path: Path,
    counted: Counted,
    monkeypatch: pytest.MonkeyPatch,
    place: int,
) -> None:
    monkeypatch.setattr(pipeline, "SEGMENT_CHUNKS", 3)
    file = tmp_path / "letters.txt"
    file.write_text(LETTERS, encoding="utf-8")
    read(store, file)
    before = counted.chunks
    file.write_text(LETTERS[:place] + " cows " + LETTERS[place:], encoding="utf-8")
    new = read(store, file)
    assert place == 0 or counted.chunks - before < new.chunks
    with library(tmp_path / "whole") as other:
        whole = read(other, file)
        assert_same_bits(records(store, new.id), records(other, whole.id))
        assert text_of(store, new) == text_of(other, whole)


def test_a_damaged_older_version_is_not_taken_over(
    store: Store, tmp_path: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "SEGMENT_CHUNKS", 5)
    log = tmp_path / "log.txt"
    log.write_text(MANUAL, encoding="utf-8")
    read(store, log)
    damaged = min((store.path / "segments").glob("*.seg"), key=lambda path: path.name)
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(data)
    store._memory.close()
    before = counted.chunks
    log.write_text(MANUAL + LETTERS, encoding="utf-8")
    new = read(store, log)
    assert counted.chunks - before == new.chunks


def test_the_same_bytes_are_not_parsed_again(
    store: Store, manual: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = read(store, manual)

    def parse(*_: object) -> object:
        raise AssertionError("a file that has not changed was parsed")

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "identify", parse)
        assert ingest_source(runtime(), store, Source.from_path(manual)) == (row, False)
        stamp = manual.stat()
        manual.write_text(MANUAL.replace("thirty", "twenty"), encoding="utf-8")
        os.utime(manual, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        with pytest.raises(AssertionError, match="was parsed"):
            read(store, manual)
    assert read(store, manual).id != row.id


def test_a_file_that_takes_the_text_of_another_leaves_its_old_text(
    store: Store, tmp_path: Path
) -> None:
    one, other = tmp_path / "one.txt", tmp_path / "other.txt"
    one.write_text(MANUAL, encoding="utf-8")
    other.write_text(LETTERS, encoding="utf-8")
    read(store, one), read(store, other)
    one.write_text(LETTERS, encoding="utf-8")
    row = read(store, one)
    assert store.documents() == [row]
    assert row.source == str(one)
    assert read(store, other) == row  # a copy stays where it is


def test_a_moved_file_is_not_read_again(store: Store, manual: Path, counted: Counted) -> None:
    row = read(store, manual)
    before = counted.chunks
    moved = manual.rename(manual.with_name("moved.md"))
    again = read(store, moved)
    assert (again.id, again.source) == (row.id, str(moved))
    assert counted.chunks == before


def test_what_another_process_read_meanwhile_is_taken(
    store: Store, manual: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = read(store, manual)
    before, lookup = counted.chunks, store.document_by_id
    answers = iter([None])
    monkeypatch.setattr(store, "document_by_id", lambda id: next(answers, lookup(id)))
    assert ingest_source(runtime(), store, Source.from_path(manual)) == (row, False)
    assert counted.chunks == before
