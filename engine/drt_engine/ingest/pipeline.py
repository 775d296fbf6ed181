"""Read one document into a library: text, chunks, lower stack and encoder, store; resumable at any chunk.

Only the lower stack and the encoder run, on segments of chunks with the warm-up that the window needs, so the result
does not depend on where segments begin.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch

from drt_engine.documents import Source, open_document
from drt_engine.errors import EmptyDocument
from drt_engine.ingest.segment import Chunk, Segmenter
from drt_engine.runtime import Runtime
from drt_engine.store import ChunkBatch, ChunkText, DocumentRow, Store

SEGMENT_CHUNKS = 256


@dataclass(frozen=True)
class IngestProgress:
    """How far the reading of one document is; ``characters`` of ``total_characters``, ``tokens`` read by the model."""

    source: str
    characters: int
    total_characters: int
    tokens: int
    seconds: float


Progress = Callable[[IngestProgress], None]


def ingest_source(
    runtime: Runtime, store: Store, source: Source, *, progress: Progress | None = None
) -> tuple[DocumentRow, bool]:
    """Read a document into the library unless its text is there already; return it and whether it was read now.

    Raises ``DocumentError`` when the document cannot be read, ``StoreError`` when the library cannot be written.
    """
    identity, characters, title, media_type = _identify(source)
    known = store.document_by_id(identity)
    if known is not None:
        return known, False
    started = time.monotonic()
    with store.begin_document(
        id=identity, title=title, source=source.location, media_type=media_type
    ) as writer:
        segmenter = Segmenter(runtime.tokenizer, runtime.config.chunk)
        with open_document(source) as document:
            chunks = segmenter.chunks(document.blocks)
            done = 0
            for warm_up, batch in _batches(chunks, writer.committed_chunks, runtime.config.warm_up_chunks):
                writer.append(read_chunks(runtime, warm_up, batch), _texts(batch, segmenter))
                done += sum(len(c.ids) for c in batch)
                if progress is not None:
                    at = batch[-1].start + len(batch[-1].text)
                    seconds = time.monotonic() - started
                    progress(IngestProgress(source.name, at, characters, done, seconds))
        return writer.finish(places=segmenter.places), True


def _identify(source: Source) -> tuple[str, int, str, str]:
    """Read the text once to know its hash and length, before anything is written."""
    digest, characters, words = hashlib.sha256(), 0, False
    with open_document(source) as document:
        for block in document.blocks:
            digest.update(block.text.encode("utf-8"))
            characters += len(block.text)
            words = words or not block.text.isspace()
        title, media_type = document.title, document.media_type
    if not words:
        raise EmptyDocument(f"{source.name} holds no words, expected text; there is nothing to read")
    return digest.hexdigest()[:16], characters, title, media_type


def _batches(
    chunks: Iterator[Chunk], done: int, warm_up: int
) -> Iterator[tuple[list[Chunk], list[Chunk]]]:
    """Yield segments after the ``done`` first chunks, each with the chunks before it that its window reaches."""
    before: deque[Chunk] = deque(islice(chunks, done), maxlen=max(warm_up, 1))
    while batch := list(islice(chunks, SEGMENT_CHUNKS)):
        yield list(before)[-warm_up:] if warm_up else [], batch
        before.extend(batch)


@torch.inference_mode()
def read_chunks(runtime: Runtime, warm_up: Sequence[Chunk], batch: Sequence[Chunk]) -> ChunkBatch:
    """Run the lower stack and the encoder over consecutive chunks; return what the store keeps of ``batch``."""
    size = runtime.config.chunk
    both = [*warm_up, *batch]
    ids = torch.full((len(both), size), runtime.config.pad_id)
    valid = torch.zeros(len(both), size, dtype=torch.bool)
    for row, chunk in enumerate(both):
        ids[row, : len(chunk.ids)] = torch.tensor(chunk.ids)
        valid[row, : len(chunk.ids)] = True
    memory = runtime.read(ids, valid, skip=len(warm_up))
    kept = slice(len(warm_up), None)
    return ChunkBatch(
        ids=ids[kept].masked_fill(~valid[kept], 0).int(),
        starts=_table([c.starts for c in batch], size),
        ends=_table([c.ends for c in batch], size),
        lengths=torch.tensor([len(c.ids) for c in batch], dtype=torch.int32),
        keys=memory.keys,
        values=memory.values,
        landmarks=memory.landmarks,
    )


def _table(rows: Sequence[Sequence[int]], size: int) -> torch.Tensor:
    padded = [[*row, *([0] * (size - len(row)))] for row in rows]
    return torch.tensor(padded, dtype=torch.int32)


def _texts(batch: Sequence[Chunk], segmenter: Segmenter) -> list[ChunkText]:
    """Each chunk's text with the page and section of its first token."""
    texts = []
    for chunk in batch:
        first = chunk.start + chunk.starts[0]
        page, section = place_at(segmenter.places, first)
        texts.append(ChunkText(chunk.start, chunk.text, page, section))
    return texts


def place_at(
    places: Sequence[tuple[int, int | None, str | None]], start: int
) -> tuple[int | None, str | None]:
    """Return page and section of the character at ``start``."""
    low, high = 0, len(places)
    while low < high:
        middle = (low + high) // 2
        if places[middle][0] <= start:
            low = middle + 1
        else:
            high = middle
    return places[low - 1][1:] if low else (None, None)
