"""Reading: never twice, never in vain, and never by halves."""

from __future__ import annotations

import io
import os
import threading
import weakref
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path

import pytest
import torch

from drt_engine.documents import Source, expand_paths
from drt_engine.errors import EmptyDocument, StoreError, UnreadableDocument
from drt_engine.ingest import pipeline, segment, stages
from drt_engine.ingest.pipeline import ingest_source
from drt_engine.ingest.segment import Chunk, Segmenter, safe_cut
from drt_engine.results import IngestProgress
from drt_engine.runtime import Runtime
from drt_engine.store import ChunkBatch, ChunkText, Store
from tests.model_folder import LETTERS, MANUAL, errors, library, read, runtime, text_of

Reading = Callable[[Runtime, Sequence[Chunk], Sequence[Chunk]], ChunkBatch]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with library(tmp_path / "library") as opened:
        yield opened


@pytest.fixture
def manual(tmp_path: Path) -> Path:
    file = tmp_path / "manual.md"
    file.write_text(MANUAL, encoding="utf-8")
    return file


class Counted:
    """Counts the chunks that go through the model, and keeps what comes out."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.batches: list[ChunkBatch] = []
        self._read: Reading = pipeline.read_chunks
        monkeypatch.setattr(pipeline, "read_chunks", self)

    def __call__(
        self, runtime: Runtime, warm_up: Sequence[Chunk], batch: Sequence[Chunk]
    ) -> ChunkBatch:
        self.batches.append(self._read(runtime, warm_up, batch))
        return self.batches[-1]

    @property
    def chunks(self) -> int:
        return sum(len(batch.lengths) for batch in self.batches)

    def joined(self) -> ChunkBatch:
        names = [field.name for field in fields(ChunkBatch)]
        return ChunkBatch(*(torch.cat([getattr(b, name) for b in self.batches]) for name in names))


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


def records(store: Store, id: str) -> ChunkBatch:
    return store.read_chunks(store.chunk_ids([id]))


def assert_same_bits(one: ChunkBatch, other: ChunkBatch) -> None:
    for field in fields(ChunkBatch):
        assert torch.equal(getattr(one, field.name), getattr(other, field.name)), field.name


def test_the_text_and_its_places_are_stored_whole(store: Store, manual: Path) -> None:
    row = read(store, manual)
    text = text_of(store, row)
    assert row.characters == len(text)
    assert "thirty days" in text and "forty seconds" in text
    assert store.place(row.id, text.index("thirty days")) == (None, "Lighthouse manual > Leave")
    assert store.place(row.id, text.index("whale oil")) == (None, "Lighthouse manual")
    stored = records(store, row.id)
    assert row.tokens == int(stored.lengths.sum())
    assert (stored.lengths[:-1] == runtime().config.chunk).all()
    assert store.get_setting("model") == runtime().name


def test_every_token_stands_where_its_offsets_say(store: Store, manual: Path) -> None:
    row = read(store, manual)
    ids = store.chunk_ids([row.id])
    stored, tokenizer = store.read_chunks(ids), runtime().tokenizer
    for number, chunk in enumerate(store.chunk_rows(ids)):
        for slot in range(int(stored.lengths[number])):
            piece = chunk.text[stored.starts[number, slot] : stored.ends[number, slot]]
            token = tokenizer.decode([int(stored.ids[number, slot])]).removeprefix("##")
            assert token == piece.lower()


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


def members(archive: Path, **texts: str) -> list[Source]:
    """An archive of these texts, as sources."""
    with zipfile.ZipFile(archive, "w") as box:
        for name, text in texts.items():
            box.writestr(f"{name}.md", text)
    found = list(expand_paths([str(archive)]))
    assert len(found) == len(texts) and all(isinstance(one, Source) for one in found)
    return found  # type: ignore[return-value]


def test_a_member_stays_where_its_archive_is(store: Store, manual: Path, tmp_path: Path) -> None:
    (member,) = members(tmp_path / "box.zip", inner=MANUAL)
    row, new = ingest_source(runtime(), store, member)
    assert new and row.source == f"{tmp_path}/box.zip!/inner.md"
    assert ingest_source(runtime(), store, Source.from_path(manual)) == (row, False)
    (tmp_path / "box.zip").unlink()
    moved, new = ingest_source(runtime(), store, Source.from_path(manual))
    assert (moved.id, moved.source, new) == (row.id, str(manual), False)


def test_a_member_may_have_a_longer_name_than_files(
    store: Store, manual: Path, tmp_path: Path
) -> None:
    (member,) = members(tmp_path / "box.zip", **{"long" * 80: MANUAL})
    row, _ = ingest_source(runtime(), store, member)
    assert read(store, manual) == row
    (tmp_path / "box.zip").unlink()
    assert read(store, manual).source == str(manual)


def test_a_folder_with_the_name_of_a_member_is_no_archive(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "odd!"
    folder.mkdir()
    (folder / "a.md").write_text(MANUAL, encoding="utf-8")
    row = read(store, folder / "a.md")
    moved = (folder / "a.md").rename(folder / "b.md")
    assert (read(store, moved).id, read(store, moved).source) == (row.id, str(moved))


def test_an_unchanged_member_is_not_parsed_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = members(tmp_path / "box.zip", one=MANUAL, two=LETTERS)
    rows = [ingest_source(runtime(), store, member)[0] for member in (first, second)]
    monkeypatch.setattr(pipeline, "identify", None)  # calling it would raise
    again = members(tmp_path / "box.zip", one=MANUAL, two=LETTERS)
    assert [ingest_source(runtime(), store, member) for member in again] == [
        (row, False) for row in rows
    ]


def test_what_a_reader_passed_over_is_told(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    file.write_text('{"tar": "six crowns"}\nno json at all\n', encoding="utf-8")
    told: list[tuple[str, ...]] = []
    ingest_source(runtime(), store, Source.from_path(file), skipped=told.append)
    assert told == [("line (no JSON; read as written)",)]
    ingest_source(runtime(), store, Source.from_path(file), skipped=told.append)
    assert len(told) == 1  # unchanged: the file was not parsed


def test_piped_documents_do_not_replace_one_another(store: Store) -> None:
    rows = []
    for text in (MANUAL, LETTERS, MANUAL):
        source = Source.from_stream(io.BytesIO(text.encode()), "standard input")
        rows.append(ingest_source(runtime(), store, source)[0])
        source.close()
    assert rows[0] == rows[2]
    assert store.documents() == rows[:2]
    assert [row.source for row in rows[:2]] == [f"standard input {row.id}" for row in rows[:2]]


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


@pytest.mark.parametrize("size", [3, 7, 64])
def test_segments_of_any_size_give_the_same_records(
    manual: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    joined = []
    for number, chunks in enumerate((1024, size)):
        counted = Counted(monkeypatch)
        monkeypatch.setattr(pipeline, "SEGMENT_CHUNKS", chunks)
        with library(tmp_path / str(number)) as store:
            read(store, manual)
        joined.append(counted.joined())
        monkeypatch.undo()
    whole, parts = joined
    for name in ("ids", "starts", "ends", "lengths"):
        assert torch.equal(getattr(whole, name), getattr(parts, name))
    for name in ("keys", "values", "landmarks"):
        torch.testing.assert_close(getattr(parts, name), getattr(whole, name), rtol=1e-4, atol=1e-5)


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


def test_what_another_process_read_meanwhile_is_taken(
    store: Store, manual: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = read(store, manual)
    before, lookup = counted.chunks, store.document_by_id
    answers = iter([None])
    monkeypatch.setattr(store, "document_by_id", lambda id: next(answers, lookup(id)))
    assert ingest_source(runtime(), store, Source.from_path(manual)) == (row, False)
    assert counted.chunks == before


@pytest.mark.parametrize("text", ["", "\n \t\n", "\u200b\u200b", "\u0301"])
def test_a_document_without_words_is_refused(store: Store, tmp_path: Path, text: str) -> None:
    file = tmp_path / "blank.txt"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(EmptyDocument, match="blank.txt"):
        read(store, file)
    assert store.documents() == store.partial_documents() == []


@pytest.mark.parametrize("text", ["a", "\u200ba", "\n\n.", "é", "日本", "x" * 300])
def test_the_shortest_documents_are_kept_whole(store: Store, tmp_path: Path, text: str) -> None:
    file = tmp_path / "short.txt"
    file.write_text(text, encoding="utf-8")
    row = read(store, file)
    assert text_of(store, row) == text


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


class Piece:
    """A block of a reader."""

    page, section = None, None

    def __init__(self, text: str) -> None:
        self.text = text


def chunks_of(text: str, size: int) -> list[Chunk]:
    pieces = (Piece(text[i : i + size]) for i in range(0, len(text), size))
    return list(Segmenter(runtime().tokenizer, 8).chunks(pieces))


@pytest.mark.parametrize("size", [97, 1_000, 40_000])
def test_chunks_do_not_depend_on_how_the_text_comes(size: int) -> None:
    text = MANUAL * 45
    assert chunks_of(text, size) == chunks_of(text, len(text))


def test_chunks_hold_the_whole_text() -> None:
    text = MANUAL + "\n" + "wreck" * 40_000 + " \n" + LETTERS + "  \n"
    chunks = chunks_of(text, 10_000)
    assert "".join(chunk.text for chunk in chunks) == text
    assert all(a.start + len(a.text) == b.start for a, b in zip(chunks, chunks[1:], strict=False))
    assert [len(chunk.ids) for chunk in chunks[:-1]] == [8] * (len(chunks) - 1)


def test_text_is_cut_before_white_space_and_never_inside_a_character() -> None:
    assert safe_cut("one two  three") == 7
    assert safe_cut("one two  ") == 3
    assert safe_cut("x" * 1000) is None
    long = "x" * 131_072
    assert safe_cut(long + "e\u0301\u0302") == len(long)


class Alive:
    """Counts objects from the call that makes them until nothing refers to them any more."""

    def __init__(self) -> None:
        self.made = self.now = self.most = 0
        self._guard = threading.Lock()

    def counting(self, make: Callable[..., object]) -> Callable[..., object]:
        """``make``, with everything that it makes counted."""

        def counted(*arguments: object, **keywords: object) -> object:
            made = make(*arguments, **keywords)
            with self._guard:
                self.made += 1
                self.now += 1
                self.most = max(self.most, self.now)
            weakref.finalize(made, self._gone)
            return made

        return counted

    def _gone(self) -> None:
        with self._guard:
            self.now -= 1


@pytest.mark.parametrize("lines", [100, 400])
def test_memory_does_not_grow_with_the_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int
) -> None:
    """At most the segments that are read, computed and written at one time are held."""
    chunks, texts, batches = Alive(), Alive(), Alive()
    size = 8
    monkeypatch.setattr(pipeline, "SEGMENT_CHUNKS", size)
    monkeypatch.setattr(segment, "Chunk", chunks.counting(Chunk))
    monkeypatch.setattr(stages, "ChunkText", texts.counting(ChunkText))
    monkeypatch.setattr(pipeline, "read_chunks", batches.counting(pipeline.read_chunks))
    # without a lower stack each segment is computed in a moment
    model = runtime(chunk=16, lower_layers=0, width=16, heads=2, kv_heads=1, mlp=16)
    words = [word for word in LETTERS.split() if word.isalpha()]
    file = tmp_path / "long.txt"
    sentences = (" ".join(words[(i + k) % len(words)] for k in range(20)) for i in range(lines))
    file.write_text(".\n".join(sentences), encoding="utf-8")
    with library(tmp_path / "library", model) as store:
        row, _ = ingest_source(model, store, Source.from_path(file))
    assert chunks.made == texts.made == row.chunks
    assert batches.made == -(-row.chunks // size) >= lines // 8
    # one segment each is tokenised, waits, is computed, is written
    assert chunks.most <= 4 * size
    assert texts.most <= 4 * size
    assert batches.most <= 3
