"""The assistant: reads documents into a library and answers, summarises and converses over it.

Loads the model on first use. Engine work of one assistant is done one call at a time, whichever
thread asks.
"""

from __future__ import annotations

import datetime
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar, Unpack, cast

from drt_engine import errors as engine

from . import _convert, _engine
from ._errors import (
    ConfigError,
    DocumentError,
    LibraryError,
    QuestionError,
    SessionError,
    engine_errors,
    expect_text,
    translate,
)
from ._federated import with_libraries
from ._filters import filters_of, listed, since_day_or_file, without_filters
from ._library import Library, document_name
from ._log import QuestionLog
from ._session import Session
from ._stream import AnswerStream
from ._types import (
    AllAnswers,
    Answer,
    AskOptions,
    AskProgress,
    DocumentInfo,
    IngestProgress,
    IngestReport,
    IngestResult,
    PartOptions,
    SearchOptions,
    SearchResult,
    Summary,
    SummaryLength,
    SummaryMode,
    Trace,
    WatchEvent,
)
from ._watch import Watch

if TYPE_CHECKING:
    from drt_engine import results
    from drt_engine.answer.ask import AskOptions as EngineOptions
    from drt_engine.answer.result import AnswerResult
    from drt_engine.answer.session import SessionState
    from drt_engine.documents import PathExpansion, Source
    from drt_engine.ingest.parallel import Turn, Workers
    from drt_engine.ingest.reading import SourceReading
    from drt_engine.runtime import Runtime
    from drt_engine.store import Store
    from drt_engine.store.federation import FederatedStore

    OpenStore: TypeAlias = Store | FederatedStore

