"""A document that grew or changed: the bits of reading it whole, for the work of what is new."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch

from drt_engine.config.model import preset
from drt_engine.documents import Source
from drt_engine.ingest import pipeline
from drt_engine.ingest.pipeline import ingest_source
from drt_engine.ingest.segment import Chunk
from drt_engine.model.drt import DRT, Encoded
from drt_engine.results import IngestProgress
from drt_engine.runtime import Runtime
from drt_engine.store import ChunkBatch, Store
from drt_engine.text.tokenizer import Encoding, Tokenizer
from drt_lab.bench.parts import generated_text
from tests.model_folder import LETTERS, MANUAL, errors, library, read, runtime, text_of
from tests.sampling import sampled

SIZE = 8  # tokens of a chunk of the tiny model
BLOCK, SEGMENT, WARM_UP = 64, 256, 4
WORDS = sorted({word for word in (MANUAL + LETTERS).split() if word.isalpha() and len(word) < 8})


def words(chunks: int, seed: int = 0) -> str:
    """As many words, a token each, as fill these chunks."""
    return "".join(f"{word} " for word in random.Random(seed).choices(WORDS, k=chunks * SIZE))


class Work:
    """What the model did: the chunks given to it at a time, and how many were encoded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begins: list[int] = []
        self.warm_ups, self.chunks, self.encoded = 0, 0, 0
        real, encode = pipeline.read_chunks, DRT.encode

        def counted(
            model: Runtime, warm_up: Sequence[Chunk], batch: Sequence[Chunk], **note: Any
        ) -> ChunkBatch:
            self.begins.append(batch[0].start)
            self.warm_ups += len(warm_up)
            self.chunks += len(batch)
            return real(model, warm_up, batch, **note)

        def encoded(model: DRT, states: torch.Tensor, valid: torch.Tensor) -> Encoded:
            self.encoded += len(states)
            return encode(model, states, valid)

        monkeypatch.setattr(pipeline, "read_chunks", counted)
        monkeypatch.setattr(DRT, "encode", encoded)

    def clear(self) -> None:
        self.begins.clear()
        self.warm_ups = self.chunks = self.encoded = 0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with library(tmp_path / "library") as opened:
        yield opened


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    return Work(monkeypatch)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.txt"


def assert_as_read_whole(store: Store, log: Path, model: Runtime | None = None) -> None:
    """The one document of the library has the bits that another library gets from its file."""
    (row,) = store.documents()
    text = log.read_text(encoding="utf-8")
    with library(log.parent / "whole", model) as other:
        whole = read(other, log, model)
        ours, theirs = (s.read_chunks(s.chunk_ids([row.id])) for s in (store, other))
        other.remove_document(whole.id)
    assert row.id == whole.id and text_of(store, row) == text
    for field in fields(ChunkBatch):
        assert torch.equal(getattr(ours, field.name), getattr(theirs, field.name)), field.name
    assert errors(store) == []


