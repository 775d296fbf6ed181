"""One question: open the prompt, which retrieves and reads, judge, then quote or write."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from drt_engine.answer.documents import DocumentRows, documents_to_ask
from drt_engine.answer.follow_up import in_context
from drt_engine.answer.grain import answer_type
from drt_engine.answer.hint import hint, is_about_drt, requested_summary
from drt_engine.answer.judge import Judgement, judge
from drt_engine.answer.metadata.lookup import metadata_answer
from drt_engine.answer.parts import (
    Part,
    combined,
    missing_side,
    question_parts,
    with_side,
    without_a_side,
)
from drt_engine.answer.quote_answer import quote_answer
from drt_engine.answer.result import AnswerResult, Draft
from drt_engine.answer.sentences import passage_around
from drt_engine.answer.session import SessionState
from drt_engine.answer.tables.table_answer import table_answer
from drt_engine.answer.write import written_answer
from drt_engine.errors import ConfigError
from drt_engine.generate.prompt_run import PromptRun, PromptStart, open_prompt, question_ids
from drt_engine.results import Citation, Trace
from drt_engine.retrieval.candidates import RetrieverName
from drt_engine.retrieval.filters import NO_FILTERS, Filters
from drt_engine.retrieval.library import SearchOptions
from drt_engine.runtime import Runtime
from drt_engine.store.view import LibraryView
from drt_engine.trace.record import Recording, make_trace, token_texts
from drt_engine.trace.tape import Tape


@dataclass(frozen=True)
class AskOptions:
    """How a question is asked; ``documents`` are ids (``None``: the whole library).

    ``top_k`` chunks are retrieved at a time (``None``: as many as the model is made for).
    ``reread`` reads them with the question. ``record`` makes the answer's trace a full one, which
    changes nothing else. ``filters`` restrict the documents, and the parts of them.
    ``approximate`` is as in ``SearchOptions``.
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

    def __post_init__(self) -> None:
        if self.mode not in ("quote", "free"):
            raise ConfigError(f"mode is {self.mode!r}, expected 'quote' or 'free'")
        self.search_options()  # which checks its own
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise ConfigError(f"threshold is {self.threshold}, expected a number from 0 to 1")
        if self.max_tokens < 1:
            raise ConfigError(f"max_tokens is {self.max_tokens}, expected 1 or more")

    def search_options(self) -> SearchOptions:
        """Return the part of the options that retrieval needs."""
        return SearchOptions(
            self.documents,
            self.top_k,
            self.retriever,
            self.reread,
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

    The library is the one of this moment to the end, whatever writers do. Raises ``QuestionError``
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
        # Never held while the caller has the turn: these settings are its thread's, too.
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
        # Feeds the question: its last landmark retrieves, the reader pass reads the passages.
        run = open_prompt(runtime, view, question_in_context, options.search_options(), start=start)
        judgement = judge(runtime, run, threshold=options.threshold)
        draft = yield from _draft(
            runtime,
            view,
            documents,
            run,
            judgement,
            question=question,
            options=options,
            turns=turns,
        )
        tokens_read = run.prompt_tokens + run.source.tokens_read + draft.tokens_read
        if tape is None:
            trace = _trace(question, run, documents)
        else:
            asked_texts, answer_texts = _token_texts(
                runtime, run, tape, question, quote=draft.text if options.mode == "quote" else None
            )
            recording = Recording(tape, asked_texts, answer_texts, judgement.start_shares)
            rows = {row.id: row for row in view.documents()}  # any may come close
            trace = make_trace(question, run.source, rows, recording)
        likely = draft.likely and not draft.found
        result = AnswerResult(
            text=draft.text,
            found=draft.found,
            confidence=draft.confidence,
            mode=options.mode,
            citations=tuple(replace(c, likely=likely or c.likely) for c in draft.citations),
            tokens_read=tokens_read,
            trace=trace,
            signals=judgement.signals,
            likely=draft.likely,
            quote_probability=(
                draft.confidence if draft.quote_probability is None else draft.quote_probability
            ),
            passage=_passage(view, documents, draft.citations[:1]),
            second_passage=_passage(
                view, documents, draft.citations[1:2] if not draft.found else ()
            ),
            candidates=draft.candidates,
            verdict=draft.verdict,
            hint=hint(view, question, draft, options.search_options(), threshold=options.threshold),
            answer_type=answer_type(judgement.types),
            verdict_score=judgement.verdict,
            scan=run.source.query.scan_info,
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


def _draft(
    runtime: Runtime,
    view: LibraryView,
    documents: DocumentRows,
    run: PromptRun,
    judgement: Judgement,
    *,
    question: str,
    options: AskOptions,
    turns: Sequence[Mapping[str, Any]],
) -> Generator[str, None, Draft]:
    """Quote, or write; yield the text in pieces and return the whole."""
    if options.mode == "free":
        written = written_answer(
            runtime,
            view,
            documents,
            run,
            judgement,
            question=question,
            max_tokens=options.max_tokens,
        )
        return (yield from written)

    tokens_read = 0  # for the parts

    def quoted(part: Part) -> Draft:
        nonlocal tokens_read
        asked = in_context(part.in_context, turns)
        part_run = open_prompt(runtime, view, asked, options.search_options())
        tokens_read += part_run.prompt_tokens + part_run.source.tokens_read
        part_judgement = judge(runtime, part_run, threshold=options.threshold)
        return _quoted(
            runtime,
            view,
            documents,
            part_run,
            part_judgement,
            question=part.question,
            options=options,
        )

    draft = _quoted(runtime, view, documents, run, judgement, question=question, options=options)
    # Several fields, or cells, that were looked up answer the whole question.
    is_whole = not draft.candidates and len(draft.citations) > 1
    parts = () if is_whole else question_parts(question)
    side = missing_side(question, draft.citations) if draft.found or draft.likely else None
    if parts:
        draft = combined(parts, [quoted(part) for part in parts]) or draft
    elif side is not None:
        draft = without_a_side(question, with_side(question, draft, quoted(side)))
    if is_about_drt(question):  # which no document answers, and no passage is close to
        draft = replace(draft, text="", found=False, citations=(), likely=False)
    elif requested_summary(question) == "" and not draft.found:
        draft = replace(draft, citations=(), likely=False)
    if draft.text:
        yield draft.text
    return replace(draft, tokens_read=tokens_read)


def _quoted(
    runtime: Runtime,
    view: LibraryView,
    documents: DocumentRows,
    run: PromptRun,
    judgement: Judgement,
    *,
    question: str,
    options: AskOptions,
) -> Draft:
    """Look up what the document says of itself, then a cell of a table; all else is a span."""
    draft = metadata_answer(view, question, options.documents, run.passages) or table_answer(
        runtime, view, documents, question, run.passages
    )
    if draft is None or (options.threshold is not None and draft.confidence < options.threshold):
        return quote_answer(view, documents, judgement, question, passages=run.passages)
    return draft


def _passage(view: LibraryView, documents: DocumentRows, citations: Sequence[Citation]) -> str:
    """Return the text around a citation, "" where there is none."""
    if not citations:
        return ""
    (citation,) = citations
    row = documents.row(citation.document)
    return passage_around(view, row, citation.start, citation.end)


def _trace(question: str, run: PromptRun, documents: DocumentRows) -> Trace:
    """Return the trace of the retrievals alone."""
    document_ids = {p.row.document_id for passages in run.source.passages for p in passages}
    rows = {document_id: documents.row(document_id) for document_id in document_ids}
    return make_trace(question, run.source, rows)


def _token_texts(
    runtime: Runtime, run: PromptRun, tape: Tape, question: str, *, quote: str | None
) -> tuple[list[str], list[str]]:
    """Return the texts of the question's and of the answer's tokens, for a full trace.

    A ``quote`` is first read by the decoder, as in a conversation; without one, the answer is what
    the decoder has written.
    """
    tokenizer = runtime.tokenizer
    question_texts = token_texts(question, tokenizer.encode(question).ends)
    if quote is not None:
        encoding = tokenizer.encode(quote)
        if encoding.ids:
            run.decoder.feed(encoding.ids)
        return question_texts, token_texts(quote, encoding.ends)
    ids = tape.fed[2 * len(run.question_ids) + 1 :]
    prefixes = [tokenizer.decode(ids[: i + 1]) for i in range(len(ids))]
    text = prefixes[-1] if prefixes else ""
    return question_texts, token_texts(text, [len(prefix) for prefix in prefixes])
