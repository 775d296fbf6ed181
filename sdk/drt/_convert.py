"""Engine results into SDK results, field by field; reads no file and calls nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ._types import (
    Answer,
    Citation,
    DocumentInfo,
    IngestProgress,
    Summary,
    Trace,
    TraceEntry,
    TraceGroup,
    Turn,
)

if TYPE_CHECKING:
    from drt_engine.answer.ask import AnswerResult
    from drt_engine.answer.citations import CitationResult
    from drt_engine.answer.trace import Trace as EngineTrace
    from drt_engine.ingest.pipeline import IngestProgress as EngineProgress
    from drt_engine.store import DocumentRow
    from drt_engine.summarize import SummaryResult


def document(row: DocumentRow, *, new: bool = False) -> DocumentInfo:
    """A catalogue row as the SDK shows it."""
    return DocumentInfo(
        id=row.id,
        title=row.title,
        source=row.source,
        characters=row.characters,
        tokens=row.tokens,
        chunks=row.chunks,
        new=new,
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
        probability=result.probability,
        context=result.context,
    )


def trace(result: EngineTrace) -> Trace:
    """What was retrieved, with the engine's own rendering kept beside it."""
    groups = tuple(
        TraceGroup(
            group=group.group,
            chunk=group.chunk,
            entries=tuple(
                TraceEntry(
                    chunk=entry.chunk_id,
                    document=entry.document,
                    title=entry.title,
                    start=entry.start,
                    text=entry.text,
                    score=entry.score,
                    probability=entry.probability,
                    source=entry.source,
                )
                for entry in group.entries
            ),
        )
        for group in result.groups
    )
    return Trace(question=result.question, groups=groups, rendered=result.as_text())


def answer(result: AnswerResult, *, seconds: float, model: str) -> Answer:
    """An answer, with the time it took and the model that gave it."""
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
