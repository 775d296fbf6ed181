"""The assistant: reads documents into a library and answers, summarises and converses over it.

Loads the model on first use. Engine work of one assistant is done one call at a time, whichever
thread asks.
"""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from . import _convert, _engine
from ._errors import QuestionError, SessionError, expect_text
from ._filters import filters_of, since_day_or_file
from ._library import Library, document_name
from ._log import QuestionLog
from ._opened.ingestion import Ingestion, checked_tags
from ._opened.library import OpenLibrary, RayCluster
from ._opened.questions import Questions
from ._opened.sharded import ingest_shards
from ._paths import StrPath, listed_paths
from ._session import Session
from ._session_summary import requested_summary
from ._stream import AnswerStream
from ._types import (
    AllAnswers,
    Answer,
    AskOptions,
    AskProgress,
    DocumentInfo,
    IngestReport,
    IngestResult,
    PartOptions,
    Progress,
    SearchOptions,
    SearchResult,
    ShardsProgress,
    Summary,
    SummaryLength,
    SummaryMode,
    Trace,
    WatchEvent,
)
from ._watch import Watch

if TYPE_CHECKING:
    from drt_engine.answer.session import SessionState
    from drt_engine.runtime import Runtime

    from ._opened.library import OpenStore

UNNAMED = "unnamed"  # what the engine calls a conversation until rename() gives it a name


