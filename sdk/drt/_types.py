"""What the SDK returns: frozen dataclasses of plain values, with the documented JSON shapes.

Those that the engine makes as they are come from ``drt_engine.results``; ``_convert.py`` fills in
the others. Annotations are evaluated here: they are resolved in the namespace of ``drt``.
"""

import dataclasses
import datetime
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypedDict

from drt_engine import results
from drt_engine.results import (
    AnswerGroup,
    AnswerState,
    Change,
    Citation,
    DoctorCheck,
    Finding,
    FoundTurn,
    IngestProgress,
    SearchHit,
    SessionInfo,
    TraceCandidate,
    TraceDocument,
    TraceEntry,
    TraceGroup,
    TraceToken,
    UnreadLibrary,
)

__all__ = [
    "AllAnswers",
    "Answer",
    "AnswerGroup",
    "AnswerMode",
    "AnswerState",
    "AskOptions",
    "AskProgress",
    "Change",
    "Citation",
    "DoctorCheck",
    "DoctorReport",
    "DocumentInfo",
    "FilterOptions",
    "Finding",
    "FormatInfo",
    "FoundTurn",
    "IngestProgress",
    "IngestReport",
    "IngestResult",
    "ModelInfo",
    "PartOptions",
    "Passage",
    "Retriever",
    "SearchHit",
    "SearchOptions",
    "SearchResult",
    "SessionInfo",
    "Summary",
    "SummaryLength",
    "SummaryMode",
    "Trace",
    "TraceCandidate",
    "TraceDocument",
    "TraceEntry",
    "TraceGroup",
    "TraceToken",
    "Turn",
    "UnreadLibrary",
    "WatchEvent",
]

AnswerMode = Literal["quote", "free"]
Retriever = Literal["hybrid", "landmark", "lexical"]
SummaryMode = Literal["auto", "extractive", "abstractive"]
SummaryLength = Literal["short", "medium", "long"]


