"""The three stages of reading: they overlap, stay bounded, and end together."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from drt_engine.documents import Block, Source
from drt_engine.errors import StorageFull, UnreadableDocument
from drt_engine.ingest import pipeline, stages
from drt_engine.ingest.pipeline import ingest_source
from drt_engine.ingest.segment import Chunk, Segmenter
from drt_engine.results import IngestProgress
from drt_engine.runtime import Runtime
from drt_engine.store import ChunkBatch, ChunkText, Store
from drt_engine.store.segments.writer import DocumentWriter
from tests.model_folder import MANUAL, library, read, runtime

LONG = 10.0  # seconds after which a stage that should have moved counts as stuck


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with library(tmp_path / "library") as opened:
        yield opened


@pytest.fixture
def manual(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pipeline, "SEGMENT_CHUNKS", 4)
    file = tmp_path / "manual.md"
    file.write_text(MANUAL, encoding="utf-8")
    return file


@pytest.fixture(autouse=True)
def threads_before() -> Iterator[None]:
    """Note the threads of earlier tests, such as those of a server that was ended at once."""
    _before.update(threading.enumerate())
    yield
    _before.clear()


_before: set[threading.Thread] = set()


def stage_threads() -> list[str]:
    names = [t.name for t in set(threading.enumerate()) - _before]
    return [name for name in names if name.startswith(("drt-read", "drt-write"))]


def test_reading_and_writing_go_on_while_the_model_computes(
    store: Store, manual: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, read_chunks, append = stages.chunk_texts, pipeline.read_chunks, DocumentWriter.append
    tokenised, computed, written = [], [], []
    changed = threading.Condition()

    def until(events: list[int], count: int) -> bool:
        with changed:
            return changed.wait_for(lambda: len(events) >= count, LONG)

    def note(events: list[int]) -> None:
        with changed:
            events.append(len(events))
            changed.notify_all()

    def counted_texts(batch: Sequence[Chunk], segmenter: Segmenter) -> list[ChunkText]:
        found = texts(batch, segmenter)
        note(tokenised)
        return found

    def counted_read(
        model: Runtime, warm_up: Sequence[Chunk], batch: Sequence[Chunk], **rest: Any
    ) -> ChunkBatch:
        ahead = len(tokenised) - len(computed)
        assert ahead <= 2, "only the next segment is held"
        assert len(computed) - len(written) <= 2, "only one segment waits to be written"
        if not computed:
            assert until(tokenised, 2), "the next segment is tokenised meanwhile"
        note(computed)
        return read_chunks(model, warm_up, batch, **rest)

    def counted_append(
        writer: DocumentWriter, batch: ChunkBatch, rows: Sequence[ChunkText]
    ) -> None:
        if not written:
            assert until(computed, 2), "the next segment is computed meanwhile"
        append(writer, batch, rows)
        note(written)

    monkeypatch.setattr(stages, "chunk_texts", counted_texts)
    monkeypatch.setattr(pipeline, "read_chunks", counted_read)
    monkeypatch.setattr(DocumentWriter, "append", counted_append)
    row = read(store, manual)
    assert len(tokenised) == len(computed) == len(written) == -(-row.chunks // 4) > 3


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("where", "name", "error"),
    [
        (stages, "chunk_texts", UnreadableDocument("the stick was pulled out")),
        (pipeline, "read_chunks", RuntimeError("of the model")),
        (DocumentWriter, "append", StorageFull("the disk is full")),
        (DocumentWriter, "finish", StorageFull("the disk is full")),
    ],
    ids=["reading", "computing", "writing", "finishing"],
)
def test_an_error_of_any_stage_comes_out_as_it_is(
    store: Store,
    manual: Path,
    monkeypatch: pytest.MonkeyPatch,
    where: object,
    name: str,
    error: Exception,
) -> None:
    real, calls = getattr(where, name), 0

    def fail_third(*arguments: object, **_: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 3 or name == "finish":
            raise error
        return real(*arguments)

    with monkeypatch.context() as patch, pytest.raises(type(error)) as caught:
        patch.setattr(where, name, fail_third)
        read(store, manual)
    assert caught.value is error
    assert stage_threads() == []
    assert read(store, manual).chunks > 12  # the library is free, and nothing is lost


def test_ctrl_c_ends_all_stages_at_once(
    store: Store, manual: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, begun = pipeline.read_chunks, threading.Event()
    endless = threading.Event()

    def slow(
        model: Runtime, warm_up: Sequence[Chunk], batch: Sequence[Chunk], **rest: Any
    ) -> ChunkBatch:
        if begun.is_set():
            endless.wait(LONG)
        begun.set()
        return real(model, warm_up, batch)

    def press() -> None:
        begun.wait(LONG)
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    # A process that a shell began in the background has no Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(pipeline, "read_chunks", slow)
    pressing = threading.Thread(target=press)
    started = time.monotonic()
    pressing.start()
    with pytest.raises(KeyboardInterrupt):
        read(store, manual)
    assert time.monotonic() - started < 2
    signal.signal(signal.SIGINT, before)
    pressing.join()
    assert stage_threads() == []
    assert [row.chunks for row in store.partial_documents()] == [4]  # what was computed is kept


def test_blocks_that_nobody_waits_for_are_not_read(
    store: Store, manual: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that goes on for hours ends with the caller."""
    seen = 0
    lines = MANUAL.splitlines(keepends=True)

    class Endless:
        title, media_type = "Endless", "text/plain"

        def __enter__(self) -> Endless:
            return self

        def __exit__(self, *_: object) -> None:
            return None

        @property
        def blocks(self) -> Iterator[Block]:
            nonlocal seen
            while True:
                seen += 1
                time.sleep(0.0001)
                yield Block(lines[seen % len(lines)], None, None)

    text = pipeline.DocumentText("0123456789abcdef" * 4, 10**9, "Endless", "text/plain")
    monkeypatch.setattr(pipeline, "identify", lambda *_: text)
    monkeypatch.setattr(pipeline, "open_document", lambda source: Endless())

    def leave(step: IngestProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest_source(runtime(), store, Source.from_path(manual), progress=leave)
    assert stage_threads() == []
    before = seen
    time.sleep(0.02)
    assert seen == before


def test_the_writing_thread_computes_on_itself_alone(
    store: Store, manual: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, threads = DocumentWriter.append, []
    manual.write_text("The lamp burns whale oil.", encoding="utf-8")  # two threads are slow here

    def counted(writer: DocumentWriter, batch: ChunkBatch, rows: Sequence[ChunkText]) -> None:
        threads.append(torch.get_num_threads())
        append(writer, batch, rows)

    monkeypatch.setattr(DocumentWriter, "append", counted)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        read(store, manual)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert set(threads) == {1}
