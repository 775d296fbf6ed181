"""Readings that are broken off: what was computed is kept, and nothing by halves."""

from __future__ import annotations

from pathlib import Path

import pytest

from drt_engine.documents import Source
from drt_engine.errors import StoreError, UnreadableDocument
from drt_engine.ingest import pipeline
from drt_engine.ingest.pipeline import ingest_source
from drt_engine.results import IngestProgress
from drt_engine.store import Store
from tests.engine.ingest.counted import Counted, assert_same_bits, records
from tests.model_folder import LETTERS, MANUAL, errors, library, read, runtime


@pytest.mark.few(1)
@pytest.mark.parametrize("signal", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_reading_continues(
    store: Store,
    manual: Path,
    tmp_path: Path,
    counted: Counted,
    monkeypatch: pytest.MonkeyPatch,
    signal: type[BaseException],
) -> None:
    monkeypatch.setattr(pipeline, "SEGMENT_CHUNKS", 5)
    with library(tmp_path / "whole") as other:
        whole = read(other, manual)
        unbroken = records(other, whole.id)
        rows = other.chunk_rows(other.chunk_ids())
    total = counted.chunks
    assert total == whole.chunks > 15
    counted.batches.clear()

    def interrupt(step: IngestProgress) -> None:
        raise signal

    with pytest.raises(signal):
        ingest_source(runtime(), store, Source.from_path(manual), progress=interrupt)
    assert errors(store) == []
    assert store.documents() == [] and store.chunk_ids() == [] and store.search_text("keeper") == []
    assert [row.chunks for row in store.partial_documents()] == [5]

    with library(tmp_path / "library") as reopened:
        seen: list[IngestProgress] = []
        source = Source.from_path(manual)
        row, new = ingest_source(runtime(), reopened, source, progress=seen.append)
        assert new
        assert counted.chunks == total  # the five of the first reading were not read again
        assert_same_bits(records(reopened, row.id), unbroken)
        assert [r.text for r in reopened.chunk_rows(reopened.chunk_ids())] == [r.text for r in rows]
        assert seen[-1].characters == seen[-1].total_characters == row.characters
        tokens = row.tokens - 5 * runtime().config.chunk
        assert seen[-1].tokens == tokens


def test_an_interruption_after_the_last_chunk(
    store: Store, manual: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(step: IngestProgress) -> None:
        if step.characters == step.total_characters:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest_source(runtime(), store, Source.from_path(manual), progress=interrupt)
    before = counted.chunks
    row = read(store, manual)
    assert counted.chunks == before == row.chunks


def test_a_new_version_replaces_an_interrupted_reading(
    store: Store, manual: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "SEGMENT_CHUNKS", 5)

    def interrupt(step: IngestProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest_source(runtime(), store, Source.from_path(manual), progress=interrupt)
    manual.write_text(LETTERS, encoding="utf-8")
    row = read(store, manual)
    assert store.documents() == [row]
    assert store.partial_documents() == []
    assert [f for f in store.check() if f.kind == "orphan"] == []


def test_a_file_that_changes_while_it_is_read_is_refused(
    store: Store, manual: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identify = pipeline.identify

    def then_overwrite(*arguments: object) -> object:
        found = identify(*arguments)  # type: ignore[arg-type]
        manual.write_text(MANUAL.replace("oil", "fat"), encoding="utf-8")
        return found

    monkeypatch.setattr(pipeline, "identify", then_overwrite)
    with pytest.raises(UnreadableDocument, match="changed while it was read"):
        ingest_source(runtime(), store, Source.from_path(manual))
    assert store.documents() == store.partial_documents() == []


def test_a_full_disk_loses_nothing(
    store: Store, manual: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept = read(store, manual)
    other = tmp_path / "letters.txt"
    other.write_text(LETTERS, encoding="utf-8")

    def fail(descriptor: int, data: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.write", fail)
        with pytest.raises(StoreError, match="is full"):
            read(store, other)
    assert store.documents() == [kept]
    assert errors(store) == []
    assert len(store.chunk_ids([read(store, other).id])) > 1
