"""Read one document into a library: text, chunks, lower stack and encoder, store; resumable.

Only the lower stack and the encoder run, on segments of chunks with the warm-up that the window
needs, so the result does not depend on where segments begin. Three stages overlap, each at most
one segment ahead of the next: a thread reads and tokenises, the caller's computes, a thread writes.

A document is parsed twice: its id is the hash of its text, which must be known before the first
write. Spooling the text of the first pass would save the second one, but needs as much disk as the
text, outside the library, where forgetting a document and a killed process would leave it behind;
plain text, of which the largest documents are, is parsed as fast as a spool file would be read.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial

import torch

from drt_engine.documents import Source, open_document
from drt_engine.errors import StoreError, UnreadableDocument
from drt_engine.ingest.identity import (
    DocumentText,
    complete_author_and_date,
    expect_same_text,
    file_digest,
    identify,
    place_document,
    unchanged_document,
)
from drt_engine.ingest.older import OlderVersion, stored_chunks, table
from drt_engine.ingest.segment import Chunk
from drt_engine.ingest.stages import Opened, SegmentReading, SegmentWriting
from drt_engine.results import IngestProgress
from drt_engine.runtime import Runtime
from drt_engine.store import ChunkBatch, DocumentRow, Store

SEGMENT_CHUNKS = 256

Progress = Callable[[IngestProgress], None]
Skipped = Callable[[tuple[str, ...]], None]


class Changed(Exception):
    """The second pass over a document found another text than the first."""


def ingest_source(
    runtime: Runtime,
    store: Store,
    source: Source,
    *,
    progress: Progress | None = None,
    skipped: Skipped | None = None,
) -> tuple[DocumentRow, bool]:
    """Read a document into the library unless its text is there; return it and whether it is new.

    ``skipped`` is told what the reader passed over and why, if anything and if the file was opened;
    ``described`` then gets the document's author and date as it names them.
    Raises ``DocumentError`` when the document cannot be read, ``StoreError`` when the library
    cannot be written.
    """
    digest = file_digest(source)
    unchanged = unchanged_document(store, source, digest)
    if unchanged is not None:
        return unchanged, False
    text = identify(source, runtime.tokenizer)
    if skipped is not None and text.skipped:
        skipped(text.skipped)
    place = source.location if source.path is not None else f"{source.name} {text.document_id}"
    row, new = _ingest(runtime, store, source, text=text, place=place, progress=progress)
    if digest is not None and row.source == place and digest == file_digest(source):
        store.note_source(place, digest, row.id)
    return row, new


def _ingest(
    runtime: Runtime,
    store: Store,
    source: Source,
    *,
    text: DocumentText,
    place: str,
    progress: Progress | None,
) -> tuple[DocumentRow, bool]:
    existing = store.document_by_id(text.document_id)
    if existing is not None:
        expect_same_text(store, existing, text)
        existing = complete_author_and_date(store, existing, text)
        return place_document(store, existing, place), False
    if store.get_setting("model") is None:
        store.set_setting("model", runtime.name)
    try:
        opened = partial(open_document, source)
        return (
            read_document(
                runtime, store, opened, text=text, place=place, progress=progress, name=source.name
            ),
            True,
        )
    except StoreError:
        read_meanwhile = store.document_by_id(text.document_id)  # by the process we waited for
        if read_meanwhile is None:
            raise
        return read_meanwhile, False
    except Changed:
        # What was read of it has no text that it could be checked against.
        store.remove_document(text.document_id)
        raise UnreadableDocument(
            f"{source.name} changed while it was read; read it again once it is written"
        ) from None


def read_document(
    runtime: Runtime,
    store: Store,
    opened: Opened,
    *,
    text: DocumentText,
    place: str,
    name: str,
    progress: Progress | None,
) -> DocumentRow:
    """Read a document that the library has not, or go on where its reading stopped.

    What its version at ``place`` holds already is taken over up to the first changed block.
    Raises ``Changed`` when ``opened`` gives another text than ``text`` says.
    """
    started, done = time.monotonic(), 0
    row_at_place = store.document_at(place)
    older_version = (
        None
        if row_at_place is None
        else OlderVersion(
            store, row_at_place.id, block=runtime.block_chunks, segment=SEGMENT_CHUNKS
        )
    )
    writer = store.begin_document(
        document_id=text.document_id,
        title=text.title,
        source=place,
        media_type=text.media_type,
        author=text.author,
        date=text.date,
    )
    at = writer.committed_characters
    with SegmentWriting(writer) as writing:
        interrupted_ids = store.chunk_ids([text.document_id], partial=True)
        earlier_chunks = (
            stored_chunks(store, interrupted_ids)
            if older_version is None
            else older_version.chunks()
        )
        segments = SegmentReading(
            opened,
            runtime,
            done=writer.committed_chunks,
            older_version=older_version,
            earlier_chunks=earlier_chunks,
            segment_chunks=SEGMENT_CHUNKS,
        )
        with contextlib.closing(iter(segments)) as coming:
            for segment in coming:
                if segment.chunks[0].start != at:
                    raise Changed
                at = segment.end
                if segment.reusable and older_version is not None:
                    writing.adopt(older_version.document_id, segment.texts)
                else:
                    batch = read_chunks(runtime, segment.warm_up, segment.chunks)
                    writing.append(batch, segment.texts)
                    done += segment.tokens
                if progress is not None:
                    seconds = time.monotonic() - started
                    progress(IngestProgress(name, at, text.characters, done, seconds))
        writing.wait()
        if segments.digest != text.digest or at != text.characters:
            raise Changed
        return writer.finish(places=segments.places, origins=text.origins, created=text.created)


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
    own_rows = slice(len(warm_up), None)  # without the warm-up
    return ChunkBatch(
        ids=ids[own_rows].masked_fill(~valid[own_rows], 0).int(),
        starts=table([c.starts for c in batch], size),
        ends=table([c.ends for c in batch], size),
        lengths=torch.tensor([len(c.ids) for c in batch], dtype=torch.int32),
        keys=memory.keys,
        values=memory.values,
        landmarks=memory.landmarks,
    )
