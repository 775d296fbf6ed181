"""A document that a worker reads ahead of its turn, as the writer of the library sees it.

Between the two stands a short queue of events, so memory does not grow with the document. Knows no
processes.
"""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Generator
from typing import Any, cast

from drt_engine.documents import Source
from drt_engine.ingest.identity import DocumentText
from drt_engine.ingest.pipeline import SourceHere
from drt_engine.ingest.reading import DocumentReading, Progress, ReadSegment, Start
from drt_engine.results import IngestProgress
from drt_engine.store.view import LibraryView

_EVENTS = 3
_POLL = 0.2  # seconds between two looks whether a document is still wanted
_PAGES_POLL = 0.05  # seconds between two looks how many pages are parsed


class SourceElsewhere:
    """A source that a worker reads; where the library is not as it was then, this process does."""

    def __init__(self, here: SourceHere, source: Source) -> None:
        self.here, self.source = here, source
        self.name, self.digest = here.name, here.digest
        self.text: DocumentText | None = None  # once a worker has identified it
        self.start: Start | None = None  # where workers began; None where they compute nothing
        self.chunks = 0  # that were handed over since
        self.parsed = (0, 0, 0.0)  # pages, of how many, in how many seconds
        self.is_closed = False
        self._events: queue.Queue[Any] = queue.Queue(_EVENTS)
        self._digest_after: str | None = None
        self._is_read = False

    # the worker's side

    def put(self, event: Any) -> None:
        """Hand an event over when there is room; without effect once the document is closed."""
        while not self.is_closed:
            with contextlib.suppress(queue.Full):
                return self._events.put(event, timeout=_POLL)

    # the writer's side

    def get(self, seconds: float | None = None) -> Any:
        """Wait for the next event; raises the one that is an error, or ``queue.Empty``."""
        event = self._events.get(timeout=seconds)
        if isinstance(event, BaseException):
            raise event
        return event

    def identify(self, progress: Progress | None = None) -> DocumentText:
        """Return the text that the worker read; raises ``DocumentError``.

        ``progress`` is told the pages that are parsed meanwhile.
        """
        told = self.parsed
        while progress is not None:
            try:
                return cast(DocumentText, self.get(_PAGES_POLL))
            except queue.Empty:
                if self.parsed != told:
                    told = self.parsed
                    page, pages, seconds = told
                    progress(IngestProgress(self.name, 0, 0, 0, seconds, page, pages))
        return cast(DocumentText, self.get())

    def read(self, library: LibraryView, start: Start) -> DocumentReading:
        """Return the segments that the worker computes, if it began at ``start``."""
        if self.start != start:  # an earlier document of this run, or another process
            self.close()
            return self.here.read(library, start)
        return ReadingElsewhere(self)

    def note_end(self, digest_after: str | None) -> None:
        """Keep the digest of the file after it was read."""
        self._digest_after, self._is_read = digest_after, True

    def digest_after(self) -> str | None:
        """Return the digest of the file after it was read."""
        return self._digest_after if self._is_read else self.here.digest_after()

    def close(self) -> None:
        """Take no more events."""
        self.is_closed = True


class ReadingElsewhere:
    """The segments of a document as a worker sends them."""

    def __init__(self, source: SourceElsewhere) -> None:
        self._source = source
        self.text_digest = ""
        self.places: list[tuple[int, int | None, str | None]] = []

    def segments(self) -> Generator[ReadSegment, None, None]:
        """Yield the segments in order; raises what the worker reports."""
        while isinstance(event := self._source.get(), ReadSegment):
            yield event
        self.text_digest = event["text_digest"]
        self.places = [(start, page, section) for start, page, section in event["places"]]
        self._source.note_end(event["digest_after"])