@dataclass(frozen=True)
class DocumentInfo:
    """A document of a library; ``new`` is true when this call read it.

    ``skipped`` says what its reader passed over and why; it is empty unless this call opened the
    file. ``author`` and ``date`` are what the document names (the date as YYYY-MM-DD where that is
    certain), empty where it names none; ``tags`` are the user's.
    """

    id: str
    title: str
    source: str
    characters: int
    tokens: int
    chunks: int
    new: bool = False
    skipped: tuple[str, ...] = ()
    author: str = ""
    date: str = ""
    tags: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the document as plain values."""
        # asdict takes ten times as long, which thousands would feel
        return vars(self) | {"skipped": list(self.skipped), "tags": list(self.tags)}


class PartOptions(TypedDict, total=False):
    """Which part of a library is asked, searched or summarised: what all of them leave.

    pages: only these pages: the first and the last.
    types: only documents of these formats, by name or suffix: "pdf", ".md".
    tags: only documents that have all of these tags.
    """

    pages: tuple[int, int] | None
    types: str | Sequence[str] | None
    tags: str | Sequence[str] | None


class FilterOptions(PartOptions, total=False):
    """Which part of a library is asked or searched: ``PartOptions``, and three more.

    documents: only these, by id, title, source or ``DocumentInfo``.
    section: only sections whose name, or that of a section around them, begins with this.
    since: only documents of this day, month or year (YYYY-MM-DD) or later: by the date that they
        name, or, where they name none with certainty, by the day when they were read.
    """

    documents: str | DocumentInfo | Sequence[str | DocumentInfo] | None
    section: str | None
    since: str | datetime.date | None


class AskOptions(FilterOptions, total=False):
    """Options of a question, the same for ``Assistant.ask``, ``stream``, ``trace`` and sessions.

    Those of ``FilterOptions``, and:
    mode: "quote" answers with spans of the documents, "free" lets the decoder write.
    top_k: chunks retrieved at a time, 1 to 64; the model's own number by default.
    retriever: how to find candidates: "landmark", "lexical" (BM25) or "hybrid" (both).
    reread: whether to run the reader pass over retrieved chunks, or use chunk memory alone.
    threshold: confidence from which an answer counts as found; the model's own by default.
    max_tokens: longest text of free mode.
    """

    mode: AnswerMode
    top_k: int | None
    retriever: Retriever
    reread: bool
    threshold: float | None
    max_tokens: int


class SearchOptions(FilterOptions, total=False):
    """Options of ``Assistant.search``: those of ``FilterOptions``, and two more.

    top_k: the largest number of passages, 1 to 50; 10 by default.
    retriever: how to find them: "landmark", "lexical" (BM25, loads no model) or "hybrid" (both).
    """

    top_k: int
    retriever: Retriever


@dataclass(frozen=True)
class IngestReport:
    """The result of reading several paths.

    ``failures`` pairs a source with its sentence; ``skipped`` counts files found in folders and by
    patterns that no reader knows, ``notes`` says what else of archives was passed over and why;
    ``tokens`` counts what was read now, in ``seconds`` of reading: not what an interrupted reading
    left, nor what the older version of a document holds.
    """

    documents: tuple[DocumentInfo, ...]
    failures: tuple[tuple[str, str], ...]
    tokens: int
    seconds: float
    skipped: int = 0
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, results: "Iterable[IngestResult]") -> "IngestReport":
        """Return the report of what ``Assistant.ingest_each`` yielded, all of it or a part."""
        listed = list(results)
        return cls(
            documents=tuple(result.document for result in listed if result.document is not None),
            failures=tuple(
                (result.source, str(result.error)) for result in listed if result.error is not None
            ),
            tokens=sum(result.tokens for result in listed),
            seconds=sum(result.seconds for result in listed),
            skipped=sum(result.skipped for result in listed),
            # an archive may be named twice
            notes=tuple(dict.fromkeys(note for result in listed for note in result.notes)),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {
            "documents": [document.to_dict() for document in self.documents],
            "failures": [
                {"source": source, "message": message} for source, message in self.failures
            ],
            "skipped": self.skipped,
            "notes": list(self.notes),
            "tokens": self.tokens,
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class IngestResult:
    """One document of several: what it is in the library, or why it could not be read.

    ``tokens`` were read now, in ``seconds``: fewer than the document has where a part was read
    before. With neither document nor error, it is the last result of a path where something was
    passed over: ``skipped`` counts files that no reader knows, ``notes`` says what else of
    archives, and why.
    """

    source: str
    document: DocumentInfo | None
    error: Exception | None
    seconds: float = 0.0
    tokens: int = 0
    skipped: int = 0
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return {
            "source": self.source,
            "document": None if self.document is None else self.document.to_dict(),
            "error": None if self.error is None else str(self.error),
            "skipped": self.skipped,
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class WatchEvent:
    """Something that changed in a watched folder, and what was done about it."""

    kind: Literal["read", "removed", "failed"]
    source: str
    document: DocumentInfo | None
    message: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class AskProgress:
    """How many of several questions are answered, in how many seconds; ``total`` where known."""

    done: int
    total: int | None
    seconds: float


@dataclass(frozen=True)
class Passage:
    """A cited place with its surroundings.

    ``before``, ``quote`` and ``after`` join to the text of the document there.
    """

    citation: Citation
    before: str
    quote: str
    after: str

    def to_dict(self) -> dict[str, Any]:
        """Return the passage as plain values."""
        values = self.citation.to_dict() | {"before": self.before, "after": self.after}
        del values["probability"]
        return values


@dataclass(frozen=True)
class Trace(results.Trace):
    """What the model retrieved for each chunk of an answer and each layer group.

    ``Assistant.trace`` fills in everything; the trace of an ``Answer`` holds the retrievals alone.
    """

    answer: "Answer | None" = field(default=None, repr=False)
    rendered: str = field(default="", repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the trace as plain values, with the answer it belongs to."""
        values = asdict(replace(self, groups=(), answer=None))
        del values["rendered"]
        values["groups"] = [group.to_dict() for group in self.groups]
        values["answer"] = None if self.answer is None else self.answer.to_dict()
        return values

    def as_text(self) -> str:
        """Return the trace as text for a terminal."""
        return self.rendered

    def as_html(self) -> str:
        """Return the trace as an HTML page that needs no network and no other file."""
        from . import _engine

        return _engine.trace_page(self.to_dict())


@dataclass(frozen=True)
class Answer:
    """An answer to ``question``, and its evidence.

    ``state`` is "answer" (a quote that is right in four of five cases or more), "likely" (the
    documents probably answer in the ``sentence`` or the ``passage`` shown) or "none" (they do not
    say). ``found`` is true for "answer" alone; otherwise ``text`` is empty and the one citation is
    the closest passage. ``confidence`` is the probability that the documents hold an answer,
    ``quote_probability`` that the first citation's quote is right. ``verdict`` is "yes" or "no"
    where the question asks for it and the model is sure. ``hint`` is a sentence about why nothing
    was found, or what to ask or run instead; mostly empty. The ``mode`` is "summary" for a summary,
    which a conversation was asked for: its citations are its sentences, its probabilities are 1.
    """

    text: str
    found: bool
    confidence: float
    mode: str
    citations: tuple[Citation, ...]
    tokens_read: int
    seconds: float
    model: str
    trace: Trace | None = field(default=None, repr=False, compare=False)
    question: str = ""
    state: AnswerState = "none"
    quote_probability: float = 0.0
    passage: str = field(default="", repr=False)
    verdict: str | None = None
    hint: str = ""
    unread_libraries: tuple[UnreadLibrary, ...] = ()

    @property
    def sentence(self) -> str:
        """The sentence around the first citation's quote; empty without a citation."""
        return self.citations[0].sentence if self.citations else ""

    def as_markdown(self) -> str:
        """Return the answer as Markdown: the words that answer in bold, places as footnotes."""
        from . import _render

        return _render.as_markdown(self)

    def _repr_html_(self) -> str:
        """Return the answer as a notebook shows it."""
        from . import _render

        return _render.as_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as in the documented JSON of ``ask``."""
        return {
            "question": self.question,
            "answer": self.text,
            "found": self.found,
            "state": self.state,
            "confidence": self.confidence,
            "quote_probability": self.quote_probability,
            "mode": self.mode,
            "verdict": self.verdict,
            "hint": self.hint,
            "sentence": self.sentence,
            "passage": self.passage,
            "citations": [citation.to_dict() for citation in self.citations],
            "tokens_read": self.tokens_read,
            "seconds": self.seconds,
            "model": self.model,
            "unread_libraries": [entry.to_dict() for entry in self.unread_libraries],
        }


@dataclass(frozen=True)
class AllAnswers:
    """Every place that answers ``question``: groups of places with the same answer, best first.

    ``passages_read`` of the documents' passages were looked at.
    """

    question: str
    answers: tuple[AnswerGroup, ...]
    passages_read: int
    tokens_read: int
    seconds: float
    model: str
    unread_libraries: tuple[UnreadLibrary, ...] = ()

    @property
    def text(self) -> str:
        """The best answer; empty where no place answers."""
        return self.answers[0].text if self.answers else ""

    @property
    def state(self) -> AnswerState:
        """The state as of an ``Answer``: "answer", or "none" where no place answers."""
        return "answer" if self.answers else "none"

    @property
    def confidence(self) -> float:
        """The probability that the best place answers the question."""
        return self.answers[0].confidence if self.answers else 0.0

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The places of all answers, in the order of the answers."""
        return tuple(citation for answer in self.answers for citation in answer.citations)

    def to_dict(self) -> dict[str, Any]:
        """Return the answers as in the documented JSON of ``ask --all``."""
        return {
            "question": self.question,
            "answers": [answer.to_dict() for answer in self.answers],
            "passages_read": self.passages_read,
            "tokens_read": self.tokens_read,
            "seconds": self.seconds,
            "model": self.model,
            "unread_libraries": [entry.to_dict() for entry in self.unread_libraries],
        }


