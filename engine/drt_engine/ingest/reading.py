"""What the writer of a library asks of a document's reading, wherever it is computed.

``pipeline.SourceHere`` reads in this process, ``parallel.SourceElsewhere`` in another one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Protocol

from drt_engine.ingest.identity import DocumentText
from drt_engine.results import IngestProgress
from drt_engine.store import ChunkBatch, ChunkText
from drt_engine.store.view import LibraryView

Progress = Callable[[IngestProgress], None]


@dataclass(frozen=True)
class Start:
    """Where the reading of a document begins, and whose chunks may be taken over.

    ``chunks`` of it are in the library already; ``older_id`` is the version at its place.
    """

    document_id: str
    chunks: int = 0
    older_id: str | None = None


@dataclass(frozen=True)
class ReadSegment:
    """Consecutive chunks of a document, and what is stored of them.

    ``memory`` is what the model made of them, or the bytes of their segment file; None where the
    document's older version has it. ``tokens`` counts those that were computed.
    """

    texts: list[ChunkText]
    tokens: int
    memory: ChunkBatch | bytearray | None = None

    @property
    def start(self) -> int:
        """The first character of the document."""
        return self.texts[0].start

    @property
    def end(self) -> int:
        """Characters of the document up to here."""
        return self.texts[-1].start + len(self.texts[-1].text)


class DocumentReading(Protocol):
    """The segments of a document; digest and places are complete after the last one."""

    @property
    def text_digest(self) -> str: ...
    @property
    def places(self) -> Sequence[tuple[int, int | None, str | None]]: ...
    def segments(self) -> Generator[ReadSegment, None, None]: ...


class SourceReading(Protocol):
    """A source that is identified, and then read from where the library says.

    ``digest`` is its file's before, ``digest_after`` that after it was read.
    """

    @property
    def name(self) -> str: ...
    @property
    def digest(self) -> str | None: ...
    def identify(self, progress: Progress | None = None) -> DocumentText: ...
    def read(self, library: LibraryView, start: Start) -> DocumentReading: ...
    def digest_after(self) -> str | None: ...
