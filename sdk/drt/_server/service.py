"""What all routes share: the library, the model, the two threads, and the limits."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.requests import Request

from .. import _engine
from .._errors import DrtError, StorageFullError
from .._paths import uploads_folder
from .metrics import Metrics
from .overload import OverloadedError
from .questions import Questions
from .shared_folder import conversation_lock

if TYPE_CHECKING:
    from .._assistant import Assistant
    from .._library import Library
    from .._types import PageImage
    from .options import ServeOptions
    from .tracing import Tracing


UPLOADS = 32  # received or read at the same time: each may fill the disk with its limit
DRAWINGS = 32  # pages that are drawn or wait for it
UNUSED_SECONDS = 24 * 3600.0  # after which no server is still reading an upload


@dataclass
class Service:
    """One library that is served.

    ``assistant`` answers in a thread of ``questions``, siblings of it in others; ``writer`` reads
    uploads and removes documents in a thread of its own, so that a long document delays no
    question. All use the same loaded model. In the threads of ``writers`` language models of others
    are waited for.
    """

    assistant: Assistant
    options: ServeOptions
    metrics: Metrics = field(default_factory=Metrics)
    tracing: Tracing | None = None
    writing: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="drt-write")
    )
    writer: Assistant | None = None
    drawing: ThreadPoolExecutor = field(  # each picture takes a process
        default_factory=lambda: ThreadPoolExecutor(2, thread_name_prefix="drt-draw")
    )
    writers: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(8, thread_name_prefix="drt-writer")
    )

    def __post_init__(self) -> None:
        self._uploading = 0
        self._drawing = 0
        self._threads = 1  # of the model
        self._local = threading.local()
        self._segment_sizes: dict[Path, tuple[int, int]] = {}  # time of change, bytes
        self.questions = Questions(
            self.assistant,
            limit=self.options.queue,
            max_wait=self.options.max_wait,
            waited=self.metrics.note_wait,
            worked=self.metrics.note_answer,
            refused=self.metrics.count_refused,
            share=self._share,
            alone=self._alone,
            **({} if self.tracing is None else {"done": self.tracing.note_work}),
        )
        self.metrics.watch(
            waiting=lambda: self.questions.waiting,
            clients=lambda: self.questions.clients,
            library_bytes=self.library_bytes,
            free_bytes=self._free_bytes,
        )

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
        """The folder of files that are received, and of kept PDFs; a document's source names it."""
        return uploads_folder(self.library.path)

    @cached_property
    def folder_names(self) -> dict[str, str]:
        """What the folders that the server reads are called outside it, longest path first."""
        names: dict[str, str] = {}
        taken: Counter[str] = Counter()
        for path in (*self.library.paths, *self._folders()):
            forms = {str(path), str(path.absolute()), str(path.resolve())}
            known = names.get(str(path.absolute()))
            if known is None:
                taken[path.name] += 1
                count = taken[path.name]
                known = path.name if count == 1 else f"{path.name} ({count})"
            names |= dict.fromkeys(forms, known)
        return dict(sorted(names.items(), key=lambda item: -len(item[0])))

    def _folders(self) -> list[Path]:
        try:
            return self.library.folders
        except DrtError:  # a list that is gone or damaged
            return []

    def library_bytes(self) -> int:
        """Return the size of the libraries' files; what cannot be read counts 0."""
        total = 0
        for folder in self._folders():
            with contextlib.suppress(OSError):
                total += _engine.folder_bytes(folder) + self._segment_bytes(folder / "segments")
        return total

    def _segment_bytes(self, place: Path) -> int:
        """Return the size of a folder whose files never change, looked at again if it has others.

        It has a file for each of many small documents, and this is asked for every few seconds.
        """
        changed = place.stat().st_mtime_ns
        known = self._segment_sizes.get(place)
        if known is None or known[0] != changed:
            known = self._segment_sizes[place] = (changed, _engine.folder_bytes(place))
        return known[1]

    def _free_bytes(self) -> int:
        place = self.library.path.absolute().parent
        try:
            return shutil.disk_usage(place).free
        except OSError:
            return 0

    def problem(self) -> str | None:
        """Return why questions cannot be answered now, as one word; None where they can."""
        if self.writer is None:
            return "loading"
        if self.questions.expected_wait() > self.options.max_wait:
            return "overloaded"
        try:
            if self.library.several:
                return "library" if self.library.unread_libraries() else None
            self.library.index()  # opens the catalogue and reads a setting
        except DrtError:
            return "library"
        return None

    def expect_space(self) -> None:
        """Raise ``StorageFullError`` where the library is as large as this server allows."""
        limit = self.options.max_library
        if limit is not None and (size := self.library_bytes()) >= limit:
            raise StorageFullError(
                f"the library has {size:,} bytes, and this server takes uploads up to {limit:,};"
                " remove documents, or ask its operator for more."
            )

    @contextlib.contextmanager
    def uploading(self) -> Iterator[None]:
        """Count an upload until it is read; raises ``OverloadedError`` where too many are."""
        if self._uploading >= UPLOADS:
            raise OverloadedError(
                f"{UPLOADS} uploads are being received or read, which is as many as may; send it"
                " again later."
            )
        self._uploading += 1
        try:
            yield
        finally:
            self._uploading -= 1

    async def draw(self, work: Callable[[], PageImage]) -> PageImage:
        """Draw a page in a thread for it; raises ``OverloadedError`` where too many wait."""
        if self._drawing >= DRAWINGS:
            raise OverloadedError(
                f"{DRAWINGS} pages are being drawn or wait for it, which is as many as may; ask for"
                " it again later."
            )
        self._drawing += 1
        job = asyncio.get_running_loop().run_in_executor(self.drawing, work)
        job.add_done_callback(self._note_drawn)  # the work goes on where its client leaves
        return await asyncio.shield(job)

    def _note_drawn(self, job: asyncio.Future[PageImage]) -> None:
        self._drawing -= 1
        if not job.cancelled():
            job.exception()  # which nobody else may ask for, where the client has left

    def load(self) -> None:
        """Load the model, and open the library or make it, where that is not done."""
        if self.writer is None:
            self.writer = self.assistant._sibling()  # noqa: SLF001  both are the SDK's own
            self._use_threads()
            self._delete_uploads(older_than=time.time() - UNUSED_SECONDS)

    def _use_threads(self) -> None:
        """Make as many assistants as answer at the same time, which share the model's threads."""
        opened = self.assistant._opened  # noqa: SLF001  both are the SDK's own
        self._threads = _engine.set_threads(opened.threads).count
        self.writing.submit(_engine.use_threads, self._threads)
        for _ in range(self.options.at_once - 1):
            sibling = self.assistant._sibling()  # noqa: SLF001
            # It may wait long for its next question, and would keep removed documents open.
            self.questions.add(sibling, rest=sibling._opened.release)  # noqa: SLF001

    def _share(self, at_once: int) -> None:
        """Let the thread that calls compute with its share of the threads."""
        threads = max(1, self._threads // at_once)
        if getattr(self._local, "threads", None) != threads:
            _engine.use_threads(threads)
            self._local.threads = threads

    @contextlib.contextmanager
    def _alone(self, session: str) -> Iterator[None]:
        """Answer in a conversation while no other server of the library does."""
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):  # a full disk, a folder of others, a stopped server
                stack.enter_context(conversation_lock(self.uploads, session))
            yield

    def close(self) -> None:
        """Let running work end, and close the library; may take as long as reading a document."""
        self.questions.close()
        self.writing.shutdown(cancel_futures=True)
        self.writers.shutdown(cancel_futures=True)
        self.drawing.shutdown(cancel_futures=True)
        if self.writer is not None:
            self.writer.close()
        for assistant in self.questions.assistants[1:]:
            assistant.close()
        self._delete_uploads(older_than=0)

    def _delete_uploads(self, *, older_than: float) -> None:
        """Delete files that nobody needs any more, and the folder if it is empty then."""
        if not self.uploads.is_dir():
            return
        kept = self._kept_pdfs()
        for path in self.uploads.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another server of the library
                if path not in kept and path.lstat().st_mtime < older_than:
                    path.unlink()
        with contextlib.suppress(OSError):
            self.uploads.rmdir()

    def keep_pdf(self, place: Path) -> bool:
        """Keep an upload to show its pages, if it is a document's PDF; return whether it is kept.

        The oldest kept ones are deleted until all fit into ``keep_pdfs``.
        """
        if place.suffix.lower() != ".pdf":
            return False
        kept = self._kept_pdfs()
        if place not in kept:
            return False
        sizes: list[tuple[int, int, Path]] = []
        for path in kept:
            with contextlib.suppress(FileNotFoundError):  # another server of the library
                sizes.append((path.stat().st_mtime_ns, path.stat().st_size, path))
        total = sum(size for _, size, _ in sizes)
        for _, size, path in sorted(sizes):
            if total > self.options.keep_pdfs:
                path.unlink(missing_ok=True)
                total -= size
        return place.exists()

    def _kept_pdfs(self) -> set[Path]:
        """Return the uploads that are the PDFs of documents; none where this server keeps none."""
        if not self.options.keep_pdfs or self.library.several:
            return set()
        files = self.uploads.glob("*.[pP][dD][fF]")
        pdfs = {path for path in files if path.is_file() and not path.is_symlink()}
        if not pdfs:
            return pdfs
        try:
            documents = self.library.documents() + self.library.removed()
            return pdfs & {Path(document.source) for document in documents}
        except DrtError:  # as long as that cannot be told, nothing is deleted
            return pdfs


def service_of(request: Request) -> Service:
    """Return the service of the application that got a request."""
    service = request.app.state.service
    assert isinstance(service, Service)
    return service
