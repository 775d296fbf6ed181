"""The assistant for asyncio: the same methods, awaited, done one at a time in a thread of its own.

Knows nothing of what they do: each hands its arguments to ``Assistant``, ``Session`` or
``AnswerStream``. Callbacks for progress are called in the event loop's thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import datetime
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar, Unpack

from ._assistant import Assistant
from ._errors import LibraryError
from ._library import Library
from ._opened.ingestion import checked_tags
from ._paths import StrPath, listed_paths
from ._session import Session
from ._stream import AnswerStream
from ._types import (
    AllAnswers,
    Answer,
    AskOptions,
    AskProgress,
    DocumentInfo,
    FilterOptions,
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
    Turn,
    WatchEvent,
)
from ._watch import Watch

if TYPE_CHECKING:
    from ._types import WrittenSentence
    from ._writer.results import WriterOptions, WrittenAnswer
    from ._writer.write import Writing

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Item = TypeVar("Item")


class _Worker:
    """One thread that does what is asked of it in turn; a call that is given up on goes on."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="drt")
        self._closed = False

    async def run(
        self,
        work: Callable[Parameters, Result],
        *arguments: Parameters.args,
        **options: Parameters.kwargs,
    ) -> Result:
        loop = asyncio.get_running_loop()
        if self._closed:
            raise LibraryError("this AsyncAssistant was closed; make a new one to go on.")
        context = contextvars.copy_context()  # which ``watch_reading`` is in
        call = partial(context.run, work, *arguments, **options)
        return await loop.run_in_executor(self._pool, call)

    async def iterate(self, items: Iterator[Item]) -> AsyncIterator[Item]:
        """Yield the items of an iterator that computes them."""
        while True:
            item = await self.run(_next, items)
            if not item:
                return
            yield item[0]

    def close(self) -> None:
        self._closed = True
        self._pool.shutdown(wait=False)


def _next(items: Iterator[Item]) -> tuple[Item, ...]:
    """Return the next item, or nothing: a ``StopIteration`` cannot pass through a future."""
    for item in items:
        return (item,)
    return ()


def _in_loop(callback: Callable[[Item], None] | None) -> Callable[[Item], None] | None:
    """Return a callback for any thread that is carried out in the event loop's."""
    if callback is None:
        return None
    loop = asyncio.get_running_loop()

    def hand_over(item: Item) -> None:
        loop.call_soon_threadsafe(callback, item)

    return hand_over


class AsyncAnswerStream:
    """Iterates over pieces of text, once; ``answer`` is None until the last piece was read."""

    def __init__(self, worker: _Worker, start: Callable[[], AnswerStream]) -> None:
        self._worker = worker
        self._start = start
        self._stream: AnswerStream | None = None

    @property
    def answer(self) -> Answer | None:
        """The whole answer, once it is known."""
        return None if self._stream is None else self._stream.answer

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        if self._stream is None:
            self._stream = await self._worker.run(self._start)
        piece = await self._worker.run(_next, self._stream)
        if not piece:
            raise StopAsyncIteration
        return piece[0]


class AsyncWriting:
    """Iterates over verified sentences, once; ``result`` is None until the last one was read."""

    def __init__(self, worker: _Worker, start: Callable[[], Writing]) -> None:
        self._worker = worker
        self._start = start
        self._writing: Writing | None = None

    @property
    def result(self) -> WrittenAnswer | None:
        """The whole written answer, once it is known."""
        return None if self._writing is None else self._writing.result

    def __aiter__(self) -> AsyncIterator[WrittenSentence]:
        return self

    async def __anext__(self) -> WrittenSentence:
        if self._writing is None:
            self._writing = await self._worker.run(self._start)
        sentence = await self._worker.run(_next, self._writing)
        if not sentence:
            raise StopAsyncIteration
        return sentence[0]