Item = TypeVar("Item")
Result = TypeVar("Result", Answer, AllAnswers, SearchResult, Summary)
UNNAMED = "unnamed"  # what the engine calls a conversation until rename() gives it a name
StrPath = str | os.PathLike[str]
Progress = Callable[[IngestProgress], None]


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
    ) -> None:
        self._library = Library(
            library, lock_timeout=lock_timeout, log=log, require_all=require_all
        )
        self._log = None if log is None else QuestionLog(log)
        self._model = model if isinstance(model, str) else Path(model)
        self._device = device
        self._threads = threads
        self._dtype = dtype
        self._lock = threading.RLock()
        self._runtime: Runtime | None = None
        self._store: Store | FederatedStore | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"Assistant({self._library.location!r}, model={str(self._model)!r})"

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
        with self._lock:
            self._closed = True
            store, self._store, self._runtime = self._store, None, None
            if store is not None:
                store.close()

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
        self._library.expect_one()
        sources = list(islice(self._steps(_engine.expand_paths([os.fspath(path)])), 2))
        if len(sources) != 1:
            content = "several documents" if sources else "no documents"
            raise DocumentError(
                f"{os.fspath(path)} holds {content}, one was expected; "
                "use ingest_many to read a folder or a pattern."
            )
        return self._read(sources[0], self._tags(tags), progress)[0]

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
        self._library.expect_one()
        checked = self._tags(tags)
        with self._workers(workers) as pool:
            for path in _listed(paths):
                named = os.fspath(path)
                expansion = _engine.expand_paths([named])
                yield from self._read_all(expansion, pool, named, checked, progress)

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
        self._library.expect_one()
        paths = [Path(folder) for folder in _listed(folders)]
        watch = Watch(self, paths, tags=self._tags(tags), progress=progress)
        while True:
            yield from watch.poll()
            time.sleep(interval)

    def ask(self, question: str, **options: Unpack[AskOptions]) -> Answer:
        """Answer a question about the library; ``AskOptions`` lists the options."""
        return self._ask(question, options)

    def ask_all(self, question: str, **options: Unpack[AskOptions]) -> AllAnswers:
        """Return every place that answers a question, with the same answers together.

        Each of ``top_k`` passages, 32 by default, is read by itself. The mode is "quote".
        """

        def work(runtime: Runtime, store: OpenStore) -> AllAnswers:
            began = time.perf_counter()
            result = _engine.ask_all(runtime, store, question, self._options(store, options))
            seconds = time.perf_counter() - began
            return _convert.all_answers(
                result, question=question, seconds=seconds, model=runtime.name
            )

        self._expect_question(question, options)
        answers = self._result(work)
        self._note(answers)
        return answers

    def ask_many(
        self,
        questions: Iterable[str],
        *,
        progress: Callable[[AskProgress], None] | None = None,
        **options: Unpack[AskOptions],
    ) -> Iterator[Answer]:
        """Answer questions one after the other, each when its answer is requested."""
        total = len(questions) if isinstance(questions, Sized) else None
        began = time.perf_counter()
        for done, question in enumerate(questions, start=1):
            answer = self._ask(question, options)
            if progress is not None:
                progress(AskProgress(done, total, time.perf_counter() - began))
            yield answer

    def stream(self, question: str, **options: Unpack[AskOptions]) -> AnswerStream:
        """Answer piece by piece; at the end the stream's ``answer`` is the complete answer."""
        return self._stream(question, options)

    def trace(self, question: str, **options: Unpack[AskOptions]) -> Trace:
        """Answer a question and return its trace: what was retrieved, scored and read."""
        traces: list[results.Trace] = []

        def work(runtime: Runtime, store: OpenStore) -> Answer:
            began = time.perf_counter()
            resolved = self._options(store, options, record=True)
            result = _engine.ask(runtime, store, question, options=resolved)
            traces.append(result.trace)
            seconds = time.perf_counter() - began
            return _convert.answer(result, question=question, seconds=seconds, model=runtime.name)

        self._expect_question(question, options)
        answer = self._result(work)
        return _convert.trace(traces[-1], answer)

    def search(self, query: str, **options: Unpack[SearchOptions]) -> SearchResult:
        """Return the passages that fit a query best, with the best sentence of each; reads none.

        ``SearchOptions`` lists the options.
        """

        def work(runtime: Runtime | None, store: OpenStore) -> SearchResult:
            began = time.perf_counter()
            values = self._values(store, options)
            request = _engine.SearchRequest(**values)
            hits = _engine.search(runtime, store, query, request)
            seconds = time.perf_counter() - began
            return SearchResult(query, hits, seconds, "" if runtime is None else runtime.name)

        self._expect_question(query, options, what="the query")
        by_words = options.get("retriever") == "lexical"
        with self._cataloguing() if by_words else self._working() as (runtime, store):
            return self._without_damaged(store, partial(work, runtime, store))

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
        chosen = filters_of({**filters, "since": day})
        if document is None and chosen is None:
            raise QuestionError("no document is named to summarise; name one, or filter them.")

        def work(runtime: Runtime, store: OpenStore) -> Summary:
            ids = None
            if document is not None:
                ids = [store.document(name).id for name in self._names(document)]
            if chosen is not None:
                ids = list(_engine.resolve_scope(store, ids, chosen).document_ids or ())
            if not ids:
                raise QuestionError("there is no document to summarise; read one first.")
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

        return self._result(work)

    def session(self, name: str | None = None, *, autosave: bool = True) -> Session:
        """Return the conversation stored under ``name``, or a new one; unnamed ones are not stored.

        It is saved after each turn; with ``autosave=False`` only by ``Session.save``.
        """
        expect_text("the name of the conversation", name or "", SessionError)
        with self._working() as (runtime, store):
            exists = name is not None and any(info.name == name for info in store.sessions())
            make = _engine.SessionState.restore if exists else _engine.SessionState.new
            state = make(runtime, store, name or UNNAMED)
            return Session(self, state, name=name, autosave=autosave)

    def _sibling(self) -> Assistant:
        """Return an assistant of the same library and loaded model that works beside this one."""
        with self._working() as (runtime, _):
            sibling = Assistant(
                self._library.paths,
                model=self._model,
                lock_timeout=self._library.lock_timeout,
                require_all=self._library.require_all,
            )
            sibling._runtime = runtime  # noqa: SLF001  its own class; nothing in it changes
            return sibling

    def _model_name(self) -> str:
        """Return the name of the model, which is loaded for it."""
        with self._working() as (runtime, _):
            return runtime.name

    def _names(
        self, document: StrPath | DocumentInfo | Sequence[StrPath | DocumentInfo]
    ) -> list[str]:
        """Return names of documents, once those given as files are read."""
        if isinstance(document, str | os.PathLike | DocumentInfo):
            document = [document]
        return [
            document_name(self.ingest(item) if isinstance(item, os.PathLike) else item)
            for item in document
        ]

    @contextmanager
    def _workers(self, count: int | None) -> Iterator[Workers | None]:
        """Yield so many processes that read ahead, or None where this one reads."""
        if count is None:
            yield None
            return
        if count < 1:
            raise ConfigError(f"workers is {count}, expected 1 or more.")
        with self._working() as (runtime, _):
            pool = _engine.Workers(runtime, count, threads=self._threads or 1)
        with pool:
            yield pool

    def _turns(self, expansion: PathExpansion, pool: Workers | None) -> Iterator[Turn]:
        """Yield what a path names, each source with its reading by a worker, if there are any."""
        if pool is None:
            yield from ((source, None) for source in self._steps(expansion))
            return
        with self._working() as (_, opened):
            store = cast("Store", opened)  # one library, as ``expect_one`` said
            readings = pool.readings(store, expansion)
        with closing(readings):
            yield from self._steps(readings)

    def _read_all(
        self,
        expansion: PathExpansion,
        pool: Workers | None,
        named: str,
        tags: Sequence[str],
        progress: Progress | None,
    ) -> Iterator[IngestResult]:
        """Read what a path names; a path that names nothing is a failure, too."""
        nothing = True
        for source, reading in self._turns(expansion, pool):
            nothing = False
            try:
                document, seconds, tokens = self._read(source, tags, progress, reading=reading)
            except DocumentError as error:
                name = named if isinstance(source, engine.DocumentError) else source.name
                yield IngestResult(name, None, error)
            else:
                yield IngestResult(document.source, document, None, seconds, tokens)
        if nothing:
            empty = DocumentError(f"{named} holds no file that can be read as a document.")
            yield IngestResult(named, None, empty)
        if expansion.skipped or expansion.notes.skipped:
            yield IngestResult(
                named, None, None, skipped=expansion.skipped, notes=expansion.notes.skipped
            )

    def _ask(
        self, question: str, options: AskOptions, *, session: SessionState | None = None
    ) -> Answer:
        def work(runtime: Runtime, store: OpenStore) -> Answer:
            began = time.perf_counter()
            resolved = self._options(store, options)
            result = _engine.ask(runtime, store, question, options=resolved, session=session)
            seconds = time.perf_counter() - began
            return _convert.answer(result, question=question, seconds=seconds, model=runtime.name)

        self._expect_question(question, options)
        answer = self._result(work)
        self._note(answer)
        return answer

    def _note(self, answer: Answer | AllAnswers) -> None:
        """Log an answer, if there is a log and it can be written to."""
        if self._log is not None:
            self._log.add(answer, self._library.path)

    def _stream(
        self,
        question: str,
        options: AskOptions,
        *,
        session: SessionState | None = None,
        finished: Callable[[Answer], None] | None = None,
    ) -> AnswerStream:
        def done(answer: Answer) -> None:
            self._note(answer)
            if finished is not None:
                finished(answer)

        self._expect_question(question, options)
        with self._working() as (runtime, store):
            resolved = self._options(store, options)
            ask = partial(
                _engine.stream, runtime, store, question, options=resolved, session=session
            )
            pieces = self._steps(_pieces(store, ask) if self._library.several else ask())
            return AnswerStream(
                pieces,
                question=question,
                model=runtime.name,
                complete=partial(self._completed, store) if self._library.several else None,
                finished=done,
            )

    def _result(self, work: Callable[[Runtime, OpenStore], Result]) -> Result:
        """Return what work makes; of several libraries, of those that can be read."""
        with self._working() as (runtime, store):
            return self._without_damaged(store, partial(work, runtime, store))

    def _without_damaged(self, store: OpenStore, work: Callable[[], Result]) -> Result:
        """Do work, again without a library that turned out to be damaged; name the libraries."""
        if not self._library.several:
            return work()
        federation = cast("FederatedStore", store)
        while True:
            try:
                return with_libraries(work(), federation)
            except engine.LibraryUnavailable as error:
                federation.leave_out(error)

    def _completed(self, store: OpenStore, answer: Answer) -> Answer:
        with self._open():
            return with_libraries(answer, cast("FederatedStore", store))

    def _save_session(self, state: SessionState) -> None:
        with self._working():
            state.save()

    def _read(
        self,
        source: Source | engine.DocumentError,
        tags: Sequence[str],
        progress: Progress | None,
        *,
        reading: SourceReading | None = None,
    ) -> tuple[DocumentInfo, float, int]:
        """Read one document; return it, its seconds without loading the model, its new tokens."""
        if isinstance(source, engine.DocumentError):
            raise translate(source)
        self._library.expect_one()
        with self._working() as (runtime, opened):
            store = cast("Store", opened)
            began = time.perf_counter()
            skipped: list[str] = []
            tokens = 0
            elsewhere = {} if reading is None else {"reading": reading}

            def report(step: IngestProgress) -> None:
                nonlocal tokens
                tokens = step.tokens
                if progress is not None:
                    progress(step)

            try:
                row, new = _engine.ingest_source(
                    runtime,
                    store,
                    source,
                    progress=report,
                    skipped=skipped.extend,
                    **elsewhere,
                )
            finally:
                source.close()
            if not set(tags) <= set(row.tags):
                row = row._replace(tags=store.change_tags(row.id, add=tags))
            seconds = time.perf_counter() - began
            document = _convert.document(row, new=new, skipped=tuple(skipped))
            return document, seconds, tokens

    def _options(
        self, store: OpenStore, options: AskOptions, *, record: bool = False
    ) -> EngineOptions:
        """Return the engine's options, with documents as ids; ``record`` asks for a full trace."""
        values = self._values(store, options)
        if record:
            values["record"] = True
        return _engine.AskOptions(**values)

    def _values(self, store: OpenStore, options: AskOptions | SearchOptions) -> dict[str, Any]:
        """Return options with documents as ids, and with filters as the engine takes them."""
        values = without_filters(options)
        if options.get("documents") is not None:
            names = [document_name(document) for document in _documents(options)]
            values["documents"] = tuple(store.document(name).id for name in names)
        filters = filters_of(options)
        if filters is not None:
            values["filters"] = filters
        return values

    def _tags(self, tags: str | Iterable[str]) -> tuple[str, ...]:
        """Return checked tags, before anything is read."""
        with engine_errors():
            return _engine.checked_tags(listed(tags))

    def _expect_question(
        self, question: str, options: AskOptions | SearchOptions, *, what: str = "the question"
    ) -> None:
        """Raise for what cannot be asked before seconds go into loading a model."""
        expect_text(what, question, QuestionError)
        filters = filters_of(options)
        if self._runtime is not None:
            return
        self._library.expect_documents()
        ids = [self._library.show(document).id for document in _documents(options)]
        if filters is not None:
            self._library._expect_left(ids or None, filters)  # noqa: SLF001

    def _steps(self, items: Iterator[Item]) -> Iterator[Item]:
        """Take each item under the lock, which is free while the caller works with it."""
        while True:
            with self._open():
                try:
                    item = next(items)
                except StopIteration:
                    return
            yield item

    @contextmanager
    def _open(self) -> Iterator[None]:
        with self._lock, engine_errors():
            if self._closed:
                raise LibraryError("this Assistant was closed; make a new one to go on.")
            yield

    @contextmanager
    def _cataloguing(self) -> Iterator[tuple[None, OpenStore]]:
        """Yield the library for work without a model, which is not loaded for it."""
        with self._open():
            if self._store is not None:
                yield None, self._store
                return
            with self._library._reading() as store:  # noqa: SLF001  only the SDK opens stores
                yield None, store

    @contextmanager
    def _working(self) -> Iterator[tuple[Runtime, OpenStore]]:
        with self._open():
            if self._runtime is None:
                self._runtime = _engine.load_runtime(
                    self._model,
                    device=self._device,
                    threads=self._threads,
                    dtype=self._dtype,
                )
            if self._store is None and self._library.several:
                self._store = _engine.open_federation(
                    self._library.path,
                    self._library.paths,
                    self._runtime,
                    lock_timeout=self._library.lock_timeout,
                    require_all=self._library.require_all,
                )
            elif self._store is None:
                self._store = _engine.open_library(
                    self._library.path, self._runtime, lock_timeout=self._library.lock_timeout
                )
            yield self._runtime, self._store


def _pieces(
    store: OpenStore, ask: Callable[[], Iterator[str | AnswerResult]]
) -> Iterator[str | AnswerResult]:
    """Yield an answer's pieces; begin again without a library whose damage shows before them."""
    while True:
        pieces = ask()
        try:
            first = next(pieces)
        except engine.LibraryUnavailable as error:
            cast("FederatedStore", store).leave_out(error)
            continue
        yield first
        yield from pieces
        return


def _documents(options: AskOptions | SearchOptions) -> Sequence[str | DocumentInfo]:
    """Return the documents that a question is restricted to, as a list."""
    named = options.get("documents") or ()
    return [named] if isinstance(named, str | DocumentInfo) else named


def _listed(paths: StrPath | Iterable[StrPath]) -> list[StrPath]:
    """Return several paths, or one, as a list."""
    return [paths] if isinstance(paths, str | os.PathLike) else list(paths)
