"""Read one document into a library: text, chunks, lower stack and encoder, store; resumable.

Only the lower stack and the encoder run, on segments of chunks with the warm-up that the window
needs, so the result does not depend on where segments begin.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch

from drt_engine.documents import Block, Source, open_document
from drt_engine.errors import EmptyDocument, StoreError, UnreadableDocument
from drt_engine.ingest.segment import Chunk, Segmenter
from drt_engine.runtime import Runtime
from drt_engine.store import ChunkBatch, ChunkText, DocumentRow, Store
from drt_engine.tokenizer import Tokenizer

SEGMENT_CHUNKS = 256


@dataclass(frozen=True)
class IngestProgress:
    """How far the reading of one document is: ``characters`` of ``total_characters``.

    ``tokens`` were read by the model in ``seconds``, without those an earlier reading left.
    """

    source: str
    characters: int
    total_characters: int
    tokens: int
    seconds: float


Progress = Callable[[IngestProgress], None]


def ingest_source(
    runtime: Runtime, store: Store, source: Source, *, progress: Progress | None = None
) -> tuple[DocumentRow, bool]:
    """Read a document into the library unless its text is there; return it and whether it is new.

    Raises ``DocumentError`` when the document cannot be read, ``StoreError`` when the library
    cannot be written.
    """
    text = _identify(source, runtime.tokenizer)
    place = source.location if source.path is not None else f"{source.name} {text.id}"
    known = store.document_by_id(text.id)
    if known is not None:
        return _placed(store, known, place), False
    if store.get_setting("model") is None:
        store.set_setting("model", runtime.name)
    try:
        return _read(runtime, store, source, text=text, place=place, progress=progress), True
    except StoreError:
        read_meanwhile = store.document_by_id(text.id)  # by the process we waited for
        if read_meanwhile is None:
            raise
        return read_meanwhile, False
    except _Changed:
        # What was read of it has no text that it could be checked against.
        store.remove_document(text.id)
        raise UnreadableDocument(
            f"{source.name} changed while it was read; read it again once it is written"
        ) from None


@dataclass(frozen=True)
class _Text:
    """What the first pass over a document finds."""

    id: str
    characters: int
    title: str
    media_type: str


class _Changed(Exception):
    """The second pass over a document found another text than the first."""


class _Hashed:
    """Blocks that are hashed as they pass."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        self._blocks, self._digest = blocks, hashlib.sha256()

    def __iter__(self) -> Iterator[Block]:
        for block in self._blocks:
            self._digest.update(block.text.encode("utf-8"))
            yield block

    @property
    def id(self) -> str:
        """The document's identity, once all blocks have passed."""
        return self._digest.hexdigest()[:16]


def _identify(source: Source, tokenizer: Tokenizer) -> _Text:
    """Read the text once to know its hash and length, before anything is written."""
    characters, words = 0, False
    with open_document(source) as document:
        blocks = _Hashed(document.blocks)
        for block in blocks:
            characters += len(block.text)
            # Some tokenizers give white space tokens, and some drop invisible characters.
            words = words or (not block.text.isspace() and len(tokenizer.encode(block.text)) > 0)
        title, media_type = document.title, document.media_type
    if not words:
        raise EmptyDocument(f"{source.name} holds no words; there is nothing to read")
    return _Text(blocks.id, characters, title, media_type)


def _placed(store: Store, known: DocumentRow, place: str) -> DocumentRow:
    """A known text was found at ``place``: it replaces what stood there; a moved file moves."""
    if known.source == place:
        return known
    replaced = any(row.source == place for row in store.documents())
    moved = Path(known.source).is_absolute() and not Path(known.source).exists()
    if not replaced and not moved:
        return known  # a copy of a file that is still there
    store.rename_source(known.id, place)
    return store.document(known.id)


def _read(
    runtime: Runtime,
    store: Store,
    source: Source,
    *,
    text: _Text,
    place: str,
    progress: Progress | None,
) -> DocumentRow:
    started, done = time.monotonic(), 0
    segmenter = Segmenter(runtime.tokenizer, runtime.config.chunk)
    with (
        store.begin_document(
            id=text.id, title=text.title, source=place, media_type=text.media_type
        ) as writer,
        open_document(source) as document,
    ):
        blocks = _Hashed(document.blocks)
        batches = _batches(
            segmenter.chunks(blocks), writer.committed_chunks, runtime.config.warm_up_chunks
        )
        for warm_up, batch in batches:
            if batch[0].start != writer.committed_characters:
                raise _Changed
            writer.append(read_chunks(runtime, warm_up, batch), _texts(batch, segmenter))
            done += sum(len(c.ids) for c in batch)
            if progress is not None:
                at = batch[-1].start + len(batch[-1].text)
                seconds = time.monotonic() - started
                progress(IngestProgress(source.name, at, text.characters, done, seconds))
        if blocks.id != text.id or writer.committed_characters != text.characters:
            raise _Changed
        return writer.finish(places=segmenter.places)


def _batches(
    chunks: Iterator[Chunk], done: int, warm_up: int
) -> Iterator[tuple[list[Chunk], list[Chunk]]]:
    """Yield segments after the first ``done`` chunks, each after the chunks its window sees."""
    before: deque[Chunk] = deque(islice(chunks, done), maxlen=max(warm_up, 1))
    while batch := list(islice(chunks, SEGMENT_CHUNKS)):
        yield list(before)[-warm_up:] if warm_up else [], batch
        before.extend(batch)


@torch.inference_mode()
def read_chunks(runtime: Runtime, warm_up: Sequence[Chunk], batch: Sequence[Chunk]) -> ChunkBatch:
    """Run lower stack and encoder over consecutive chunks; return what is stored of ``batch``."""
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
