"""Several processes read and compute documents ahead of the one that writes the library.

``Workers`` starts them, hands sources out in order, and gives each back as a ``SourceReading`` when
its turn to be written comes: the library is the same, whoever computed. What a worker began with is
compared with the library at that turn; where it is another, this process reads the document itself.
"""

from __future__ import annotations

import os
import queue
import threading
from collections import Counter, deque
from collections.abc import Generator, Iterator
from dataclasses import asdict, replace
from types import TracebackType
from typing import Any, Self

from drt_engine.documents import Source
from drt_engine.errors import ConfigError, DocumentError, UnreadableDocument
from drt_engine.ingest.elsewhere import SourceElsewhere
from drt_engine.ingest.identity import DocumentText, unchanged_document
from drt_engine.ingest.pipeline import SourceHere, place_of
from drt_engine.ingest.reading import ReadSegment, SourceReading, Start
from drt_engine.ingest.worker_process import WorkerEnded, WorkerProcess
from drt_engine.runtime import Runtime
from drt_engine.store import ChunkText, Store

_AHEAD = 2  # documents for each worker beyond the one that is being written
_ATTEMPTS = 2  # workers that one document may cost
_PIECE = 1 << 20

Turn = tuple[Source | DocumentError, SourceReading | None]


class Workers:
    """Processes with the model loaded; close them, or use them as a context manager.

    They are started when documents come that the library does not have. Each computes on
    ``threads`` threads. ``cpu_seconds`` are what each has used so far, their readers included.
    """

    def __init__(self, runtime: Runtime, count: int, *, threads: int = 1) -> None:
        if count < 1:
            raise ConfigError(f"workers is {count}, expected 1 or more")
        self._runtime, self._count, self._threads = runtime, count, threads
        self._jobs: queue.SimpleQueue[tuple[Store, SourceElsewhere] | None] = queue.SimpleQueue()
        self._drivers: list[threading.Thread] = []
        self._running: dict[int, WorkerProcess] = {}  # by the number of their drivers
        self._guard = threading.Lock()
        self._document_ids: Counter[str] = Counter()  # of documents that are not written yet
        self._is_closed = False
        self.cpu_seconds: dict[int, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all workers at once, whatever they do, and wait for their end."""
        with self._guard:
            self._is_closed = True
            for worker in self._running.values():
                worker.kill()
        for _ in self._drivers:
            self._jobs.put(None)
        for driver in self._drivers:
            driver.join()

    def readings(
        self, store: Store, sources: Iterator[Source | DocumentError]
    ) -> Generator[Turn, None, None]:
        """Yield sources in their order, each with its reading, which workers are ahead with.

        Errors among the sources, and what the library has unchanged, come without one.
        """
        ahead: deque[Turn] = deque()
        try:
            while True:
                while len(ahead) <= _AHEAD * self._count:
                    source = next(sources, None)
                    if source is None:
                        break
                    ahead.append((source, self._begin(store, source)))
                if not ahead:
                    return
                source, reading = ahead[0]
                yield source, reading
                ahead.popleft()
                self._finish(reading)
        finally:
            for source, reading in ahead:
                self._finish(reading)
                if isinstance(source, Source):
                    source.close()

    def _begin(self, store: Store, source: Source | DocumentError) -> SourceReading | None:
        if not isinstance(source, Source):
            return None
        local_source = SourceHere(self._runtime, source)
        if unchanged_document(store, source, local_source.digest) is not None:
            return local_source
        reading = SourceElsewhere(local_source, source)
        self._jobs.put((store, reading))
        if len(self._drivers) < self._count:
            number = len(self._drivers)
            driver = threading.Thread(
                target=self._drive, args=(number,), name=f"drt-worker-{number}", daemon=True
            )
            self._drivers.append(driver)
            driver.start()
        return reading

    def _finish(self, reading: SourceReading | None) -> None:
        if isinstance(reading, SourceElsewhere):
            reading.close()
            with self._guard:
                if reading.text is not None:
                    self._document_ids[reading.text.document_id] -= 1

    # one thread for each worker

    def _drive(self, number: int) -> None:
        """Let a worker read one source after the other."""
        while (job := self._jobs.get()) is not None and not self._is_closed:
            store, reading = job
            if reading.is_closed:
                continue
            try:
                self._read(number, store, reading)
            except BaseException as error:  # raised where the document's turn comes
                reading.put(error)
        if number in self._running:
            self._discard(number)

    def _read(self, number: int, store: Store, reading: SourceElsewhere) -> None:
        """Let a worker read a document, and another one go on where that ended."""
        how = ""
        for _ in range(_ATTEMPTS):
            try:
                return self._converse(self._worker(number), store, reading)
            except WorkerEnded as ended:
                how = str(ended)
                self._discard(number)
                if self._is_closed:
                    return None
        raise UnreadableDocument(
            f"{reading.name} cannot be read (the process that read it ended {_ATTEMPTS} times, the"
            f" last time {how}); there may be too little memory for {self._count} workers: read it"
            " again with fewer."
        )

    def _worker(self, number: int) -> WorkerProcess:
        """Return the worker of a driver, started anew where there is none."""
        with self._guard:
            worker = self._running.get(number)
            if worker is not None or self._is_closed:
                return worker or _ended()
            worker = self._running[number] = WorkerProcess(self._runtime, self._threads)
        try:
            message, _ = worker.receive()
        except WorkerEnded as ended:
            if self._is_closed:
                raise
            raise ConfigError(
                f"a worker ended {ended} while it loaded the model; there may be too little memory"
                f" for {self._count} workers: use fewer"
            ) from None
        if message["ready"] != self._runtime.fingerprint:
            raise ConfigError(
                f"the model in {self._runtime.folder} was changed while it was in use: begin again"
            )
        return worker

    def _discard(self, number: int) -> None:
        with self._guard:
            worker = self._running.pop(number, None)
        if worker is not None:
            worker.close()

    def _converse(self, worker: WorkerProcess, store: Store, reading: SourceElsewhere) -> None:
        """Have a document read from its start, or from where an ended worker left it."""
        self._request(worker, reading.source)
        while "page" in (message := self._receive(worker, reading)[0]):
            reading.parsed = (message["page"], message["pages"], message["seconds"])
        text = _document_text(message["identified"])
        start = self._begin_at(store, text, reading)
        is_known = start is not None and (start.chunks > 0 or start.older_id is not None)
        worker.send(
            {
                "start": None if start is None else asdict(start),
                "layout": asdict(store.layout or self._runtime.layout),
                "library": os.fspath(store.path.resolve()) if is_known else None,
            }
        )
        if start is None:
            return
        while "texts" in (frame := self._receive(worker, reading))[0]:
            texts = [ChunkText(*values) for values in frame[0]["texts"]]
            reading.put(ReadSegment(texts, frame[0]["tokens"], frame[1] or None))
            reading.chunks += len(texts)
        reading.put(frame[0])

    def _request(self, worker: WorkerProcess, source: Source) -> None:
        """Ask a worker to identify a source, whose bytes it gets where they are not on disk."""
        worker.send(
            {
                "path": None if source.path is None else os.fspath(source.path.absolute()),
                "name": source.name,
                "on_disk": source.on_disk,
                "budget": None if source.budget is None else source.budget.left(),
            }
        )
        if not source.on_disk:
            with source.open() as file:
                while piece := file.read(_PIECE):
                    worker.send({}, piece)
            worker.send({})

    def _receive(self, worker: WorkerProcess, reading: SourceElsewhere) -> tuple[Any, bytearray]:
        """Return the worker's next frame, once its costs are counted."""
        try:
            message, data = worker.receive()
        finally:
            self.cpu_seconds[worker.pid] = worker.cpu_seconds
        budget = reading.source.budget
        if budget is not None and message.get("spent"):
            with self._guard:
                budget.spend(reading.name, **message["spent"])
        return message, data

    def _begin_at(self, store: Store, text: DocumentText, reading: SourceElsewhere) -> Start | None:
        """Return where to begin, None for nothing, and tell the writer what the text is.

        Of a document that a worker left open, after the chunks that it had sent. Nothing where the
        library has the text, or an earlier document of this run that is not written yet.
        """
        if reading.text is None:
            reading.start, reading.text = self._writer_start(store, text, reading.source), text
            reading.put(text)
        elif text != reading.text:  # the writer says that the document changed
            reading.put({"text_digest": text.digest, "places": [], "digest_after": None})
            return None
        start = reading.start
        return None if start is None else replace(start, chunks=start.chunks + reading.chunks)

    def _writer_start(self, store: Store, text: DocumentText, source: Source) -> Start | None:
        """Return where the writer will begin, as far as is known."""
        document_id = text.document_id
        with self._guard:
            self._document_ids[document_id] += 1
            is_copy = self._document_ids[document_id] > 1
        if is_copy or store.document_by_id(document_id) is not None:
            return None
        replaced = store.document_at(place_of(source, text))
        partial = store.partial_documents()
        done = next((row.chunks for row in partial if row.id == document_id), 0)
        return Start(document_id, done, None if replaced is None else replaced.id)


def _ended() -> WorkerProcess:
    raise WorkerEnded("with the others")


def _document_text(values: dict[str, Any]) -> DocumentText:
    """Return the identity that a worker sent."""
    values["skipped"] = tuple(values["skipped"])
    for name in ("origins", "blocks"):
        values[name] = [(start, packed) for start, packed in values[name]]
    return DocumentText(**values)
