"""Presents a candidate as the result of a question: its citations, passages, hint and trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from drt_engine.answer.candidates import Candidate, ReadQuestion
from drt_engine.answer.grain import answer_type
from drt_engine.answer.hint import hint
from drt_engine.answer.options import AskOptions
from drt_engine.answer.result import AnswerResult
from drt_engine.answer.sentences import passage_around
from drt_engine.generate.memory_writer import WrittenPiece, read_again
from drt_engine.generate.passage_memory import passage_reader
from drt_engine.generate.prompt_run import PromptRun
from drt_engine.results import Citation, Trace
from drt_engine.store.view import LibraryView
from drt_engine.trace.record import Recording, make_trace, turn_texts
from drt_engine.trace.tape import Tape


def present(
    question: ReadQuestion,
    view: LibraryView,
    run: PromptRun,
    candidate: Candidate,
    *,
    options: AskOptions,
    tape: Tape | None,
) -> AnswerResult:
    """Return the result of a question whose answer is a ``candidate``.

    A ``tape`` has all that the model computed, for a full trace.
    """
    judgement, scope = question.judgement, question.scope
    search = replace(options.search_options(), document_ids=scope.document_ids)
    tokens_read = run.prompt_tokens + run.source.tokens_read  # before a trace reads the quote
    is_answer, citations = candidate.found, candidate.citations
    is_likely = candidate.likely and not is_answer
    return AnswerResult(
        text=candidate.text,
        found=is_answer,
        confidence=candidate.confidence,
        mode=options.mode,
        citations=tuple(replace(c, likely=is_likely or c.likely) for c in citations),
        tokens_read=tokens_read,
        trace=_trace(question, view, run, candidate, mode=options.mode, tape=tape),
        signals=judgement.signals,
        likely=candidate.likely,
        quote_probability=candidate.probability,
        origin=candidate.origin,
        passage=_passage(question, view, citations[:1]),
        second_passage="" if is_answer else _passage(question, view, citations[1:2]),
        candidates=candidate.quotes,
        verdict=candidate.verdict,
        answer_type=answer_type(judgement.types),
        verdict_score=judgement.verdict,
        scan=run.source.query.scan_info,
        hint=hint(view, question.text, candidate, search, threshold=options.threshold),
    )


def _passage(question: ReadQuestion, view: LibraryView, citations: Sequence[Citation]) -> str:
    """Return the text around a citation, "" where there is none."""
    if not citations:
        return ""
    (citation,) = citations
    row = question.documents.row(citation.document)
    return passage_around(view, row, citation.start, citation.end)


def _trace(
    question: ReadQuestion,
    view: LibraryView,
    run: PromptRun,
    candidate: Candidate,
    *,
    mode: str,
    tape: Tape | None,
) -> Trace:
    """Return the trace of the retrievals, with a ``tape`` of all that the model computed."""
    if tape is None:
        document_ids = {p.row.document_id for passages in run.source.passages for p in passages}
        rows = {document_id: question.documents.row(document_id) for document_id in document_ids}
        return make_trace(question.text, run.source, rows)
    decoder = passage_reader(question.runtime)
    written: Sequence[WrittenPiece] = ()
    if decoder is not None:
        written = read_again(decoder, question.text, candidate.text, run.passages)
    quote = candidate.text if mode == "quote" and decoder is None else None
    question_texts, texts = turn_texts(question.runtime, run, tape, question.text, quote=quote)
    answer_texts = texts if decoder is None else ()
    pointer = question.judgement.start_shares
    recording = Recording(tape, question_texts, answer_texts, pointer, written)
    rows = {row.id: row for row in view.documents()}  # any may come close
    return make_trace(question.text, run.source, rows, recording)
