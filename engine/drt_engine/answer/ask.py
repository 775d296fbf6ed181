"""One question: open the prompt, which retrieves and reads, judge, then quote or write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

from drt_engine.answer.documents import DocumentRows, documents_to_ask
from drt_engine.answer.follow_up import in_context
from drt_engine.answer.grain import answer_type
from drt_engine.answer.hint import hint, is_about_drt, requested_summary
from drt_engine.answer.judge import Judgement, judge
from drt_engine.answer.metadata.lookup import metadata_answer
from drt_engine.answer.parts import combined, question_parts
from drt_engine.answer.quote_answer import cite_closest, quote_answer
from drt_engine.answer.result import AnswerResult, Draft
from drt_engine.answer.sentences import passage_around
from drt_engine.answer.session import SessionState
from drt_engine.answer.tables.table_answer import table_answer
from drt_engine.answer.write import written_answer
from drt_engine.errors import ConfigError
from drt_engine.generate.prompt_run import PromptRun, PromptStart, open_prompt, question_ids
from drt_engine.results import SOURCES, Citation, Source, Trace
from drt_engine.retrieval.candidates import RetrieverName
from drt_engine.retrieval.filters import NO_FILTERS, Filters
from drt_engine.retrieval.library import SearchOptions
from drt_engine.runtime import Runtime
from drt_engine.store.view import LibraryView
from drt_engine.trace.record import Recording, make_trace, turn_texts
from drt_engine.trace.tape import Tape


@dataclass(frozen=True)
class AskOptions:
    """How a question is asked; ``documents`` are ids (``None``: the whole library).

    ``top_k`` chunks are retrieved at a time (``None``: as many as the model is made for).
    ``reread`` reads them with the question. ``record`` makes the answer's trace a full one, which
    changes nothing else. ``filters`` restrict the documents, and the parts of them.
    ``approximate`` is as in ``SearchOptions``, ``until_sure`` too, which counts only without a
    ``top_k``. ``sources`` are those that may propose an answer;
    an evaluation switches some off.
    """

    documents: tuple[str, ...] | None = None
    mode: Literal["quote", "free"] = "quote"
    top_k: int | None = None
    retriever: RetrieverName = "hybrid"
    reread: bool = True
    threshold: float | None = None
    max_tokens: int = 96
    record: bool = False
    filters: Filters = NO_FILTERS
    approximate: bool = False
    until_sure: bool = True
    sources: frozenset[Source] = frozenset(SOURCES)

    def __post_init__(self) -> None:
        if self.mode not in ("quote", "free"):
            raise ConfigError(f"mode is {self.mode!r}, expected 'quote' or 'free'")
        self.search_options()  # which checks its own
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise ConfigError(f"threshold is {self.threshold}, expected a number from 0 to 1")
        if unknown := self.sources - set(SOURCES):
            raise ConfigError(
                f"no source of answers is called {sorted(unknown)[0]!r}; there are"
                f" {', '.join(SOURCES)}"
            )
        if self.max_tokens < 1:
            raise ConfigError(f"max_tokens is {self.max_tokens}, expected 1 or more")

    def search_options(self) -> SearchOptions:
        """Return the part of the options that retrieval needs."""
        return SearchOptions(
            self.documents,
            self.top_k,
            self.retriever,
            self.reread,
            until_sure=self.until_sure and self.top_k is None,
            filters=self.filters,
            approximate=self.approximate,
        )


def ask(
    runtime: Runtime,
    store: LibraryView,
    question: str,
    options: AskOptions,
    *,
    session: SessionState | None = None,
) -> AnswerResult:
    """Answer one question from the library.

    The question sees a snapshot; concurrent writes do not affect it. Raises ``QuestionError``
    for a question without words or too long, or a library without documents, ``NotFound`` for a
    document that is not there, ``StoreError`` for a damaged library.
    """
    *_, result = stream(runtime, store, question, options, session=session)
    assert isinstance(result, AnswerResult)
    return result


def stream(
    runtime: Runtime,
    store: LibraryView,
    question: str,
    options: AskOptions,
    *,
    session: SessionState | None = None,
) -> Iterator[str | AnswerResult]:
    """Yield the answer's text in pieces as it is known, then the result; raises as ``ask`` does."""
    steps = _steps(runtime, store, question, options, session=session)
    while True:
        # Release before yielding: these settings are thread-local and shared with the caller.
        with runtime.computing():
            step = next(steps, None)
        if step is None:
            return
        yield step


