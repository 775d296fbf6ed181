"""Read one document into a library: text, chunks, lower stack and encoder, store; resumable.

Only the lower stack and the encoder run, on segments of chunks with the warm-up that the window
needs, so the result does not depend on where segments begin. Three stages overlap, each at most
one segment ahead of the next: a thread reads and tokenises, the caller's computes, a thread writes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType

import torch

from drt_engine.documents import Block, OpenDocument, Source, open_document
from drt_engine.documents.source_map import OLD_PARAMETER, SourceMap
from drt_engine.errors import EmptyDocument, StoreError, UnreadableDocument
from drt_engine.ingest.older import Older, stored_chunks, table
from drt_engine.ingest.segment import Chunk, Segmenter
from drt_engine.results import IngestProgress
from drt_engine.runtime import Runtime
from drt_engine.store import ChunkBatch, ChunkText, DocumentRow, Store
from drt_engine.store.segments.writer import DocumentWriter
from drt_engine.text.tokenizer import Tokenizer
from drt_engine.threads import worker

SEGMENT_CHUNKS = 256
_KEPT_SEGMENTS = 4  # taken over together: as many chunks as a file may have
_READERS = "3:"  # to be raised when a reader gives another text for the same bytes

Opened = Callable[[], AbstractContextManager[OpenDocument]]


Progress = Callable[[IngestProgress], None]
Skipped = Callable[[tuple[str, ...]], None]
Described = Callable[[str, str], None]


def ingest_source(
    runtime: Runtime,
    store: Store,
    source: Source,
    *,
    progress: Progress | None = None,
    skipped: Skipped | None = None,
    described: Described | None = None,
) -> tuple[DocumentRow, bool]:
    """Read a document into the library unless its text is there; return it and whether it is new.

    ``skipped`` is told what the reader passed over and why, if anything and if the file was opened;
    ``described`` then gets the document's author and date as it names them.
    Raises ``DocumentError`` when the document cannot be read, ``StoreError`` when the library
    cannot be written.
    """
    digest = _digest(source)
    known = _unchanged(store, source, digest)
    if known is not None:
        return known, False
    text = _identify(source, runtime.tokenizer)
    if skipped is not None and text.skipped:
        skipped(text.skipped)
    if described is not None:
        described(text.author, text.date)
    place = source.location if source.path is not None else f"{source.name} {text.document_id}"
    row, new = _ingest(runtime, store, source, text=text, place=place, progress=progress)
    if digest is not None and row.source == place and digest == _digest(source):
        store.note_source(place, digest, row.id)
    return row, new


def _digest(source: Source) -> str | None:
    """Return SHA-256 of a file's or a member's bytes.

    None for what has no path or cannot be read.
    """
    if source.path is None:
        return None
    try:
        with source.open() as file:
            return _READERS + hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _unchanged(store: Store, source: Source, digest: str | None) -> DocumentRow | None:
    """Return the document that a file with these bytes gave, if it still stands there: no need to
    parse.
    """
    noted = store.source_digest(source.location) if digest is not None else None
    if noted is None or noted[0] != digest:
        return None
    known = store.document_by_id(noted[1])
    return known if known is not None and known.source == source.location else None


def _ingest(
    runtime: Runtime,
    store: Store,
    source: Source,
    *,
    text: DocumentText,
    place: str,
    progress: Progress | None,
) -> tuple[DocumentRow, bool]:
    known = store.document_by_id(text.document_id)
    if known is not None:
        _expect_same_text(store, known, text)
        return _placed(store, known, place), False
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


def _expect_same_text(store: Store, known: DocumentRow, text: DocumentText) -> None:
    """Refuse a text that has the id of another one; 64 bits can be made to collide."""
    if store.text_digest(known.id) != text.digest:
        raise StoreError(
            f"the library holds another text with the id {known.id} ({known.title!r}): remove it"
            " with `drt library remove`, and read this document again"
        )


@dataclass(frozen=True)
class DocumentText:
    """What is known of a document before it is read; ``created`` is when, now by default.

    ``skipped`` says what its reader passed over and why; ``origins`` leads from the text to its
    file, as ``source_map`` makes it.
    """

    digest: str  # SHA-256 of the text
    characters: int
    title: str
    media_type: str
    created: str | None = None
    skipped: tuple[str, ...] = ()
    origins: Sequence[tuple[int, str]] = ()
    author: str = ""
    date: str = ""

    @property
    def document_id(self) -> str:
        """The document's identity."""
        return self.digest[:16]


