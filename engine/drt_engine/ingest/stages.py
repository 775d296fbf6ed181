"""The threads around the model: one reads and tokenises a segment ahead, one writes behind it.

Each holds at most one segment, so memory does not grow with the document. Knows no model.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from types import TracebackType

from drt_engine.documents import OpenDocument
from drt_engine.ingest.identity import HashedBlocks
from drt_engine.ingest.older import OlderVersion
from drt_engine.ingest.reading import ReadSegment
from drt_engine.ingest.segment import Chunk, Segmenter
from drt_engine.runtime import Runtime
from drt_engine.store import ChunkText
from drt_engine.store.segments.writer import DocumentWriter
from drt_engine.threads import worker

_REUSED_SEGMENTS = 4  # taken over together: as many chunks as a file may have

Opened = Callable[[], AbstractContextManager[OpenDocument]]


@dataclass(frozen=True)
class ChunkRun:
    """Consecutive chunks to read together, after the ``warm_up`` chunks that their window sees.

    ``reusable`` says that the document's older version holds the same ones.
    """

    warm_up: list[Chunk]
    chunks: list[Chunk]
    texts: list[ChunkText]
    reusable: bool

    @property
    def end(self) -> int:
        """Characters of the document up to here."""
        return self.chunks[-1].start + len(self.chunks[-1].text)

    @property
    def tokens(self) -> int:
        """Tokens of its chunks."""
        return sum(len(c.ids) for c in self.chunks)


class SegmentReading:
    """The segments of a document that are not in the library yet, read and tokenised one ahead.

    The thread that reads opens and closes the document too, so that nothing is closed under it.
    ``earlier_chunks`` are those that the text may begin with: they need no tokenising. ``digest``
    and ``places`` are complete once the last segment was yielded. ``segment_chunks`` is how many
    chunks are computed together.
    """

    def __init__(
        self,
        opened: Opened,
        runtime: Runtime,
        *,
        done: int,
        older_version: OlderVersion | None,
        earlier_chunks: Iterable[Chunk],
        segment_chunks: int,
    ) -> None:
        self._opened, self._done = opened, done
        self._older_version, self._earlier_chunks = older_version, earlier_chunks
        self._segment_chunks = segment_chunks
        self._size = runtime.config.chunk
        self._warm_up = runtime.config.warm_up_chunks
        self._segmenter = Segmenter(runtime.tokenizer, runtime.config.chunk)
        self._blocks = HashedBlocks(())

    @property
    def digest(self) -> str:
        """SHA-256 of the text as it was read this time."""
        return self._blocks.digest

    @property
    def places(self) -> list[tuple[int, int | None, str | None]]:
        """Start, page and section wherever they change."""
        return self._segmenter.places

    def __iter__(self) -> Generator[ChunkRun, None, None]:
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

    def _read(self) -> Generator[ChunkRun, None, None]:
        with self._opened() as document:
            self._blocks = HashedBlocks(document.blocks)
            chunks = self._segmenter.chunks(self._blocks, self._earlier_chunks)
            at = self._done
            # Those in the library pass by, since the hash is of the whole text.
            before = deque(islice(chunks, self._done), maxlen=max(self._warm_up, 1))
            while batch := list(islice(chunks, self._reach(at))):
                for part, reusable in self._split(batch, at):
                    warm_up = list(before)[-self._warm_up :] if self._warm_up else []
                    yield ChunkRun(warm_up, part, chunk_texts(part, self._segmenter), reusable)
                    before.extend(part)
                at += len(batch)

    def _reach(self, first: int) -> int:
        """Return how many chunks to take from ``first`` on, which may be inside a segment.

        There an interrupted reading goes on that had taken over a part of one.
        """
        reusable = self._older_version is not None and self._older_version.reaches(first)
        return (
            self._segment_chunks * (_REUSED_SEGMENTS if reusable else 1)
            - first % self._segment_chunks
        )

    def _split(self, batch: list[Chunk], first: int) -> Iterator[tuple[list[Chunk], bool]]:
        """Yield the chunks that the older version holds, with True, then those to read, with False.

        Those to read come by segments.
        """
        shared = (
            self._older_version.shared(batch, first, self._size)
            if self._older_version is not None
            else 0
        )
        if shared:
            yield batch[:shared], True
        begin = shared
        while begin < len(batch):
            end = begin + self._segment_chunks - (first + begin) % self._segment_chunks
            yield batch[begin:end], False
            begin = end


class SegmentWriting:
    """Writes one segment in a thread while the caller computes the next.

    Leaving waits for what was handed over and closes the writer in the same thread, so that the
    library stays locked until the last byte is written however often the caller is interrupted.
    """

    def __init__(self, writer: DocumentWriter) -> None:
        self._writer = writer
        self._thread = worker("drt-write")
        self._pending: Future[None] | None = None

    def __enter__(self) -> SegmentWriting:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._thread.submit(self._writer.close)
        self._thread.shutdown()

    def write(self, segment: ReadSegment, older_id: str | None) -> None:
        """Take the next segment once the one before it is written; raises what that one raised.

        One without memory is taken over from the document ``older_id``.
        """
        self.wait()
        self._pending = self._thread.submit(write_segment, self._writer, segment, older_id)

    def wait(self) -> None:
        """Return when all is written; raises what the writing raised."""
        if self._pending is not None:
            self._pending.result()


def write_segment(writer: DocumentWriter, segment: ReadSegment, older_id: str | None) -> None:
    """Store a segment, computed here or elsewhere, or the older version's."""
    memory = segment.memory
    if isinstance(memory, bytearray):
        writer.append_encoded(memory, segment.texts)
    elif memory is not None:
        writer.append(memory, segment.texts)
    else:
        assert older_id is not None
        writer.adopt(older_id, segment.texts)


def chunk_texts(batch: Sequence[Chunk], segmenter: Segmenter) -> list[ChunkText]:
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
