"""Engine results into SDK results, field by field; reads no file and calls nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ._types import (
    Answer,
    Change,
    Citation,
    DocumentInfo,
    IngestProgress,
    Summary,
    Trace,
    TraceCandidate,
    TraceDocument,
    TraceEntry,
    TraceGroup,
    TraceToken,
    Turn,
)

if TYPE_CHECKING:
    from drt_engine.answer.ask import AnswerResult
    from drt_engine.answer.citations import CitationResult
    from drt_engine.ingest.pipeline import IngestProgress as EngineProgress
    from drt_engine.store import DocumentRow
    from drt_engine.summary.result import SummaryResult
    from drt_engine.trace.record import Trace as EngineTrace
    from drt_engine.trace.record import TraceCandidate as EngineCandidate
    from drt_engine.trace.record import TraceEntry as EngineEntry
    from drt_engine.trace.record import TraceGroup as EngineGroup


def document(
    row: DocumentRow,
    *,
    new: bool = False,
    skipped: tuple[str, ...] = (),
    described: tuple[str, str] = ("", ""),
) -> DocumentInfo:
    """A catalogue row as the SDK shows it."""
    return DocumentInfo(
        id=row.id,
        title=row.title,
        source=row.source,
        characters=row.characters,
        tokens=row.tokens,
        chunks=row.chunks,
        new=new,
        skipped=skipped,
        author=described[0],
        date=described[1],
    )


def progress(step: EngineProgress) -> IngestProgress:
    """How far a reading is."""
    return IngestProgress(
        source=step.source,
        characters=step.characters,
        total_characters=step.total_characters,
        tokens=step.tokens,
        seconds=step.seconds,
    )


def citation(result: CitationResult) -> Citation:
    """One citation."""
    return Citation(
        document=result.document,
        title=result.title,
        source=result.source,
        start=result.start,
        end=result.end,
        quote=result.quote,
        page=result.page,
        section=result.section,
        line=result.line,
        source_start=result.source_start,
        source_end=result.source_end,
        probability=result.probability,
        context=result.context,
    )


def trace(result: EngineTrace, answer: Answer | None = None) -> Trace:
    """What was retrieved, with the engine's own rendering kept beside it."""
    return Trace(
        question=result.question,
        groups=tuple(_trace_group(group) for group in result.groups),
        tokens=tuple(
            TraceToken(text=one.text, part=one.part, chunk=one.chunk, mass=one.mass)
            for one in result.tokens
        ),
        documents=tuple(
            TraceDocument(
                id=one.id,
                title=one.title,
                source=one.source,
                characters=one.characters,
                heat=one.heat,
            )
            for one in result.documents
        ),
        answer=answer,
        rendered=result.as_text(),
    )


def _trace_group(group: EngineGroup) -> TraceGroup:
    return TraceGroup(
        group=group.group,
        chunk=group.chunk,
        entries=tuple(_trace_entry(entry) for entry in group.entries),
        by_landmark=tuple(_candidate(one) for one in group.by_landmark),
        by_words=tuple(_candidate(one) for one in group.by_words),
    )


def _trace_entry(entry: EngineEntry) -> TraceEntry:
    return TraceEntry(
        chunk=entry.chunk_id,
        document=entry.document,
        title=entry.title,
        start=entry.start,
        text=entry.text,
        score=entry.score,
        probability=entry.probability,
        source=entry.source,
        page=entry.page,
        section=entry.section,
        landmark=entry.landmark,
        lexical=entry.lexical,
        late=entry.late,
        mass=entry.mass,
        pointer=entry.pointer,
    )


def _candidate(one: EngineCandidate) -> TraceCandidate:
    return TraceCandidate(
        chunk=one.chunk_id,
        document=one.document,
        title=one.title,
        start=one.start,
        text=one.text,
        score=one.score,
        retrieved=one.retrieved,
    )


def answer(result: AnswerResult, *, question: str, seconds: float, model: str) -> Answer:
    """An answer, with its question, the time it took and the model that gave it."""
    return Answer(
        text=result.text if result.found else "",
        found=result.found,
        confidence=result.confidence,
        mode=result.mode,
        citations=tuple(citation(one) for one in result.citations),
        tokens_read=result.tokens_read,
        seconds=seconds,
        model=model,
        trace=trace(result.trace),
        question=question,
    )


def summary(result: SummaryResult, *, seconds: float, model: str) -> Summary:
    """A summary, with the time it took and the model that gave it."""
    return Summary(
        text=result.text,
        mode=result.mode,
        sentences=tuple(citation(one) for one in result.sentences),
        tokens_read=result.tokens_read,
        seconds=seconds,
        model=model,
        changes=tuple(
            Change(
                kind=one.kind,
                old=one.old,
                new=None if one.new is None else citation(one.new),
            )
            for one in result.changes
        ),
        changes_omitted=result.changes_omitted,
    )


def turns(transcript: Iterable[Mapping[str, Any]]) -> tuple[Turn, ...]:
    """The turns of a stored transcript."""
    return tuple(
        Turn(
            question=turn["question"],
            answer=turn["answer"] if turn["found"] else "",
            found=turn["found"],
            confidence=turn["confidence"],
            mode=turn["mode"],
            citations=tuple(Citation(**one) for one in turn["citations"]),
        )
        for turn in transcript
    )