class Changed(Exception):
    """The second pass over a document found another text than the first."""


class _Stopped(Exception):
    """Reading goes on for nobody: the caller has left."""


class _Hashed:
    """Blocks that are hashed as they pass, until ``stop``."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        self._blocks, self._digest = blocks, hashlib.sha256()
        self._stopped = False

    def __iter__(self) -> Iterator[Block]:
        for block in self._blocks:
            if self._stopped:
                raise _Stopped
            self._digest.update(block.text.encode("utf-8"))
            yield block

    def stop(self) -> None:
        """Let no more blocks pass; callable from another thread."""
        self._stopped = True

    @property
    def digest(self) -> str:
        """SHA-256 of the text, once all blocks have passed."""
        return self._digest.hexdigest()


def _identify(source: Source, tokenizer: Tokenizer) -> DocumentText:
    """Read the text once to know its hash and length, before anything is written."""
    characters, words, origins = 0, False, SourceMap()
    with open_document(source) as document:
        blocks = _Hashed(document.blocks)
        for block in blocks:
            characters += len(block.text)
            origins.see(block)
            # Some tokenizers give white space tokens, and some drop invisible characters.
            words = words or (not block.text.isspace() and len(tokenizer.encode(block.text)) > 0)
    if not words:
        raise EmptyDocument(f"{source.name} holds no words; there is nothing to read")
    return DocumentText(
        blocks.digest,
        characters,
        document.title,
        document.media_type.replace(OLD_PARAMETER, ""),
        skipped=document.skipped,
        origins=origins.groups,
        author=document.author,
        date=document.date,
    )


def _placed(store: Store, known: DocumentRow, place: str) -> DocumentRow:
    """Return a known text was found at ``place``: it replaces what stood there.

    A moved file moves.
    """
    if known.source == place:
        return known
    replaced = store.document_at(place) is not None
    moved = Path(known.source).is_absolute() and not _stands(known.source)
    if not replaced and not moved:
        return known  # a copy of a file that is still there
    store.rename_source(known.id, place)
    return store.document(known.id)


def _stands(source: str) -> bool:
    """Return whether a file is there, or the archive whose member (``ARCHIVE!/MEMBER``) it is."""
    archives = (source[: found.start()] for found in re.finditer("!/", source))
    # Path.exists raises for names that are too long, which members may have.
    return os.path.exists(source) or any(os.path.isfile(archive) for archive in archives)


@dataclass(frozen=True)
class _Segment:
    """Consecutive chunks to read together, after the ``warm_up`` chunks that their window sees.

    ``kept`` says that the document's older version holds the same ones.
    """

    warm_up: list[Chunk]
    chunks: list[Chunk]
    texts: list[ChunkText]
    kept: bool

    @property
    def end(self) -> int:
        """Characters of the document up to here."""
        return self.chunks[-1].start + len(self.chunks[-1].text)

    @property
    def tokens(self) -> int:
        """Tokens of its chunks."""
        return sum(len(c.ids) for c in self.chunks)


class _Segments:
    """The segments of a document that are not in the library yet, read and tokenised one ahead.

    The thread that reads opens and closes the document too, so that nothing is closed under it.
    ``known`` are chunks that the text may begin with: they need no tokenising. ``digest`` and
    ``places`` hold once the last segment was yielded.
    """

    def __init__(
        self,
        opened: Opened,
        runtime: Runtime,
        *,
        done: int,
        older: Older | None,
        known: Iterable[Chunk],
    ) -> None:
        self._opened, self._done, self._older, self._known = opened, done, older, known
        self._size = runtime.config.chunk
        self._warm_up = runtime.config.warm_up_chunks
        self._segmenter = Segmenter(runtime.tokenizer, runtime.config.chunk)
        self._blocks = _Hashed(())

    @property
    def digest(self) -> str:
        """SHA-256 of the text as this reading found it."""
        return self._blocks.digest

    @property
    def places(self) -> list[tuple[int, int | None, str | None]]:
        """Start, page and section wherever they change."""
        return self._segmenter.places

    def __iter__(self) -> Generator[_Segment, None, None]:
        segments = self._read()
        thread = worker("drt-read")
        try:
            coming = thread.submit(next, segments, None)
            while (segment := coming.result()) is not None:
                coming = thread.submit(next, segments, None)
                yield segment
        finally:
            self._blocks.stop()
            thread.submit(segments.close)
            thread.shutdown()

    def _read(self) -> Generator[_Segment, None, None]:
        with self._opened() as document:
            self._blocks = _Hashed(document.blocks)
            chunks = self._segmenter.chunks(self._blocks, self._known)
            at = self._done
            # Those in the library pass by, since the hash is of the whole text.
            before = deque(islice(chunks, self._done), maxlen=max(self._warm_up, 1))
            while batch := list(islice(chunks, self._reach(at))):
                for part, kept in self._split(batch, at):
                    warm_up = list(before)[-self._warm_up :] if self._warm_up else []
                    yield _Segment(warm_up, part, _texts(part, self._segmenter), kept)
                    before.extend(part)
                at += len(batch)

    def _reach(self, first: int) -> int:
        """Return how many chunks to take from ``first`` on, which may be inside a segment.

        There an interrupted reading goes on that had taken over a part of one.
        """
        kept = self._older is not None and self._older.reaches(first)
        return SEGMENT_CHUNKS * (_KEPT_SEGMENTS if kept else 1) - first % SEGMENT_CHUNKS

    def _split(self, batch: list[Chunk], first: int) -> Iterator[tuple[list[Chunk], bool]]:
        """Yield the chunks that the older version holds, with True.

        Then those to read, by segments.
        """
        shared = self._older.shared(batch, first, self._size) if self._older is not None else 0
        if shared:
            yield batch[:shared], True
        begin = shared
        while begin < len(batch):
            end = begin + SEGMENT_CHUNKS - (first + begin) % SEGMENT_CHUNKS
            yield batch[begin:end], False
            begin = end


class _Writing:
    """Writes one segment in a thread while the caller computes the next.

    Leaving waits for what was handed over and closes the writer in the same thread, so that the
    library stays locked until the last byte is written however often the caller is interrupted.
    """

    def __init__(self, writer: DocumentWriter) -> None:
        self._writer = writer
        self._thread = worker("drt-write")
        self._pending: Future[None] | None = None

    def __enter__(self) -> _Writing:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._thread.submit(self._writer.close)
        self._thread.shutdown()

    def append(self, batch: ChunkBatch, texts: Sequence[ChunkText]) -> None:
        """Take the next segment once the one before it is written; raises what that one raised."""
        self.wait()
        self._pending = self._thread.submit(self._writer.append, batch, texts)

    def adopt(self, document_id: str, texts: Sequence[ChunkText]) -> None:
        """Take the next segment over from another document, in the same way."""
        self.wait()
        self._pending = self._thread.submit(self._writer.adopt, document_id, texts)

    def wait(self) -> None:
        """Return when all is written; raises what the writing raised."""
        if self._pending is not None:
            self._pending.result()


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
    older = store.document_at(place)
    kept = (
        None
        if older is None
        else Older(store, older.id, block=runtime.block_chunks, segment=SEGMENT_CHUNKS)
    )
    writer = store.begin_document(
        document_id=text.document_id, title=text.title, source=place, media_type=text.media_type
    )
    at = writer.committed_characters
    with _Writing(writer) as writing:
        own = store.chunk_ids([text.document_id], partial=True)  # of an interrupted reading
        known = stored_chunks(store, own) if kept is None else kept.chunks()
        segments = _Segments(opened, runtime, done=writer.committed_chunks, older=kept, known=known)
        with contextlib.closing(iter(segments)) as coming:
            for segment in coming:
                if segment.chunks[0].start != at:
                    raise Changed
                at = segment.end
                if segment.kept and kept is not None:
                    writing.adopt(kept.document_id, segment.texts)
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
    kept = slice(len(warm_up), None)
    return ChunkBatch(
        ids=ids[kept].masked_fill(~valid[kept], 0).int(),
        starts=table([c.starts for c in batch], size),
        ends=table([c.ends for c in batch], size),
        lengths=torch.tensor([len(c.ids) for c in batch], dtype=torch.int32),
        keys=memory.keys,
        values=memory.values,
        landmarks=memory.landmarks,
    )


def _texts(batch: Sequence[Chunk], segmenter: Segmenter) -> list[ChunkText]:
    """Return each chunk's text with the page and section of its first token."""
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
