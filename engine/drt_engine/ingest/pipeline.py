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
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import cached_property, partial

import torch

from drt_engine.documents import Source, open_document
from drt_engine.errors import StoreError, UnreadableDocument
from drt_engine.ingest.identity import (
    DocumentText,
    complete_author_and_date,
    complete_blocks,
    expect_same_text,
    file_digest,
    identify,
    other_files,
    place_document,
    unchanged_document,
)
from drt_engine.ingest.older import OlderVersion, stored_chunks, table
from drt_engine.ingest.reading import (
    DocumentReading,
    Progress,
    ReadSegment,
    SourceReading,
    Start,
)
from drt_engine.ingest.segment import Chunk
from drt_engine.ingest.stages import ChunkRun, Opened, SegmentReading, SegmentWriting
from drt_engine.progress import note_text, watching_text
from drt_engine.results import IngestProgress
from drt_engine.runtime import Runtime
from drt_engine.store import ChunkBatch, DocumentRow, Store
from drt_engine.store.view import LibraryView

SEGMENT_CHUNKS = 256

Skipped = Callable[[tuple[str, ...]], None]


class Changed(Exception):
    """The second pass over a document found another text than the first."""


def ingest_source(
    runtime: Runtime,
    store: Store,
    source: Source,
    *,
    reading: SourceReading | None = None,
    text: DocumentText | None = None,
    progress: Progress | None = None,
    skipped: Skipped | None = None,
) -> tuple[DocumentRow, bool]:
    """Read a document into the library unless its text is there; return it and whether it is new.

    ``reading`` reads and computes it elsewhere; by default that is done here. ``text`` is what
    ``identify`` returned, if it was called already.
    ``skipped`` is told what the reader passed over and why, if anything and if the file was opened;
    ``described`` then gets the document's author and date as it names them.
    Raises ``DocumentError`` when the document cannot be read, ``StoreError`` when the library
    cannot be written.
    """
    reading = reading or SourceHere(runtime, source)
    digest = reading.digest
    unchanged = unchanged_document(store, source, digest)
    if unchanged is not None:
        return unchanged, False
    text = text or reading.identify(progress)
    if skipped is not None and text.skipped:
        skipped(text.skipped)
    place = place_of(source, text)
    row, new = _ingest(runtime, store, reading, text=text, place=place, progress=progress)
    if digest is not None and digest == reading.digest_after():  # of a copy, too
        store.note_source(place, digest, row.id)
    return row, new


def place_of(source: Source, text: DocumentText) -> str:
    """Return what a library knows a source by: its path, or a name that its text makes unique."""
    return source.location if source.path is not None else f"{source.name} {text.document_id}"


def _ingest(
    runtime: Runtime,
    store: Store,
    reading: SourceReading,
    *,
    text: DocumentText,
    place: str,
    progress: Progress | None,
) -> tuple[DocumentRow, bool]:
    existing = store.document_by_id(text.document_id)
    if existing is not None:
        expect_same_text(store, existing, text)
        existing = complete_author_and_date(store, existing, text)
        complete_blocks(store, existing, text)
        return place_document(store, existing, place), False
    if store.get_setting("model") is None:
        store.set_setting("model", runtime.name)
    read = partial(reading.read, store)
    try:
        row = read_document(
            store, read, text=text, place=place, progress=progress, name=reading.name
        )
    except StoreError:
        read_meanwhile = store.document_by_id(text.document_id)  # by the process we waited for
        if read_meanwhile is None:
            raise
        return place_document(store, read_meanwhile, place), False
    except Changed:
        # What was read of it has no text that it could be checked against.
        store.remove_document(text.document_id)
        raise UnreadableDocument(
            f"{reading.name} changed while it was read; read it again once it is written"
        ) from None
    return row, True


def read_document(
    store: Store,
    read: Callable[[Start], DocumentReading],
    *,
    text: DocumentText,
    place: str,
    name: str,
    progress: Progress | None,
) -> DocumentRow:
    """Read a document that the library has not, or go on where its reading stopped.

    What its version at ``place`` holds already is taken over up to the first changed block.
    Raises ``Changed`` when ``read`` gives another text than ``text`` says.
    """
    started, done = time.monotonic(), 0
    row_at_place = store.document_at(place)
    older_id = None if row_at_place is None else row_at_place.id
    writer = store.begin_document(
        document_id=text.document_id,
        title=text.title,
        source=place,
        media_type=text.media_type,
        author=text.author,
        date=text.date,
    )
    at = writer.committed_characters

    def show(character: int, tokens: int) -> None:
        if progress is not None:
            seconds = time.monotonic() - started
            progress(IngestProgress(name, character, text.characters, tokens, seconds))

    with (
        SegmentWriting(writer) as writing,
        watching_text(lambda character, tokens: show(character, done + tokens)),
    ):
        reading = read(Start(text.document_id, writer.committed_chunks, older_id))
        with contextlib.closing(reading.segments()) as coming:
            for segment in coming:
                if segment.start != at:
                    raise Changed
                at = segment.end
                writing.write(segment, older_id)
                done += segment.tokens
                show(at, done)
        writing.wait()
        if reading.text_digest != text.digest or at != text.characters:
            raise Changed
        return writer.finish(
            places=reading.places,
            origins=text.origins,
            blocks=text.blocks,
            created=text.created,
            copies=[] if older_id is None else other_files(store, older_id, place),
        )


