"""Reading: text, places and records are stored whole, in pieces of bounded size."""

from __future__ import annotations

import io
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from drt_engine.documents import Source
from drt_engine.errors import EmptyDocument
from drt_engine.ingest import pipeline, segment, stages
from drt_engine.ingest.pipeline import ingest_source
from drt_engine.ingest.segment import Chunk, Segmenter, safe_cut
from drt_engine.results import IngestProgress
from drt_engine.store import ChunkText, Store
from tests.engine.documents.helpers import make_pdf
from tests.engine.ingest.counted import Counted, records
from tests.model_folder import LETTERS, MANUAL, library, read, runtime, text_of
from tests.sampling import sampled


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


@pytest.mark.few(1)
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


class Piece:
    """A block of a reader."""

    page, section = None, None

    def __init__(self, text: str) -> None:
        self.text = text


def chunks_of(text: str, size: int) -> list[Chunk]:
    pieces = (Piece(text[i : i + size]) for i in range(0, len(text), size))
    return list(Segmenter(runtime().tokenizer, 8).chunks(pieces))


@pytest.mark.few(1)
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


@pytest.mark.thorough
@pytest.mark.parametrize("lines", sampled([100, 400], {0}, thorough={1}))
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


@pytest.mark.thorough
def test_each_page_is_told_before_the_document_is_read(store: Store, tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    file = tmp_path / "terms.pdf"
    file.write_bytes(make_pdf([["The first page."], [], ["The third page has words."]]))
    steps: list[IngestProgress] = []
    ingest_source(runtime(), store, Source.from_path(file), progress=steps.append)
    parsed = [(step.page, step.pages, step.fraction) for step in steps if step.pages]
    assert parsed == [(1, 3, 0.0), (3, 3, 0.0)]
    last = steps[len(parsed)]
    assert (last.page, last.pages, last.fraction) == (0, 0, 1.0)


def test_progress_is_told_within_a_segment(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "long.txt"
    block = runtime().block_chunks * runtime().config.chunk
    file.write_text(" ".join(["oil"] * (2 * block + 7)), encoding="utf-8")
    steps: list[IngestProgress] = []
    row, _ = ingest_source(runtime(), store, Source.from_path(file), progress=steps.append)
    assert [step.tokens for step in steps] == [block, 2 * block, row.tokens]
    assert [step.characters for step in steps] == [4 * block, 8 * block, row.characters]