@dataclass(frozen=True)
class SearchResult:
    """The passages that fit a query best, best first; ``model`` is empty where none was needed."""

    query: str
    hits: tuple[SearchHit, ...]
    seconds: float
    model: str
    unread_libraries: tuple[UnreadLibrary, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the result as in the documented JSON of ``search``."""
        return {
            "query": self.query,
            "hits": [hit.to_dict() for hit in self.hits],
            "seconds": self.seconds,
            "model": self.model,
            "unread_libraries": [entry.to_dict() for entry in self.unread_libraries],
        }


@dataclass(frozen=True)
class Summary:
    """A summary and the cited sentences; ``changes`` if two versions were compared.

    ``changes_omitted`` counts changes that did not fit into the length.
    """

    text: str
    mode: str
    sentences: tuple[Citation, ...]
    tokens_read: int
    seconds: float
    model: str
    changes: tuple[Change, ...] = ()
    changes_omitted: int = 0
    unread_libraries: tuple[UnreadLibrary, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as plain values."""
        return {
            "summary": self.text,
            "mode": self.mode,
            "sentences": [sentence.to_dict() for sentence in self.sentences],
            "changes": [change.to_dict() for change in self.changes],
            "changes_omitted": self.changes_omitted,
            "tokens_read": self.tokens_read,
            "seconds": self.seconds,
            "model": self.model,
            "unread_libraries": [entry.to_dict() for entry in self.unread_libraries],
        }


@dataclass(frozen=True)
class Turn:
    """One question of a session and its answer; ``mode`` is "summary" for a summary.

    Turns of older conversations have no ``state``: what was not found is "none" then.
    """

    question: str
    answer: str
    found: bool
    state: AnswerState
    confidence: float
    mode: str
    citations: tuple[Citation, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the turn as plain values."""
        return vars(self) | {"citations": [citation.to_dict() for citation in self.citations]}


@dataclass(frozen=True)
class FormatInfo:
    """One format: its suffixes, what it needs, and whether that is installed.

    ``plugin`` names the distribution that adds it; ``problem`` is why a plug-in cannot be used.
    """

    name: str
    label: str
    suffixes: tuple[str, ...]
    installed: bool
    extra: str | None = None
    package: str | None = None
    plugin: str | None = None
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the format as in the documented JSON."""
        return asdict(self) | {"suffixes": list(self.suffixes)}


@dataclass(frozen=True)
class ModelInfo:
    """A model on this machine.

    ``parameters`` and ``fingerprint`` are known once it was verified.
    """

    name: str
    path: str
    bytes: int
    card: str = field(repr=False)
    parameters: int | None = None
    fingerprint: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the model as plain values, without its card."""
        values = asdict(self)
        del values["card"]
        return values


@dataclass(frozen=True)
class DoctorReport:
    """Versions, processor, library and a self-test: what a bug report needs."""

    checks: tuple[DoctorCheck, ...]

    @property
    def ok(self) -> bool:
        """Whether no check is a problem."""
        return all(check.status != "problem" for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {"ok": self.ok, "checks": [check.to_dict() for check in self.checks]}


# Pickles and error messages name a result where users import it from.
for _value in tuple(vars().values()):
    if dataclasses.is_dataclass(_value):
        _value.__module__ = "drt"
