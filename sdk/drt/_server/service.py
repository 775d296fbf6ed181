"""What all routes share: the library, the model, the two threads, and the limits."""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.requests import Request

from .metrics import Metrics
from .questions import Questions

if TYPE_CHECKING:
    from .._assistant import Assistant
    from .._library import Library
    from .options import ServeOptions


UNUSED_SECONDS = 24 * 3600.0  # after which no server is still reading an upload


@dataclass
class Service:
    """One library that is served.

    ``assistant`` answers in the thread of ``questions``; ``writer`` reads uploads and removes
    documents in a thread of its own, so that a long document delays no question. Both use the same
    loaded model. In the threads of ``writers`` language models of others are waited for.
    """

    assistant: Assistant
    options: ServeOptions
    metrics: Metrics = field(default_factory=Metrics)
    writing: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="drt-write")
    )
    writer: Assistant | None = None
    writers: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(8, thread_name_prefix="drt-writer")
    )

    def __post_init__(self) -> None:
        self.questions = Questions(self.assistant, limit=self.options.queue)
        self.metrics.watch_queue(lambda: self.questions.waiting)

    @property
    def library(self) -> Library:
        """The library without its model; its calls open it anew and may come from any thread."""
        return self.assistant.library

    @property
    def model_name(self) -> str:
        """The name of the loaded model."""
        return self.assistant._model_name()  # noqa: SLF001  both are the SDK's own

    @property
    def uploads(self) -> Path:
        """The folder of files that are being received; a document's source names it."""
        path = self.library.path.absolute()
        return path.with_name(f"{path.name}.uploads")

    def load(self) -> None:
        """Load the model, and open the library or make it, where that is not done."""
        if self.writer is None:
            self.writer = self.assistant._sibling()  # noqa: SLF001  both are the SDK's own
            self._delete_uploads(older_than=time.time() - UNUSED_SECONDS)

    def close(self) -> None:
        """Let running work end, and close the library; may take as long as reading a document."""
        self.questions.close()
        self.writing.shutdown(cancel_futures=True)
        self.writers.shutdown(cancel_futures=True)
        if self.writer is not None:
            self.writer.close()
        self._delete_uploads(older_than=0)

    def _delete_uploads(self, *, older_than: float) -> None:
        """Delete files that a killed server left, and the folder if it is empty then."""
        if not self.uploads.is_dir():
            return
        for path in self.uploads.iterdir():
            if path.lstat().st_mtime < older_than:
                path.unlink()
        with contextlib.suppress(OSError):
            self.uploads.rmdir()


def service_of(request: Request) -> Service:
    """Return the service of the application that got a request."""
    service = request.app.state.service
    assert isinstance(service, Service)
    return service
