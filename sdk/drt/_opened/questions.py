"""Questions to an open library: checked before a model is loaded, answered, logged."""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from drt_engine import errors as engine

from .. import _convert, _engine
from .._errors import QuestionError, expect_text
from .._federated import with_libraries
from .._filters import filters_of, without_filters
from .._library import document_name
from .._log import QuestionLog
from .._stream import AnswerStream
from .._types import (
    AllAnswers,
    Answer,
    AskOptions,
    DocumentInfo,
    ScanInfo,
    SearchOptions,
    SearchResult,
    Trace,
)
from .library import OpenLibrary

if TYPE_CHECKING:
    from drt_engine import results
    from drt_engine.answer.options import AskOptions as EngineOptions
    from drt_engine.answer.result import AnswerResult
    from drt_engine.answer.session import SessionState
    from drt_engine.runtime import Runtime
    from drt_engine.store.federation import FederatedStore

    from .library import OpenStore


class Questions:
    """Answers questions about a library; the methods are those of ``Assistant``."""

    def __init__(self, opened: OpenLibrary, log: QuestionLog | None) -> None:
        self._opened = opened
        self.log = log

    def expect(
        self, question: str, options: AskOptions | SearchOptions, *, what: str = "the question"
    ) -> None:
        """Raise for what cannot be asked before seconds go into loading a model."""
        _expect_names(options, SearchOptions if what == "the query" else AskOptions)
        expect_text(what, question, QuestionError)
        filters = filters_of(options)
        if self._opened.loaded:
            return
        if not re.search(r"\w", question):
            raise QuestionError(f"{what} has no words, expected plain language.")
        library = self._opened.library
        library.expect_documents()
        ids = [library.show(document).id for document in _documents(options)]
        if filters is not None:
            library._expect_left(ids or None, filters)  # noqa: SLF001  both are the SDK's own

    def answer(
        self, question: str, options: AskOptions, *, session: SessionState | None = None
    ) -> Answer:
        """Answer a question, as ``Assistant.ask`` or in a conversation."""

        def work(runtime: Runtime, store: OpenStore) -> Answer:
            began = time.perf_counter()
            resolved = self._options(store, options)
            result = _engine.ask(runtime, store, question, options=resolved, session=session)
            seconds = time.perf_counter() - began
            return _convert.answer(result, question=question, seconds=seconds, model=runtime.name)

        self.expect(question, options)
        answer = self._opened.result(work)
        self.note(answer)
        return answer

    def all_answers(self, question: str, options: AskOptions) -> AllAnswers:
        """Return every place that answers a question, as ``Assistant.ask_all``."""

        def work(runtime: Runtime, store: OpenStore) -> AllAnswers:
            began = time.perf_counter()
            result = _engine.ask_all(runtime, store, question, self._options(store, options))
            seconds = time.perf_counter() - began
            return _convert.all_answers(
                result, question=question, seconds=seconds, model=runtime.name
            )

        self.expect(question, options)
        answers = self._opened.result(work)
        self.note(answers)
        return answers

    def stream(
        self,
        question: str,
        options: AskOptions,
        *,
        session: SessionState | None = None,
        finished: Callable[[Answer], None] | None = None,
    ) -> AnswerStream:
        """Answer piece by piece, as ``Assistant.stream`` or in a conversation."""

        def done(answer: Answer) -> None:
            self.note(answer)
            if finished is not None:
                finished(answer)

        self.expect(question, options)
        federated = self._opened.federated
        with self._opened.working() as (runtime, store):
            resolved = self._options(store, options)
            ask = partial(
                _engine.stream, runtime, store, question, options=resolved, session=session
            )
            pieces = self._opened.steps(_pieces(store, ask) if federated else ask())
            return AnswerStream(
                pieces,
                question=question,
                model=runtime.name,
                complete=partial(self._completed, store) if federated else None,
                finished=done,
            )

    def trace(self, question: str, options: AskOptions) -> Trace:
        """Answer a question and return its trace, as ``Assistant.trace``."""
        traces: list[results.Trace] = []

        def work(runtime: Runtime, store: OpenStore) -> Answer:
            began = time.perf_counter()
            resolved = self._options(store, options, record=True)
            result = _engine.ask(runtime, store, question, options=resolved)
            traces.append(result.trace)
            seconds = time.perf_counter() - began
            return _convert.answer(result, question=question, seconds=seconds, model=runtime.name)

        self.expect(question, options)
        answer = self._opened.result(work)
        return _convert.trace(traces[-1], answer)

    def search(self, query: str, options: SearchOptions) -> SearchResult:
        """Return the passages that fit a query best, as ``Assistant.search``."""

        def work(runtime: Runtime | None, store: OpenStore) -> SearchResult:
            began = time.perf_counter()
            request = _engine.SearchRequest(**self._values(store, options))
            scans: list[ScanInfo] = []
            noted = {"note_scan": scans.append} if self._opened.approximate else {}
            hits = _engine.search(runtime, store, query, request, **noted)
            seconds = time.perf_counter() - began
            name = "" if runtime is None else runtime.name
            return SearchResult(query, hits, seconds, name, scan=scans[-1] if scans else None)

        self.expect(query, options, what="the query")
        by_words = options.get("retriever") == "lexical"
        opening = self._opened.cataloguing() if by_words else self._opened.working()
        with opening as (runtime, store):
            return self._opened.without_damaged(store, partial(work, runtime, store))

    def note(self, answer: Answer | AllAnswers) -> None:
        """Log an answer, if there is a log and it can be written to."""
        if self.log is not None:
            self.log.add(answer, self._opened.library.path)

    def _completed(self, store: OpenStore, answer: Answer) -> Answer:
        with self._opened.locked():
            return with_libraries(answer, cast("FederatedStore", store))

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
        if self._opened.approximate:
            values["approximate"] = True
        return values


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


def _expect_names(options: AskOptions | SearchOptions, kind: type) -> None:
    """Raise ``TypeError``, as for any function, for an option that there is not."""
    for name in options.keys() - kind.__annotations__.keys():
        close = difflib.get_close_matches(name, kind.__annotations__, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"{kind.__name__} lists the options."
        raise TypeError(f"there is no option {name!r}; {hint}")
