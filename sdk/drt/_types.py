"""What the SDK hands out: frozen dataclasses of plain values, with the documented JSON shapes.

Knows nothing of the engine; `_convert.py` fills these in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypedDict

AnswerMode = Literal["quote", "free"]
Retriever = Literal["hybrid", "landmark", "lexical"]
SummaryMode = Literal["auto", "extractive", "abstractive"]
SummaryLength = Literal["short", "medium", "long"]


@dataclass(frozen=True)
class DocumentInfo:
    """A document of a library; `new` is true when this call read it."""

    id: str
    title: str
    source: str
    characters: int
    tokens: int
    chunks: int
    new: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The document as plain values."""
        return asdict(self)


class AskOptions(TypedDict, total=False):
    """Options of a question, the same for `Assistant.ask`, `stream`, `trace` and sessions.

    documents: restricts the question to these, by id, title, source or `DocumentInfo`.
    mode: "quote" answers with spans of the documents, "free" lets the decoder write.
    top_k: chunks retrieved at a time.
    retriever: where candidates come from.
    reread: whether retrieved chunks are encoded again beside the question.
    threshold: confidence from which an answer counts as found; the model's own by default.
    max_tokens: longest text of free mode.
    """

    documents: str | DocumentInfo | Sequence[str | DocumentInfo] | None
    mode: AnswerMode
    top_k: int
    retriever: Retriever
    reread: bool
    threshold: float | None
    max_tokens: int


@dataclass(frozen=True)
class IngestProgress:
    """How far one document has been read.

    `characters` of `total_characters` are read, what an earlier reading left included; `tokens`
    counts those of this reading, which took `seconds` so far.
    """

    source: str
    characters: int
    total_characters: int
    tokens: int
    seconds: float

    @property
    def fraction(self) -> float:
        """How much of the document is read, from 0 to 1."""
        return self.characters / self.total_characters if self.total_characters else 1.0

    @property
    def tokens_per_second(self) -> float:
        """Tokens read per second since the reading began."""
        return self.tokens / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class IngestReport:
    """What reading several paths gave.

    `failures` pairs a source with its sentence; `skipped` counts files found in folders and by
    patterns that no reader knows; `tokens` counts what was read now, in `seconds` of reading.
    """

    documents: tuple[DocumentInfo, ...]
    failures: tuple[tuple[str, str], ...]
    tokens: int
    seconds: float
    skipped: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        return {
            "documents": [document.to_dict() for document in self.documents],
            "failures": [{"source": s, "message": message} for s, message in self.failures],
            "skipped": self.skipped,
            "tokens": self.tokens,
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class Citation:
    """Where a quote stands: `quote` is the document's text from `start` to `end`.

    `context` is the sentence around the quote; it is for reading and not part of the JSON.
    """

    document: str
    title: str
    source: str
    start: int
    end: int
    quote: str
    page: int | None
    section: str | None
    probability: float
    context: str = field(default="", repr=False)

    def to_dict(self) -> dict[str, Any]:
        """The citation as in the documented JSON of `ask`."""
        values = asdict(self)
        del values["context"]
        return values


@dataclass(frozen=True)
class TraceEntry:
    """One retrieved chunk: its place, the landmark score, and the probability it was read with."""

    chunk: int
    document: str
    title: str
    start: int
    text: str
    score: float
    probability: float
    source: str


@dataclass(frozen=True)
class TraceGroup:
    """What one layer group retrieved for one chunk of the answer."""

    group: int
    chunk: int
    entries: tuple[TraceEntry, ...]


@dataclass(frozen=True)
class Trace:
    """What the model retrieved for each chunk of an answer and each layer group."""

    question: str
    groups: tuple[TraceGroup, ...]
    rendered: str = field(default="", repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """The trace as plain values."""
        return {"question": self.question, "groups": [asdict(group) for group in self.groups]}

    def as_text(self) -> str:
        """The trace for a reader."""
        return self.rendered


@dataclass(frozen=True)
class Answer:
    """An answer and its evidence.

    When `found` is false, `text` is empty and the one citation is the closest passage.
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

    def to_dict(self) -> dict[str, Any]:
        """The answer as in the documented JSON of `ask`."""
        return {
            "answer": self.text,
            "found": self.found,
            "confidence": self.confidence,
            "mode": self.mode,
            "citations": [citation.to_dict() for citation in self.citations],
            "tokens_read": self.tokens_read,
            "seconds": self.seconds,
            "model": self.model,
        }


@dataclass(frozen=True)
class Summary:
    """A summary and the sentences it rests on."""

    text: str
    mode: str
    sentences: tuple[Citation, ...]
    tokens_read: int
    seconds: float
    model: str

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain values."""
        return {
            "summary": self.text,
            "mode": self.mode,
            "sentences": [sentence.to_dict() for sentence in self.sentences],
            "tokens_read": self.tokens_read,
            "seconds": self.seconds,
            "model": self.model,
        }


@dataclass(frozen=True)
class Turn:
    """One question of a session and what was answered."""

    question: str
    answer: str
    found: bool
    confidence: float
    mode: str
    citations: tuple[Citation, ...]

    def to_dict(self) -> dict[str, Any]:
        """The turn as plain values."""
        return {
            "question": self.question,
            "answer": self.answer,
            "found": self.found,
            "confidence": self.confidence,
            "mode": self.mode,
            "citations": [citation.to_dict() for citation in self.citations],
        }


@dataclass(frozen=True)
class SessionInfo:
    """A stored session: its name, the number of turns, and when it was last saved (ISO)."""

    name: str
    turns: int
    updated: str

    def to_dict(self) -> dict[str, Any]:
        """The session as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Finding:
    """Something a check found: an error where something was lost, a harmless note otherwise."""

    kind: str
    where: str
    message: str
    severity: Literal["error", "note"] = "error"

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class ModelInfo:
    """A model on this machine; `parameters` and `fingerprint` are known once it was verified."""

    name: str
    path: str
    bytes: int
    card: str = field(repr=False)
    parameters: int | None = None
    fingerprint: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The model as plain values, without its card."""
        values = asdict(self)
        del values["card"]
        return values
