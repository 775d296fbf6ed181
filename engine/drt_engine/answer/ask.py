"""One question, step by step: parse, retrieve, read, propose, rank, present."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from drt_engine.answer.candidates import Candidate, Proposer, ReadQuestion, best_candidate
from drt_engine.answer.documents import documents_to_ask
from drt_engine.answer.follow_up import in_context, question_part
from drt_engine.answer.hint import is_about_drt, requested_summary
from drt_engine.answer.judge import judge
from drt_engine.answer.metadata import propose_fields
from drt_engine.answer.options import AskOptions
from drt_engine.answer.present import present
from drt_engine.answer.quote_answer import cite_closest, propose_quote
from drt_engine.answer.result import AnswerResult
from drt_engine.answer.session import SessionState
from drt_engine.answer.tables.table_answer import propose_cells
from drt_engine.answer.write import written_around
from drt_engine.generate.passage_memory import writer_of
from drt_engine.generate.prompt_run import PromptStart, open_prompt, question_ids
from drt_engine.results import Source
from drt_engine.runtime import Runtime
from drt_engine.store.view import LibraryView
from drt_engine.trace.tape import Tape

# Each source of answers; all propose, and one candidate is chosen.
_PROPOSERS: Mapping[Source, Proposer] = {
    "metadata": propose_fields,
    "table": propose_cells,
    "reader": propose_quote,
}


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
    if options.mode == "free":
        writer_of(runtime)  # before a question is read for nothing
    tape = Tape() if options.record and session is None else None
    with ExitStack() as stack:
        view = stack.enter_context(store.snapshot())
        if tape is not None:
            stack.enter_context(tape.watching(runtime))
        documents = documents_to_ask(view, options.documents)
        # Parse: a follow-up question needs words of the one before it.
        question_ids(runtime, question)  # the user's own words must be a question
        turns = () if session is None else session.turns
        full_question = in_context(runtime, question, turns)
        is_part = bool(turns) and question_part(question) is not None
        # Retrieve: the last landmark of the question chooses passages. Read: find spans in them.
        start = _start(runtime, session, tape)
        run = open_prompt(runtime, view, full_question, options.search_options(), start=start)
        judgement = judge(runtime, run, threshold=options.threshold)
        scope = run.source.query.scope
        asked = full_question if is_part else question
        parsed = ReadQuestion(asked, runtime, documents, scope, run.passages, judgement)
        candidate = _suppress_other_aims(question, _best(parsed, view, options))
        if options.mode == "free":
            candidate = yield from written_around(
                candidate, parsed, view, run, max_tokens=options.max_tokens
            )
        elif candidate.text:
            yield candidate.text
        result = present(parsed, view, run, candidate, options=options, tape=tape)
        if session is not None:  # which reads the answer, and may retrieve for it
            session.record(question, result, decoder=run.decoder, own_chunks=run.source.own_chunks)
    yield result


def _start(runtime: Runtime, session: SessionState | None, tape: Tape | None) -> PromptStart:
    """Return what the prompt continues: a conversation, or nothing, recorded or not."""
    if session is not None:
        return PromptStart(tuple(session.own_chunks), open_decoder=session.decoder)
    return PromptStart(open_decoder=None if tape is None else partial(tape.decoder, runtime))


def _best(question: ReadQuestion, view: LibraryView, options: AskOptions) -> Candidate:
    """Have every source propose, and return the best candidate, or the closest passage."""
    proposed = (
        candidate
        for source, propose in _PROPOSERS.items()
        if source in options.sources
        for candidate in propose(question, view)
    )
    best = best_candidate(proposed, threshold=options.threshold)
    return best or Candidate("", False, 0.0, cite_closest(question, view))


def _suppress_other_aims(question: str, candidate: Candidate) -> Candidate:
    """Drop the answer to a question about drt, and the closest passages to a summary's request."""
    if is_about_drt(question):
        return replace(candidate, text="", found=False, citations=(), likely=False)
    if requested_summary(question) == "" and not candidate.found:
        return replace(candidate, citations=(), likely=False)
    return candidate
