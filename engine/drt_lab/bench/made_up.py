"""Libraries of made-up records, which take minutes where a model would need hours.

Chunk memory is random and texts are made up; the records, the catalogue and the full-text index are
those of ordinary use.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from drt_engine.errors import ConfigError
from drt_engine.ingest.temporary import open_library
from drt_engine.runtime import Runtime
from drt_engine.store import ChunkBatch, ChunkText, Store
from drt_engine.store.identity import TextHash
from drt_lab.data.needle_words import ADJECTIVES, COLOURS, NOUNS, THINGS

BATCH = 256  # chunks appended together, as reading does
DOCUMENT_TOKENS = 16_000_000  # at most, whose texts are in memory while they are written
_WORDS_PER_TOKEN = 0.75


class MadeUp:
    """Records and texts without a model: random memory, words as often as words of English are."""

    def __init__(self, runtime: Runtime, seed: int = 0) -> None:
        self._config = config = runtime.config
        self._chance = random.Random(seed)
        self._numbers = torch.Generator().manual_seed(seed)
        shape = (BATCH, config.chunk, config.kv_heads, config.head_size)
        self._keys = torch.randn(shape, generator=self._numbers)
        named = sorted({*THINGS, *ADJECTIVES, *NOUNS, *COLOURS})
        self._words = [*named, *(f"w{number:x}" for number in range(50_000))]
        self._chance.shuffle(self._words)
        # as often as the inverse of their rank, the commonest left out as stop words are
        weights = (1 / (rank + 20) for rank in range(len(self._words)))
        self._weights = list(_running_sums(weights))

    def texts(self, count: int) -> list[str]:
        """Texts of ``count`` full chunks."""
        words = round(self._config.chunk * _WORDS_PER_TOKEN)
        return [self.text(words) for _ in range(count)]

    def batch(self, count: int) -> ChunkBatch:
        """Numbers of ``count`` full chunks."""
        config = self._config
        size = config.chunk
        shape = (count, size)
        ids = torch.randint(config.vocab // 16, config.vocab, shape, generator=self._numbers)
        places = torch.arange(size, dtype=torch.int32).expand(count, size)
        landmarks = torch.randn(count, config.width, generator=self._numbers)
        return ChunkBatch(
            ids=ids.int(),
            starts=places,
            ends=places + 1,
            lengths=torch.full((count,), size, dtype=torch.int32),
            keys=self._keys[:count],
            values=self._keys[:count].flip(0),
            landmarks=torch.nn.functional.normalize(landmarks, dim=-1),
        )

    def text(self, words: int) -> str:
        """Return so many words, each with a space behind it."""
        return " ".join(self._chance.choices(self._words, cum_weights=self._weights, k=words)) + " "


def _running_sums(values: Iterator[float]) -> Iterator[float]:
    total = 0.0
    for value in values:
        total += value
        yield total


def make_document(store: Store, made_up: MadeUp, *, number: int, chunks: int) -> float:
    """Write a document of random records; returns the seconds that writing alone took."""
    seconds, start = 0.0, 0
    pieces = made_up.texts(chunks)
    text_hash = TextHash()
    text_hash.update(pieces)
    with store.begin_document(
        document_id=text_hash.document_id,
        title=f"Made up {number}",
        source=f"/made-up/{number}",
        media_type="",
    ) as writer:
        for at in range(0, chunks, BATCH):
            batch = made_up.batch(min(BATCH, chunks - at))
            texts = []
            for piece in pieces[at : at + BATCH]:
                texts.append(ChunkText(start, piece))
                start += len(piece)
            start_time = time.perf_counter()
            writer.append(batch, texts)
            seconds += time.perf_counter() - start_time
        start_time = time.perf_counter()
        writer.finish(places=[(0, None, None)])
    return seconds + time.perf_counter() - start_time


def make_library(runtime: Runtime, folder: Path, *, tokens: int) -> float | None:
    """Make a library of about ``tokens`` tokens; return the seconds that writing it took.

    One that is there with as many is used as it is, and the result is ``None``. Raises
    ``ConfigError`` for one with another number.
    """
    chunks = max(1, tokens // runtime.config.chunk)
    with open_library(runtime, folder) as store:
        present = int(store.stats()["chunks"])
        if present == chunks and not store.partial_documents():
            return None
        if present:
            raise ConfigError(
                f"the library at {folder} has {present:,} chunks, expected {chunks:,}: it is of"
                " an interrupted or another benchmark, remove it"
            )
        made_up, seconds = MadeUp(runtime), 0.0
        step = DOCUMENT_TOKENS // runtime.config.chunk
        for number, at in enumerate(range(0, chunks, step), start=1):
            size = min(step, chunks - at)
            seconds += make_document(store, made_up, number=number, chunks=size)
    return seconds
