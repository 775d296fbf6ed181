"""Engine results into SDK results where the two differ; reads no file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _engine
from ._types import (
    AllAnswers,
    Answer,
    Citation,
    DocumentInfo,
    Summary,
    Trace,
    Turn,
    WrittenSentence,
    WrittenText,
)

if TYPE_CHECKING:
    from drt_engine import results
    from drt_engine.answer.places import PlacesResult
    from drt_engine.answer.result import AnswerResult
    from drt_engine.store import DocumentRow
    from drt_engine.summary.result import SummaryResult


def document(row: DocumentRow, *, new: bool = False, skipped: tuple[str, ...] = ()) -> DocumentInfo:
    """Return a catalogue row as the SDK shows it."""
    return DocumentInfo(
        id=row.id,
        title=row.title,
        source=row.source,
        characters=row.characters,
        tokens=row.tokens,
        chunks=row.chunks,
        new=new,
        skipped=skipped,
        author=row.author,
        date=row.date,
        tags=row.tags,
    )


def trace(result: results.Trace, answer: Answer | None = None) -> Trace:
    """Return the retrievals of an answer, with their text for a terminal."""
    return Trace(**vars(result), answer=answer, rendered=_engine.trace_text(result))


def answer(result: AnswerResult, *, question: str, seconds: float, model: str) -> Answer:
    """Return an answer with its question, the time it took and the model that gave it."""
    return Answer(
        text=result.text if result.found else "",
        found=result.found,
        confidence=result.confidence,
        mode=result.mode,
        citations=result.citations,
        tokens_read=result.tokens_read,
        seconds=seconds,
        model=model,
        trace=trace(result.trace),
        question=question,
        state=result.state,
        quote_probability=result.quote_probability,
        passage=result.passage,
        second_passage=result.second_passage,
        verdict=result.verdict,
        hint=result.hint,
        scan=result.scan,
        origin=result.origin,
    )


def all_answers(result: PlacesResult, *, question: str, seconds: float, model: str) -> AllAnswers:
    """Return every place that answers, with its question, the time it took and the model."""
    return AllAnswers(
        question=question,
        answers=result.groups,
        passages_read=result.passages_read,
        tokens_read=result.tokens_read,
        seconds=seconds,
        model=model,
        scan=result.scan,
    )


def summary(result: SummaryResult, *, seconds: float, model: str) -> Summary:
    """Return a summary with the time it took and the model that wrote it."""
    return Summary(**vars(result), seconds=seconds, model=model)


def turns(transcript: Iterable[Mapping[str, Any]]) -> tuple[Turn, ...]:
    """Return the turns of a stored transcript."""
    return tuple(
        Turn(
            question=turn["question"],
            answer=turn["answer"] if turn["found"] else "",
            found=turn["found"],
            state=turn.get("state", "answer" if turn["found"] else "none"),
            confidence=turn["confidence"],
            quote_probability=turn.get("quote_probability"),
            mode=turn["mode"],
            citations=tuple(Citation(**citation) for citation in turn["citations"]),
            writing=_writing(turn.get("writing")),
        )
        for turn in transcript
    )


def stored_writing(writing: WrittenText, documents: Sequence[str]) -> dict[str, Any]:
    """Return what a writer wrote as a turn keeps it; it was sent sentences of ``documents``."""
    return {
        "state": writing.state,
        "sentences": [
            vars(sentence) | {"sources": list(sentence.sources)} for sentence in writing.sentences
        ],
        "sources": [
            {"number": number, "citation": _plain(citation)}
            for number, citation in sorted(writing.sources.items())
        ],
        "host": writing.host,
        "model": writing.model,
        "seconds": writing.seconds,
        "problem": writing.problem,
        "documents": list(documents),
    }


def _plain(citation: Citation) -> dict[str, Any]:
    """Return a citation as a turn keeps it: its library may be elsewhere next time."""
    return {name: value for name, value in vars(citation).items() if name != "library"}


def _writing(stored: Mapping[str, Any] | None) -> WrittenText | None:
    if stored is None:
        return None
    sentences = tuple(
        WrittenSentence(entry["text"], tuple(entry["sources"]), entry["problem"])
        for entry in stored["sentences"]
    )
    sources = {entry["number"]: Citation(**entry["citation"]) for entry in stored["sources"]}
    values = {name: value for name, value in stored.items() if name != "documents"}
    return WrittenText(**{**values, "sentences": sentences, "sources": sources})