def _steps(
    runtime: Runtime,
    store: LibraryView,
    question: str,
    options: AskOptions,
    *,
    session: SessionState | None,
) -> Iterator[str | AnswerResult]:
    tape = Tape() if options.record and session is None else None
    with ExitStack() as stack:
        view = stack.enter_context(store.snapshot())
        if tape is not None:
            stack.enter_context(tape.watching(runtime))
        documents = documents_to_ask(view, options.documents)
        question_ids(runtime, question)  # the user's own words must be a question
        turns = session.turns if session is not None and options.mode == "quote" else ()
        question_in_context = in_context(question, turns)
        start = _start(runtime, options, session, tape)
        asking = _Asking(runtime, view, documents, options, turns)
        if options.mode == "free":
            opened = asking.read(question_in_context, start)
            judgement = opened.judgement
            draft = yield from written_answer(
                runtime,
                view,
                documents,
                opened.run,
                judgement,
                question=question,
                max_tokens=options.max_tokens,
            )
        else:
            opened, judgement, draft = asking.quoted(
                question, question_in_context, start, recorded=tape is not None
            )
            draft = _suppress_other_aims(question, draft)
            if draft.text:
                yield draft.text
        run = opened.run
        result = replace(
            _result(asking, opened, draft, judgement, question, tape),
            hint=_hint(asking, run, question, draft),
        )
        if session is not None:  # which reads the answer, and may retrieve for it
            session.record(question, result, decoder=run.decoder, own_chunks=run.source.own_chunks)
    yield result


def _start(
    runtime: Runtime, options: AskOptions, session: SessionState | None, tape: Tape | None
) -> PromptStart:
    """Return what the prompt continues: a conversation, or nothing, recorded or not."""
    if session is not None:
        return PromptStart(
            tuple(session.own_chunks),
            uses_own_chunks=options.mode == "free",
            open_decoder=session.decoder,
        )
    return PromptStart(open_decoder=None if tape is None else partial(tape.decoder, runtime))


class _Opened(NamedTuple):
    """A question that went through the model, and what was made of the passages it retrieved."""

    run: PromptRun
    judgement: Judgement

    @property
    def tokens_read(self) -> int:
        """Tokens of the prompt, and of the passages."""
        return self.run.prompt_tokens + self.run.source.tokens_read


@dataclass(frozen=True)
class _Asking:
    """Shared context for asking a question and its parts."""

    runtime: Runtime
    view: LibraryView
    documents: DocumentRows
    options: AskOptions
    turns: Sequence[Mapping[str, Any]]

    def read(
        self, question: str, start: PromptStart | None = None, *, reader: bool = True
    ) -> _Opened:
        """Feed a question: its last landmark retrieves, the reader pass reads the passages.

        Without a ``reader`` they are only retrieved, and nothing is judged.
        """
        how = self.options.search_options()
        if not reader:
            how = replace(how, reader_pass=False)
        run = open_prompt(self.runtime, self.view, question, how, start=start)
        if not reader:
            return _Opened(run, Judgement())
        return _Opened(run, judge(self.runtime, run, threshold=self.options.threshold))

    def quoted(
        self, question: str, question_in_context: str, start: PromptStart, *, recorded: bool
    ) -> tuple[_Opened, Judgement, Draft]:
        """Answer a question, or its two parts, and return the judgement that the answer rests on.

        Several fields or cells that were looked up answer the whole question. Where its parts are
        answered, the reader does not read the whole, unless all of it is to be ``recorded``.
        """
        parts = question_parts(question) if "parts" in self.options.sources else ()
        reads = self.options.reread and self.runtime.model.span_reader is not None
        waits = bool(parts) and reads and not recorded
        whole = self.read(question_in_context, start, reader=not waits)
        if waits and any(map(_has_several, self._lookups(whole, question))):
            whole, waits = self.read(question_in_context, start), False  # for their confidence
        draft = None if waits else self._draft(whole, question)
        if draft is not None and (not parts or _has_several(draft)):
            return whole, whole.judgement, draft
        opened = [self.read(in_context(part.in_context, self.turns)) for part in parts]
        drafts = [
            self._draft(part_run, part.question)
            for part_run, part in zip(opened, parts, strict=True)
        ]
        tokens_read = sum(part.tokens_read for part in opened)
        combination = combined(parts, drafts)
        if combination is None:
            if draft is None:
                tokens_read += whole.tokens_read
                whole = self.read(question_in_context, start)
                draft = self._draft(whole, question)
            return whole, whole.judgement, replace(draft, tokens_read=tokens_read)
        answered = [
            part.judgement
            for part, part_draft in zip(opened, drafts, strict=True)
            if part_draft.found
        ]
        least = min(answered, key=lambda judgement: judgement.confidence)
        return whole, least, replace(combination, tokens_read=tokens_read)

    def _draft(self, opened: _Opened, question: str) -> Draft:
        """Return the best candidate of all sources."""
        quote = self._quote(opened, question)
        return best_candidate([*self._lookups(opened, question), quote], self.options.threshold)

    def _quote(self, opened: _Opened, question: str) -> Draft:
        """Propose a span of what the reader has read."""
        passages = opened.run.passages
        if "reader" not in self.options.sources:
            return Draft("", False, 0.0, cite_closest(self.view, self.documents, passages))
        return quote_answer(
            self.view, self.documents, opened.judgement, question, passages=passages
        )

    def _lookups(self, opened: _Opened, question: str) -> Iterator[Draft]:
        """Propose a field of the document, and cells of a table or what is computed from them.

        What is looked up has the reader's confidence that the documents hold an answer, and no
        probability of its own: nothing calibrates it.
        """
        passages, scope = opened.run.passages, opened.run.source.query.scope
        sources, confidence = self.options.sources, opened.judgement.confidence
        if "metadata" in sources:
            draft = metadata_answer(self.view, question, scope, passages)
            if draft is not None:
                yield replace(draft, confidence=confidence)
        if "table" in sources:
            draft = table_answer(
                self.runtime, self.view, self.documents, question, passages, scope=scope
            )
            if draft is not None:
                yield replace(draft, confidence=confidence)


