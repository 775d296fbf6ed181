"""A process that reads and computes documents for the one that writes the library.

Started by ``parallel`` as ``python -m drt_engine.ingest.worker SETTINGS`` with the model, and told
by frames on standard input what to read; the end of standard input means that the writer is gone.
It opens a library only to look what may be taken over from it, and never writes to one.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any

from drt_engine.documents import Source
from drt_engine.documents.limits import Budget
from drt_engine.errors import EngineError
from drt_engine.ingest.frames import Frame, read_frame, send_frame
from drt_engine.ingest.pipeline import SourceHere
from drt_engine.ingest.reading import Progress, ReadSegment, Start
from drt_engine.results import IngestProgress
from drt_engine.runtime import Runtime
from drt_engine.store import ChunkBatch, RecordLayout, Store
from drt_engine.store.segments.format import SegmentHeader
from drt_engine.store.segments.writer import encode_segment

_PAGES_SECONDS = 0.1  # between two numbers of pages that the writer is told


class Requests:
    """What the writer asks for, received while a document is computed."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._frames: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        threading.Thread(target=self._receive, daemon=True).start()

    def _receive(self) -> None:
        """Take frames until the writer is gone, and end this process then, whatever it does."""
        with contextlib.suppress(EOFError):
            while True:
                self._frames.put(read_frame(self._file))
        os._exit(0)

    def next(self) -> dict[str, Any]:
        """Wait for the next request."""
        return self._frames.get()[0]

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes of a file up to an empty piece."""
        while piece := self._frames.get()[1]:
            yield bytes(piece)


class Worker:
    """Serves requests with a loaded model, one document after the other."""

    def __init__(self, runtime: Runtime, requests: Requests, output: int) -> None:
        self._runtime, self._requests, self._output = runtime, requests, output

    def serve(self) -> None:
        """Read documents until this process is ended."""
        while True:
            source = self._source(self._requests.next())
            try:
                self._read(source)
            except EngineError as error:
                self._send(error=type(error).__name__, message=str(error), **_costs(source))
            finally:
                source.close()

    def _source(self, request: dict[str, Any]) -> Source:
        path = None if request["path"] is None else Path(request["path"])
        left = request["budget"]
        budget = None if left is None else Budget.of_member(request["name"], **left)
        if request["on_disk"]:
            return replace(Source(path, request["name"]), budget=budget)
        return Source.from_pieces(self._requests.pieces(), request["name"], path, budget)

    def _read(self, source: Source) -> None:
        """Identify a document, and compute it from where the writer says, if it says so."""
        reading = SourceHere(self._runtime, source)
        text = reading.identify(self._say_pages())
        self._send(identified=asdict(text), **_costs(source))
        request = self._requests.next()
        if request["start"] is None:
            return
        start, layout = Start(**request["start"]), RecordLayout(**request["layout"])
        with contextlib.ExitStack() as stack:
            library = None
            if request["library"] is not None:
                library = stack.enter_context(Store.open(Path(request["library"])))
            document = reading.read(library, start)
            at = start.chunks
            for segment in document.segments():
                self._send_segment(segment, SegmentHeader(layout, text.document_id, at, 0))
                at += len(segment.texts)
        self._send(
            text_digest=document.text_digest,
            places=document.places,
            digest_after=reading.digest_after(),
            **_costs(source),
        )

    def _say_pages(self) -> Progress:
        """Return what tells the writer how many pages are parsed, now and then."""
        told = -math.inf

        def say(step: IngestProgress) -> None:
            nonlocal told
            if step.seconds - told >= _PAGES_SECONDS:
                told = step.seconds
                self._send(page=step.page, pages=step.pages, seconds=step.seconds)

        return say

    def _send_segment(self, segment: ReadSegment, header: SegmentHeader) -> None:
        texts = [[t.start, t.text, t.page, t.section] for t in segment.texts]
        data = bytearray()
        if isinstance(segment.memory, ChunkBatch):
            data = encode_segment(replace(header, chunks=len(texts)), segment.memory)
        send_frame(self._output, {"texts": texts, "tokens": segment.tokens}, data)

    def _send(self, **message: Any) -> None:
        send_frame(self._output, message)


def _costs(source: Source) -> dict[str, Any]:
    """Return what of its archive's budget a document took, and all computing of this process."""
    times = os.times()
    spent = None if source.budget is None else source.budget.take_spent()
    return {"cpu_seconds": sum(times[:4]), "spent": spent}


def main() -> None:
    """Load the model, say so, and serve; a failure is a frame."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the writer decides what Ctrl-C ends
    if hasattr(signal, "SIGPIPE"):  # not on Windows
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    output = os.dup(1)
    os.dup2(sys.stderr.fileno(), 1)  # where no library can print between the frames
    settings = json.loads(sys.argv[1])
    requests = Requests(os.fdopen(0, "rb"))
    try:
        began = time.monotonic()
        runtime = Runtime.load(Path(settings.pop("model")), **settings)
        send_frame(output, {"ready": runtime.fingerprint, "seconds": time.monotonic() - began})
        Worker(runtime, requests, output).serve()
    except EngineError as error:
        send_frame(output, {"error": type(error).__name__, "message": str(error)})
    except Exception:  # a mistake of the program, which the writer reports as its own
        send_frame(output, {"mistake": traceback.format_exc()})


if __name__ == "__main__":
    main()
    os._exit(0)