class AsyncSession:
    """A conversation, made by ``AsyncAssistant.session``; see ``Session``."""

    def __init__(self, worker: _Worker, session: Session) -> None:
        self._worker = worker
        self._session = session

    def __repr__(self) -> str:
        return f"Async{self._session!r}"

    @property
    def name(self) -> str | None:
        """The name it is stored under; None for a conversation that is not stored."""
        return self._session.name

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The questions and answers so far."""
        return self._session.turns

    async def ask(self, question: str, **options: Unpack[AskOptions]) -> Answer:
        """Do as ``Session.ask``."""
        return await self._worker.run(partial(self._session.ask, question, **options))

    def stream(self, question: str, **options: Unpack[AskOptions]) -> AsyncAnswerStream:
        """Do as ``Session.stream``; iterate with ``async for``."""
        return AsyncAnswerStream(self._worker, partial(self._session.stream, question, **options))

    def write(
        self, answer: Answer, writer: WriterOptions, **filters: Unpack[FilterOptions]
    ) -> AsyncWriting:
        """Do as ``Session.write``; iterate with ``async for``."""
        return AsyncWriting(self._worker, partial(self._session.write, answer, writer, **filters))

    async def undo(self) -> Turn:
        """Do as ``Session.undo``."""
        return await self._worker.run(self._session.undo)

    async def save(self) -> None:
        """Do as ``Session.save``."""
        await self._worker.run(self._session.save)

    async def rename(self, name: str) -> None:
        """Do as ``Session.rename``."""
        await self._worker.run(self._session.rename, name)


class AsyncAssistant:
    """Reads documents and answers questions about them, without blocking an event loop.

    Has the parameters of ``Assistant``. Calls wait for each other; a cancelled call still finishes
    in its thread. Several assistants work side by side.
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
        self._assistant = Assistant(
            library,
            model=model,
            device=device,
            threads=threads,
            dtype=dtype,
            lock_timeout=lock_timeout,
            log=log,
            require_all=require_all,
            approximate=approximate,
            ray=ray,
            deadline=deadline,
        )
        self._worker = _Worker()

    def __repr__(self) -> str:
        return f"Async{self._assistant!r}"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the library once running work is done; may be called twice."""
        await asyncio.to_thread(self._assistant.close)
        self._worker.close()

    @property
    def library(self) -> Library:
        """The library without its model; its calls are short and not awaited."""
        return self._assistant.library

    async def ingest(
        self,
        path: StrPath,
        *,
        tags: str | Iterable[str] = (),
        progress: Progress | None = None,
    ) -> DocumentInfo:
        """Do as ``Assistant.ingest``."""
        work = self._assistant.ingest
        return await self._worker.run(work, path, tags=tags, progress=_in_loop(progress))

    async def ingest_address(
        self,
        url: str,
        *,
        private: bool = False,
        tags: str | Iterable[str] = (),
        progress: Progress | None = None,
    ) -> DocumentInfo:
        """Do as ``Assistant.ingest_address``."""
        work = self._assistant.ingest_address
        return await self._worker.run(
            work, url, private=private, tags=tags, progress=_in_loop(progress)
        )

    async def ingest_many(
        self,
        paths: StrPath | Iterable[StrPath],
        *,
        tags: str | Iterable[str] = (),
        workers: int | None = None,
        progress: Progress | None = None,
    ) -> IngestReport:
        """Do as ``Assistant.ingest_many``."""
        work = self._assistant.ingest_many
        return await self._worker.run(
            work, paths, tags=tags, workers=workers, progress=_in_loop(progress)
        )

    def ingest_each(
        self,
        paths: StrPath | Iterable[StrPath],
        *,
        tags: str | Iterable[str] = (),
        workers: int | None = None,
        progress: Progress | None = None,
    ) -> AsyncIterator[IngestResult]:
        """Do as ``Assistant.ingest_each``; iterate with ``async for``."""
        work = self._assistant.ingest_each
        results = work(paths, tags=tags, workers=workers, progress=_in_loop(progress))
        return self._worker.iterate(results)

    def ingest_shards(
        self,
        paths: StrPath | Iterable[StrPath],
        *,
        ray: str = "local",
        shards: int | None = None,
        tags: str | Iterable[str] = (),
        progress: Callable[[ShardsProgress], None] | None = None,
    ) -> AsyncIterator[IngestResult]:
        """Do as ``Assistant.ingest_shards``; iterate with ``async for``."""
        work = self._assistant.ingest_shards
        results = work(paths, ray=ray, shards=shards, tags=tags, progress=_in_loop(progress))
        return self._worker.iterate(results)

    async def watch(
        self,
        folders: StrPath | Iterable[StrPath],
        *,
        interval: float = 2.0,
        tags: str | Iterable[str] = (),
        progress: Progress | None = None,
    ) -> AsyncIterator[WatchEvent]:
        """Do as ``Assistant.watch``; other calls are done between two looks."""
        paths = [Path(folder) for folder in listed_paths(folders)]
        checked = checked_tags(tags)  # before it looks at anything
        watch = Watch(self._assistant, paths, tags=checked, progress=_in_loop(progress))
        while True:
            async for event in self._worker.iterate(watch.poll()):
                yield event
            await asyncio.sleep(interval)

    async def ask(self, question: str, **options: Unpack[AskOptions]) -> Answer:
        """Do as ``Assistant.ask``."""
        return await self._worker.run(partial(self._assistant.ask, question, **options))

    async def ask_all(self, question: str, **options: Unpack[AskOptions]) -> AllAnswers:
        """Do as ``Assistant.ask_all``."""
        return await self._worker.run(partial(self._assistant.ask_all, question, **options))

    def ask_many(
        self,
        questions: Iterable[str],
        *,
        progress: Callable[[AskProgress], None] | None = None,
        **options: Unpack[AskOptions],
    ) -> AsyncIterator[Answer]:
        """Do as ``Assistant.ask_many``; iterate with ``async for``."""
        work = self._assistant.ask_many
        return self._worker.iterate(work(questions, progress=_in_loop(progress), **options))

    def stream(self, question: str, **options: Unpack[AskOptions]) -> AsyncAnswerStream:
        """Do as ``Assistant.stream``; iterate with ``async for``."""
        start = partial(self._assistant.stream, question, **options)
        return AsyncAnswerStream(self._worker, start)

    async def trace(self, question: str, **options: Unpack[AskOptions]) -> Trace:
        """Do as ``Assistant.trace``."""
        return await self._worker.run(partial(self._assistant.trace, question, **options))

    async def search(self, query: str, **options: Unpack[SearchOptions]) -> SearchResult:
        """Do as ``Assistant.search``."""
        return await self._worker.run(partial(self._assistant.search, query, **options))

    async def summarize(
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
        """Do as ``Assistant.summarize``."""
        work = partial(
            self._assistant.summarize,
            document,
            length=length,
            words=words,
            mode=mode,
            focus=focus,
            section=section,
            since=since,
            **filters,
        )
        return await self._worker.run(work)

    async def session(self, name: str | None = None, *, autosave: bool = True) -> AsyncSession:
        """Do as ``Assistant.session``."""
        session = await self._worker.run(self._assistant.session, name, autosave=autosave)
        return AsyncSession(self._worker, session)