QUICK = [(3, 1), (64, 1), (256, 6)]
MORE = [(300, 260), (100, 70)] + [
    (chunks, more) for chunks in (63, 255, 448, 511, 600, 1100) for more in (1, 70, 300)
]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("chunks", "more"),
    [*QUICK, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in MORE)],
)
def test_an_append_equals_reading_whole(
    store: Store, log: Path, work: Work, chunks: int, more: int
) -> None:
    log.write_text(words(chunks), encoding="utf-8")
    old = read(store, log)
    assert chunks <= old.chunks <= chunks + 1
    work.clear()
    log.write_text(words(chunks) + words(more, seed=1), encoding="utf-8")
    new = read(store, log)
    again = work.chunks - (new.chunks - old.chunks)
    assert work.chunks == work.encoded
    assert 0 <= again <= BLOCK
    assert work.warm_ups <= WARM_UP * len(work.begins) and len(work.begins) <= 1 + -(-more // 256)
    assert_as_read_whole(store, log)


@pytest.mark.thorough
def test_an_append_tokenises_what_is_new(
    store: Store, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write_text(words(700), encoding="utf-8")
    read(store, log)
    log.write_text(words(700) + words(5, seed=1), encoding="utf-8")
    seen = tokenised(monkeypatch)
    read(store, log)
    first_block = max(seen)  # until there is a word: nothing is read without one
    assert sum(seen) - first_block < len(words(20)) < len(words(700)) / 10
    assert_as_read_whole(store, log)


@pytest.mark.thorough
def test_an_interrupted_reading_tokenises_what_is_left(
    store: Store, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(step: IngestProgress) -> None:
        if step.characters > len(words(700)):
            raise KeyboardInterrupt

    log.write_text(words(900), encoding="utf-8")
    with pytest.raises(KeyboardInterrupt):
        ingest_source(runtime(), store, Source.from_path(log), progress=interrupt)
    (partial,) = store.partial_documents()
    seen = tokenised(monkeypatch)
    read(store, log)
    left = partial.chunks / 900
    assert sum(seen) - max(seen) < (1 - left) * len(words(900)) + len(words(20))
    assert_as_read_whole(store, log)


def tokenised(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many characters are tokenised at a time from now on."""
    seen: list[int] = []
    encode = Tokenizer.encode

    def seeing(self: Tokenizer, text: str) -> Encoding:
        seen.append(len(text))
        return encode(self, text)

    monkeypatch.setattr(Tokenizer, "encode", seeing)
    return seen


@pytest.mark.slow
def test_a_log_that_grows_many_times(store: Store, log: Path, work: Work) -> None:
    text = ""
    for number in range(6):
        text += words(50, seed=number)
        log.write_text(text, encoding="utf-8")
        work.clear()
        read(store, log)
        assert work.chunks <= 50 + 1 + BLOCK
    assert_as_read_whole(store, log)
    (row,) = store.documents()
    files = list((store.path / "segments").glob(f"{row.id}*.seg"))
    assert len(files) <= 3  # what is taken over is one, and what is read stands in two segments


MUCH = words(70, seed=3)
QUICK_CHANGES = [(130, MUCH)]
MORE_CHANGES = [(64, ""), (0, "cow "), (330, "cow ")] + [
    (at, put) for at in (63, 255, 256, 399) for put in ("cow ", "", MUCH)
]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("at", "put"),
    [*QUICK_CHANGES, *(pytest.param(*change, marks=pytest.mark.slow) for change in MORE_CHANGES)],
)
def test_a_change_is_read_from_the_border_before_it(
    store: Store, log: Path, work: Work, at: int, put: str
) -> None:
    text = words(400)
    log.write_text(text, encoding="utf-8")
    read(store, log)
    pieces = text.split(" ")
    place = at * SIZE + 3
    before, after = pieces[:place], pieces[place + (put == "") :]
    log.write_text(" ".join([*before, put.strip(), *after] if put else [*before, *after]))
    work.clear()
    new = read(store, log)
    assert new.chunks - work.chunks == at - at % BLOCK
    assert_as_read_whole(store, log)


@pytest.mark.thorough
@pytest.mark.parametrize("left", sampled([1, 200, 256], {2}))
def test_a_shortened_document_equals_reading_it_whole(
    store: Store, log: Path, work: Work, left: int
) -> None:
    log.write_text(words(400), encoding="utf-8")
    read(store, log)
    log.write_text(" ".join(words(400).split(" ")[: left * SIZE]), encoding="utf-8")
    work.clear()
    assert read(store, log).chunks == left
    assert work.chunks == left % BLOCK  # the last block has other rows than it had
    assert_as_read_whole(store, log)


def test_only_its_end_without_tokens_changed(store: Store, log: Path, work: Work) -> None:
    log.write_text(words(100), encoding="utf-8")
    read(store, log)
    log.write_text(words(100) + "\n\n", encoding="utf-8")
    work.clear()
    read(store, log)
    assert work.chunks == 0
    assert_as_read_whole(store, log)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("steps", "signal"),
    [
        (2, RuntimeError),
        pytest.param(1, KeyboardInterrupt, marks=pytest.mark.slow),
        pytest.param(3, KeyboardInterrupt, marks=pytest.mark.slow),
    ],
)
def test_an_interrupted_append_goes_on(
    store: Store, log: Path, work: Work, steps: int, signal: type[BaseException]
) -> None:
    """320 chunks are taken over, then 192, 256 and the rest are read."""
    log.write_text(words(356), encoding="utf-8")
    read(store, log)
    text = words(356) + words(500, seed=1)
    log.write_text(text, encoding="utf-8")
    at_segment = (0, 192, 192 + 256)[steps - 1] * runtime().config.chunk

    def interrupt(step: IngestProgress) -> None:
        if step.tokens == at_segment:
            raise signal

    work.clear()
    with pytest.raises(signal):
        ingest_source(runtime(), store, Source.from_path(log), progress=interrupt)
    assert errors(store) == []
    (partial,) = store.partial_documents()
    assert partial.chunks == (320, 512, 768)[steps - 1]
    assert len(store.documents()) == 1  # the old version, whole
    new = read(store, log)
    assert work.chunks == work.encoded == new.chunks - 320  # none twice, none of what was kept
    assert_as_read_whole(store, log)


@pytest.mark.thorough
def test_a_file_that_grows_again_after_an_interruption(store: Store, log: Path) -> None:
    def interrupt(step: IngestProgress) -> None:
        raise KeyboardInterrupt

    log.write_text(words(100), encoding="utf-8")
    read(store, log)
    log.write_text(words(100) + words(90, seed=1), encoding="utf-8")
    with pytest.raises(KeyboardInterrupt):
        ingest_source(runtime(), store, Source.from_path(log), progress=interrupt)
    log.write_text(words(100) + words(90, seed=1) + words(300, seed=2), encoding="utf-8")
    read(store, log)
    assert store.partial_documents() == []
    assert_as_read_whole(store, log)


def test_damage_in_what_would_be_kept_is_read_again(store: Store, log: Path, work: Work) -> None:
    log.write_text(words(100), encoding="utf-8")
    row = read(store, log)
    (segment,) = (store.path / "segments").glob(f"{row.id}*.seg")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    store._memory.close()
    log.write_text(words(110), encoding="utf-8")
    work.clear()
    new = read(store, log)
    assert work.chunks == new.chunks
    assert_as_read_whole(store, log)


@pytest.mark.parametrize(("name", "block"), [("drt-small-en", 64), ("drt-128m", 256)])
def test_blocks_are_longer_where_warming_up_is(name: str, block: int) -> None:
    model = runtime()
    one = Runtime(**{**vars(model), "model": _Shape(preset(name))})
    assert one.block_chunks == block
    assert one.block_chunks >= 4 * one.config.warm_up_chunks


class _Shape:
    def __init__(self, config: object) -> None:
        self.config = config


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_an_append_equals_reading_whole_with_the_shipped_model(
    tmp_path: Path, log: Path, work: Work, dtype: str
) -> None:
    model = Runtime.load(device="cpu", threads=1, dtype=dtype)  # type: ignore[arg-type]
    with library(tmp_path / "library", model) as store:
        text = generated_text(10_000) + "\n\n"
        log.write_text(text, encoding="utf-8")
        old = read(store, log, model)
        work.clear()
        log.write_text(text + generated_text(100, seed=1), encoding="utf-8")
        new = read(store, log, model)
        assert old.chunks > 2 * BLOCK
        assert work.encoded == new.chunks - old.chunks // BLOCK * BLOCK
        assert_as_read_whole(store, log, model)