class SourceHere:
    """A source that is read and computed by this process."""

    def __init__(self, runtime: Runtime, source: Source) -> None:
        self._runtime, self._source = runtime, source
        self.name = source.name

    @cached_property
    def digest(self) -> str | None:
        """The digest of the file as it was at first."""
        return file_digest(self._source)

    def identify(self, progress: Progress | None = None) -> DocumentText:
        """Read the text once to know its hash and length; raises ``DocumentError``."""
        return identify(self._source, self._runtime.tokenizer, progress)

    def read(self, library: LibraryView | None, start: Start) -> ReadingHere:
        """Return the document's segments from ``start`` on; ``library`` is None if it has none."""
        return ReadingHere(self._runtime, library, partial(open_document, self._source), start)

    def digest_after(self) -> str | None:
        """Return the digest of the file as it is now."""
        return file_digest(self._source)


class ReadingHere:
    """The segments of a document, read and computed by this process.

    ``library`` is None where it holds neither a part of the document nor an older version.
    """

    def __init__(
        self, runtime: Runtime, library: LibraryView | None, opened: Opened, start: Start
    ) -> None:
        self._runtime = runtime
        older_version: OlderVersion | None = None
        earlier_chunks: Iterable[Chunk] = ()
        if library is not None and start.older_id is not None:
            older_version = OlderVersion(
                library, start.older_id, block=runtime.block_chunks, segment=SEGMENT_CHUNKS
            )
            earlier_chunks = older_version.chunks()
        elif library is not None:
            interrupted_ids = library.chunk_ids([start.document_id], partial=True)
            earlier_chunks = stored_chunks(library, interrupted_ids)
        self._runs = SegmentReading(
            opened,
            runtime,
            done=start.chunks,
            older_version=older_version,
            earlier_chunks=earlier_chunks,
            segment_chunks=SEGMENT_CHUNKS,
        )

    @property
    def text_digest(self) -> str:
        """SHA-256 of the text as it was read this time, once all segments were yielded."""
        return self._runs.digest

    @property
    def places(self) -> Sequence[tuple[int, int | None, str | None]]:
        """Start, page and section wherever they change, once all segments were yielded."""
        return self._runs.places

    def segments(self) -> Generator[ReadSegment, None, None]:
        """Yield the segments in order; what the older version holds is not computed."""
        with contextlib.closing(iter(self._runs)) as runs:
            for run in runs:
                if run.reusable:
                    yield ReadSegment(run.texts, tokens=0)
                    continue
                note = partial(_note, run)
                memory = read_chunks(self._runtime, run.warm_up, run.chunks, note=note)
                yield ReadSegment(run.texts, tokens=run.tokens, memory=memory)


def _note(run: ChunkRun, chunks: int) -> None:
    """Tell how far a document is read, within a segment."""
    last = run.texts[chunks - 1]
    note_text(last.start + len(last.text), sum(len(chunk.ids) for chunk in run.chunks[:chunks]))


@torch.inference_mode()
def read_chunks(
    runtime: Runtime,
    warm_up: Sequence[Chunk],
    batch: Sequence[Chunk],
    *,
    note: Callable[[int], None] | None = None,
) -> ChunkBatch:
    """Run lower stack and encoder over consecutive chunks; return what is stored of ``batch``.

    ``note`` is called with the number of chunks of it that are read.
    """
    size = runtime.config.chunk
    both = [*warm_up, *batch]
    ids = torch.full((len(both), size), runtime.config.pad_id)
    valid = torch.zeros(len(both), size, dtype=torch.bool)
    for row, chunk in enumerate(both):
        ids[row, : len(chunk.ids)] = torch.tensor(chunk.ids)
        valid[row, : len(chunk.ids)] = True
    memory = runtime.read(ids, valid, skip=len(warm_up), note=note)
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