def _has_several(draft: Draft) -> bool:
    """Return whether a draft is of several fields or cells that were looked up."""
    return draft.origin != "reader" and len(draft.citations) > 1


def best_candidate(candidates: Sequence[Draft], threshold: float | None) -> Draft:
    """Return the first candidate that a user's ``threshold`` admits, else the last.

    Candidates are in the order of ``SOURCES``: a look-up proposes something only where it explains
    all words of the question, so it comes before the reader's quote, which is always there.
    """
    *lookups, quote = candidates
    admitted = (draft for draft in lookups if threshold is None or draft.confidence >= threshold)
    return next(admitted, quote)


def _suppress_other_aims(question: str, draft: Draft) -> Draft:
    """Drop the answer to a question about drt, and the closest passages to a summary's request."""
    if is_about_drt(question):
        return replace(draft, text="", found=False, citations=(), likely=False)
    if requested_summary(question) == "" and not draft.found:
        return replace(draft, citations=(), likely=False)
    return draft


def _passage(view: LibraryView, documents: DocumentRows, citations: Sequence[Citation]) -> str:
    """Return the text around a citation, "" where there is none."""
    if not citations:
        return ""
    (citation,) = citations
    row = documents.row(citation.document)
    return passage_around(view, row, citation.start, citation.end)


def _result(
    asking: _Asking,
    opened: _Opened,
    draft: Draft,
    judgement: Judgement,
    question: str,
    tape: Tape | None,
) -> AnswerResult:
    """Return a draft as a result without a hint, with the ``judgement`` that it rests on."""
    view, documents = asking.view, asking.documents
    tokens_read = opened.tokens_read + draft.tokens_read  # before a trace has the quote read, too
    likely = draft.likely and not draft.found
    return AnswerResult(
        text=draft.text,
        found=draft.found,
        confidence=draft.confidence,
        mode=asking.options.mode,
        citations=tuple(replace(c, likely=likely or c.likely) for c in draft.citations),
        tokens_read=tokens_read,
        trace=_trace(asking, opened, draft, question, tape),
        signals=judgement.signals,
        likely=draft.likely,
        quote_probability=draft.probability,
        origin=draft.origin,
        passage=_passage(view, documents, draft.citations[:1]),
        second_passage=_passage(view, documents, draft.citations[1:2] if not draft.found else ()),
        candidates=draft.candidates,
        verdict=draft.verdict,
        answer_type=answer_type(judgement.types),
        verdict_score=judgement.verdict,
        scan=opened.run.source.query.scan_info,
    )


def _hint(asking: _Asking, run: PromptRun, question: str, draft: Draft) -> str:
    """Return what may help where no answer is shown, within what the filters leave."""
    options = asking.options
    scope = run.source.query.scope
    search = replace(options.search_options(), document_ids=scope.document_ids)
    threshold = options.threshold
    return hint(asking.view, question, draft, search, threshold=threshold)


def _trace(
    asking: _Asking, opened: _Opened, draft: Draft, question: str, tape: Tape | None
) -> Trace:
    """Return the trace of the retrievals, with a ``tape`` of all that the model computed."""
    run = opened.run
    if tape is None:
        document_ids = {p.row.document_id for passages in run.source.passages for p in passages}
        rows = {document_id: asking.documents.row(document_id) for document_id in document_ids}
        return make_trace(question, run.source, rows)
    quote = draft.text if asking.options.mode == "quote" else None
    texts = turn_texts(asking.runtime, run, tape, question, quote=quote)
    recording = Recording(tape, *texts, opened.judgement.start_shares)
    rows = {row.id: row for row in asking.view.documents()}  # any may come close
    return make_trace(question, run.source, rows, recording)