class Assistant:
    """Reads documents and answers questions about them.

    library: folder of the library, created when first needed; ``default_library()`` by default.
        Several folders, or a list file of ``Library.federate``, are asked as one library that has
        all their documents, with the same answers; nothing is read into them.
    model: a model's name or folder. device: "auto", "cpu" or "cuda". threads: CPU threads.
    dtype: type to compute in, "bf16", "fp32", or "auto", which is "bf16" where that is faster;
    "int8" is fp32 with most matrix products in eight bits, on a CPU.
    lock_timeout: seconds to wait for another process that writes to the library.
    log: file of the ``QuestionLog`` that gets every question and its answer; none by default.
    require_all: whether one of several libraries that cannot be read is an error. Otherwise the
        others answer, and ``unread_libraries`` of the answer names it.
    approximate: whether questions and searches of a whole library scan only what its approximate
        index (``Library.make_index``) has near them. ``scan`` of a result says what was scanned.
    ray: address of a Ray cluster (extra ``cluster``), where an actor beside each library looks up
        what a question needs: "local" starts a Ray here, "auto" joins that of this machine, others
        are "HOST:PORT" or "ray://HOST:PORT". The answers are the same; nothing is read into the
        library. deadline: seconds in which an actor answers, 10 by default; the library of one that
        does not is left out as if it could not be read.
    """

    def __init__(
        self,
        library: StrPath | Sequence[StrPath] | None = None,
        *,
        model: StrPath = "drt-small-en",
        device: str = "auto",
        threads: int | None = None,
        dtype: str = "auto",
        lock_timeout: float = 10.0,
        log: StrPath | None = None,
        require_all: bool = False,
        approximate: bool = False,
        ray: str | None = None,
        deadline: float | None = None,
    ) -> None:
        self._library = Library(
            library, lock_timeout=lock_timeout, log=log, require_all=require_all
        )
        self._opened = OpenLibrary(
            self._library,
            model if isinstance(model, str) else Path(model),
            device=device,
            threads=threads,
            dtype=dtype,
            approximate=approximate,
            ray=RayCluster.named(ray, deadline),
        )
        self._ingestion = Ingestion(self._opened)
        self._questions = Questions(self._opened, None if log is None else QuestionLog(log))

    def __repr__(self) -> str:
        return f"Assistant({self._library.location!r}, model={str(self._opened.model)!r})"

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
        """Close the library once running work of other threads is done; may be called twice."""
        self._opened.close()

    @property
    def library(self) -> Library:
        """The library without its model: list, show, remove, check."""
        return self._library

    def ingest(
        self,
        path: StrPath,
        *,
        tags: str | Iterable[str] = (),
        progress: Progress | None = None,
    ) -> DocumentInfo:
        """Read one document, or "-" for standard input; skip it if it is unchanged.

        It gets the ``tags``, also if it is unchanged, and keeps those that it has.
        Raises a ``DocumentError`` if it cannot be read, or if ``path`` names several documents.
        """
        return self._ingestion.document(path, tags=tags, progress=progress)

    def ingest_address(
        self,
        url: str,
        *,
        private: bool = False,
        tags: str | Iterable[str] = (),
        progress: Progress | None = None,
    ) -> DocumentInfo:
        """Fetch an address, https://..., and read what is there; its source is the address.

        Only public addresses are fetched, also behind redirections, unless ``private`` allows
        others. At most 64 MiB within a minute. Raises a ``DocumentError`` if it cannot be fetched
        or read, ``MissingExtraError`` without the extra ``fetch``.
        """
        return self._ingestion.address(url, private=private, tags=tags, progress=progress)

    def ingest_many(
        self,
        paths: StrPath | Iterable[StrPath],
        *,
        tags: str | Iterable[str] = (),
        workers: int | None = None,
        progress: Progress | None = None,
    ) -> IngestReport:
        """Read files, folders and patterns; if a document cannot be read, the others still are.

        All of them get the ``tags``. ``workers`` is as in ``ingest_each``.
        """
        results = self.ingest_each(paths, tags=tags, workers=workers, progress=progress)
        return IngestReport.of(results)

    def ingest_each(
        self,
        paths: StrPath | Iterable[StrPath],
        *,
        tags: str | Iterable[str] = (),
        workers: int | None = None,
        progress: Progress | None = None,
    ) -> Iterator[IngestResult]:
        """Read like ``ingest_many``, and yield each document, or its failure, when it is done.

        The skipped files of a path come last, as a result with neither document nor error. With
        ``workers`` so many other processes read and compute, each on the threads that were set, 1
        by default, while this one writes; the library is the same. Raises ``ConfigError`` for
        fewer than one.
        """
        return self._ingestion.each(paths, tags=tags, workers=workers, progress=progress)

    def ingest_shards(
        self,
        paths: StrPath | Iterable[StrPath],
        *,
        ray: str = "local",
        shards: int | None = None,
        tags: str | Iterable[str] = (),
        progress: Callable[[ShardsProgress], None] | None = None,
    ) -> Iterator[IngestResult]:
        """Read into a library of ``shards`` parts by as many workers of a Ray cluster.

        Yields like ``ingest_each``, documents as they are done. The library is a list file, its
        shards are ordinary libraries in the folder ``LIBRARY.shards``; it is asked like any other.
        ray: "local" starts a Ray on this machine, "auto", "HOST:PORT" or "ray://HOST:PORT" joins
        one, whose workers must see paths and library as this process does. A document that ends
        its worker twice is a failure. Raises ``ConfigError`` without the extra ``cluster``, where
        no Ray answers, and for another number of shards than the library has, the default.
        """
        return ingest_shards(
            self._opened, paths, ray=ray, shards=shards, tags=tags, progress=progress
        )

    def watch(
        self,
        folders: StrPath | Iterable[StrPath],
        *,
        interval: float = 2.0,
        tags: str | Iterable[str] = (),
        progress: Progress | None = None,
    ) -> Iterator[WatchEvent]:
        """Follow the changes of folders, without end; yield what was done.

        A file is read when it is new or has changed and nobody writes to it, and its document is
        removed with it. It looks every ``interval`` seconds. Documents get the ``tags``.
        """
        self._opened.expect_one()
        paths = [Path(folder) for folder in listed_paths(folders)]
        watch = Watch(self, paths, tags=checked_tags(tags), progress=progress)
        while True:
            yield from watch.poll()
            time.sleep(interval)

    def ask(self, question: str, **options: Unpack[AskOptions]) -> Answer:
        """Answer a question about the library; ``AskOptions`` lists the options.

        A request for a summary ("What is this document about?") of the only document that is asked,
        or of one that it names, gets one as an answer of the mode "summary".
        """
        self._questions.expect(question, options)
        summary = requested_summary(self, question, options, ())
        if summary is None:
            return self._questions.answer(question, options)
        self._questions.note(summary)
        return summary

    def ask_all(self, question: str, **options: Unpack[AskOptions]) -> AllAnswers:
        """Return every place that answers a question, with the same answers together.

        Each of ``top_k`` passages, 32 by default, is read by itself. The mode is "quote".
        """
        return self._questions.all_answers(question, options)

    def ask_many(
        self,
        questions: Iterable[str],
        *,
        progress: Callable[[AskProgress], None] | None = None,
        **options: Unpack[AskOptions],
    ) -> Iterator[Answer]:
        """Answer questions as ``ask``, one after the other, each when its answer is requested."""
        total = len(questions) if isinstance(questions, Sized) else None
        began = time.perf_counter()
        for done, question in enumerate(questions, start=1):
            answer = self.ask(question, **options)
            if progress is not None:
                progress(AskProgress(done, total, time.perf_counter() - began))
            yield answer

    def stream(self, question: str, **options: Unpack[AskOptions]) -> AnswerStream:
        """Answer piece by piece; at the end the stream's ``answer`` is the complete answer."""
        self._questions.expect(question, options)
        summary = requested_summary(self, question, options, ())
        if summary is None:
            return self._questions.stream(question, options)
        return AnswerStream(
            iter((summary.text, summary)),
            question=question,
            model=summary.model,
            finished=self._questions.note,
        )

    def trace(self, question: str, **options: Unpack[AskOptions]) -> Trace:
        """Answer a question and return its trace: what was retrieved, scored and read."""
        return self._questions.trace(question, options)

    def search(self, query: str, **options: Unpack[SearchOptions]) -> SearchResult:
        """Return the passages that fit a query best, with the best sentence of each; reads none.

        ``SearchOptions`` lists the options.
        """
        return self._questions.search(query, options)

    def summarize(
        self,
        document: StrPath | DocumentInfo | Sequence[StrPath | DocumentInfo] | None = None,
        *,
        length: SummaryLength | None = None,
        words: int | None = None,
        mode: SummaryMode = "auto",
        focus: str | None = None,
        section: str | None = None,
        since: StrPath | datetime.date | None = None,
        **filters: Unpack[PartOptions],
    ) -> Summary:
        """Summarise documents of the library, by name, or files (``Path``), which are read first.

        ``length`` is "short" by default, ``words`` sets the longest length exactly. ``section``
        keeps to the sections of this name, ``pages``, ``types`` and ``tags`` to what they leave as
        in ``FilterOptions``; with one of these no document need be named. ``since`` names a file
        with an older version: the summary then lists what changed: all of it, unless a length is
        set; ``changes_omitted`` counts the rest. A date is the filter of ``FilterOptions``.
        """
        expect_text("the focus", focus or "", QuestionError)
        expect_text("the section", section or "", QuestionError)
        day, old = since_day_or_file(since)
        part = filters_of({**filters, "since": day})
        if document is None and part is None:
            raise QuestionError("no document is named to summarise; name one, or filter them.")

        if document is not None and not self._opened.loaded:
            for name in _as_list(document):
                if not isinstance(name, os.PathLike):
                    self._library.show(name)

        def work(runtime: Runtime, store: OpenStore) -> Summary:
            ids = None
            if document is not None:
                ids = [store.document(name).id for name in self._names(document)]
            if part is not None:
                ids = list(_engine.resolve_scope(store, ids, part).document_ids or ())
            if not ids:
                raise QuestionError(
                    "there is no document to summarise; read one first with `drt ingest PATH`."
                )
            began = time.perf_counter()
            options: dict[str, Any] = {
                "words": words,
                "mode": mode,
                "focus": focus,
                "section": section,
            }
            if filters.get("pages"):
                options["pages"] = filters["pages"]
            result = _engine.summarize(runtime, store, ids, length=length, since=old, **options)
            seconds = time.perf_counter() - began
            return _convert.summary(result, seconds=seconds, model=runtime.name)

        return self._opened.result(work)

    def session(self, name: str | None = None, *, autosave: bool = True) -> Session:
        """Return the conversation stored under ``name``, or a new one; unnamed ones are not stored.

        It is saved after each turn; with ``autosave=False`` only by ``Session.save``.
        """
        expect_text("the name of the conversation", name or "", SessionError)
        with self._opened.working() as (runtime, store):
            exists = name is not None and any(info.name == name for info in store.sessions())
            make = _engine.SessionState.restore if exists else _engine.SessionState.new
            state = make(runtime, store, UNNAMED if name is None else name)
            return Session(self, state, name=name, autosave=autosave)

    def _sibling(self) -> Assistant:
        """Return an assistant of the same library and loaded model that works beside this one."""
        log = self._questions.log
        sibling = Assistant(
            self._library.paths,
            log=None if log is None else log.path,
            model=self._opened.model,
            lock_timeout=self._library.lock_timeout,
            require_all=self._library.require_all,
            approximate=self._opened.approximate,
        )
        sibling._opened.share_model(self._opened)  # noqa: SLF001  its own class
        return sibling

    def _model_name(self) -> str:
        """Return the name of the model, which is loaded for it."""
        with self._opened.working() as (runtime, _):
            return runtime.name

    def _names(
        self, document: StrPath | DocumentInfo | Sequence[StrPath | DocumentInfo]
    ) -> list[str]:
        """Return names of documents, once those given as files are read."""
        return [
            document_name(self.ingest(item) if isinstance(item, os.PathLike) else item)
            for item in _as_list(document)
        ]

    def _save_session(self, state: SessionState) -> None:
        with self._opened.working():
            state.save()


def _as_list(
    document: StrPath | DocumentInfo | Sequence[StrPath | DocumentInfo],
) -> Sequence[StrPath | DocumentInfo]:
    return [document] if isinstance(document, str | os.PathLike | DocumentInfo) else document
