"""What the SDK hands out: frozen dataclasses of plain values, with the documented JSON shapes.

Knows nothing of the engine; `_convert.py` fills these in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypedDict

AnswerMode = Literal["quote", "free"]
Retriever = Literal["hybrid", "landmark", "lexical"]
SummaryMode = Literal["auto", "extractive", "abstractive"]
SummaryLength = Literal["short", "medium", "long"]


@dataclass(frozen=True)
class DocumentInfo:
    """A document of a library; `new` is true when this call read it.

    `skipped` says what its reader passed over and why, `author` and `date` what the document names
    (the date as YYYY-MM-DD where that is certain), where this call opened the file; else they are
    empty.
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

    def to_dict(self) -> dict[str, Any]:
        """The document as plain values."""
        # asdict takes ten times as long, which thousands would feel
        return vars(self) | {"skipped": list(self.skipped)}


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
    patterns that no reader knows, `notes` says what else of archives was passed over and why;
    `tokens` counts what was read now, in `seconds` of reading: not what an interrupted reading
    left, nor what the older version of a document holds.
    """

    documents: tuple[DocumentInfo, ...]
    failures: tuple[tuple[str, str], ...]
    tokens: int
    seconds: float
    skipped: int = 0
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, results: Iterable[IngestResult]) -> IngestReport:
        """The report of what `Assistant.ingest_each` gave, all of it or as far as it came."""
        listed = list(results)
        return cls(
            documents=tuple(one.document for one in listed if one.document is not None),
            failures=tuple((one.source, str(one.error)) for one in listed if one.error is not None),
            tokens=sum(one.tokens for one in listed),
            seconds=sum(one.seconds for one in listed),
            skipped=sum(one.skipped for one in listed),
            # an archive may be named twice
            notes=tuple(dict.fromkeys(note for one in listed for note in one.notes)),
        )

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        return {
            "documents": [document.to_dict() for document in self.documents],
            "failures": [{"source": s, "message": message} for s, message in self.failures],
            "skipped": self.skipped,
            "notes": list(self.notes),
            "tokens": self.tokens,
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class IngestResult:
    """One document of several: what it is in the library, or why it could not be read.

    `tokens` were read now, in `seconds`: fewer than the document has where it was known in part.
    With neither, it is the last result of a path where something was passed over: `skipped` counts
    files that no reader knows, `notes` says what else of archives, and why.
    """

    source: str
    document: DocumentInfo | None
    error: Exception | None
    seconds: float = 0.0
    tokens: int = 0
    skipped: int = 0
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values."""
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
        """The event as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class AskProgress:
    """How many of several questions are answered, in how many seconds; `total` where known."""

    done: int
    total: int | None
    seconds: float


def _handle(document: str, start: int, end: int) -> str:
    """The short name of a place."""
    return f"{document[:8]}:{start}-{end}"


@dataclass(frozen=True)
class _Place:
    """A chunk's text and where it begins; its end and its handle follow from them."""

    chunk: int
    document: str
    title: str
    start: int
    text: str

    @property
    def end(self) -> int:
        """The character after the last of `text`."""
        return self.start + len(self.text)

    @property
    def handle(self) -> str:
        """A short name of the place, which `passage` and `drt show` understand."""
        return _handle(self.document, self.start, self.end)

    def to_dict(self) -> dict[str, Any]:
        """The chunk as plain values, with `end` and `handle`."""
        return asdict(self) | {"end": self.end, "handle": self.handle}


@dataclass(frozen=True)
class Citation:
    """Where a quote stands: `quote` is the document's text from `start` to `end`.

    `line` is the file's, from 1, in formats that have lines. `source_start` and `source_end` lead
    from the quote to characters of the file: of its text as `open` gives it, without a byte order
    mark, or of the page in a PDF. Formats that are kept as they are written have exactly the quote
    there; where a reader rewrites (LaTeX, tables), what it was made of; others have none.
    `context` is the sentence around the quote, cut where it is very long; `sentence` in JSON.
    """

    document: str
    title: str
    source: str
    start: int
    end: int
    quote: str
    page: int | None
    section: str | None
    line: int | None = field(default=None, kw_only=True)
    source_start: int | None = field(default=None, kw_only=True)
    source_end: int | None = field(default=None, kw_only=True)
    probability: float
    context: str = field(default="", repr=False)

    @property
    def handle(self) -> str:
        """A short name of the place, which `Library.passage` and `drt show` understand."""
        return _handle(self.document, self.start, self.end)

    @property
    def sentence(self) -> str:
        """The sentence around the quote."""
        return self.context

    def to_dict(self) -> dict[str, Any]:
        """The citation as in the documented JSON of `ask`."""
        values = asdict(self)
        sentence = values.pop("context")
        return values | {"sentence": sentence, "handle": self.handle}


@dataclass(frozen=True)
class Passage:
    """A cited place with its surroundings: `before`, `quote` and `after` join to the text there."""

    citation: Citation
    before: str
    quote: str
    after: str

    def to_dict(self) -> dict[str, Any]:
        """The passage as plain values."""
        values = self.citation.to_dict() | {"before": self.before, "after": self.after}
        del values["probability"]
        return values


@dataclass(frozen=True)
class TraceEntry(_Place):
    """One retrieved chunk: its place, the landmark score, and the probability it was read with.

    `score` is what the probability was made of: `landmark`, the product of vectors, `lexical`, what
    its words added, and `late`, what its tokens did. `mass` is the attention the chunk got,
    averaged over the tokens that read it; `pointer` is the share of the quote head's start in it.
    """

    score: float
    probability: float
    source: str
    page: int | None = None
    section: str | None = None
    landmark: float | None = None
    lexical: float | None = None
    late: float | None = None
    mass: float | None = None
    pointer: float | None = None


@dataclass(frozen=True)
class TraceCandidate(_Place):
    """A chunk that landmarks or words proposed, with its score there (words: BM25 share)."""

    score: float
    retrieved: bool


@dataclass(frozen=True)
class TraceGroup:
    """What one layer group retrieved for one chunk of the answer, and the best it could choose."""

    group: int
    chunk: int
    entries: tuple[TraceEntry, ...]
    by_landmark: tuple[TraceCandidate, ...] = ()
    by_words: tuple[TraceCandidate, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The group as plain values."""
        chunks = ("entries", "by_landmark", "by_words")
        return vars(self) | {name: [one.to_dict() for one in vars(self)[name]] for name in chunks}


@dataclass(frozen=True)
class TraceToken:
    """A token and the attention it gave: `mass` by layer group, then by retrieved chunk.

    `part` is "question" (as the decoder reads it again), "marker" (where the answer begins) or
    "answer"; `chunk` is the answer chunk whose retrievals it read.
    """

    text: str
    part: str
    chunk: int
    mass: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class TraceDocument:
    """A document that something was retrieved from; `heat` are landmark scores along it."""

    id: str
    title: str
    source: str
    characters: int
    heat: tuple[float, ...]


@dataclass(frozen=True)
class Trace:
    """What the model retrieved for each chunk of an answer and each layer group.

    `Assistant.trace` fills in everything; the trace of an `Answer` holds the retrievals alone.
    """

    question: str
    groups: tuple[TraceGroup, ...]
    tokens: tuple[TraceToken, ...] = ()
    documents: tuple[TraceDocument, ...] = ()
    answer: Answer | None = field(default=None, repr=False)
    rendered: str = field(default="", repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """The trace as plain values, with the answer it belongs to."""
        values = asdict(replace(self, groups=(), answer=None))
        del values["rendered"]
        values["groups"] = [group.to_dict() for group in self.groups]
        values["answer"] = None if self.answer is None else self.answer.to_dict()
        return values

    def as_text(self) -> str:
        """The trace for a reader."""
        return self.rendered

    def as_html(self) -> str:
        """The trace as a page that needs nothing else: no network, no other file."""
        from . import _engine

        return _engine.trace_page(self.to_dict())


@dataclass(frozen=True)
class Answer:
    """An answer to `question`, and its evidence.

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
    question: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The answer as in the documented JSON of `ask`."""
        return {
            "question": self.question,
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
class Change:
    """A sentence that differs between two versions of a document.

    `new` is where it stands now (None: removed), `old` what the older version says (empty: added).
    """

    kind: Literal["added", "changed", "removed"]
    old: str
    new: Citation | None

    def to_dict(self) -> dict[str, Any]:
        """The change as plain values."""
        new = None if self.new is None else self.new.to_dict()
        return {"kind": self.kind, "old": self.old, "new": new}


@dataclass(frozen=True)
class Summary:
    """A summary and the sentences it rests on; `changes` where two versions were compared.

    `changes_omitted` counts further changes, for which a length that was set had no room.
    """

    text: str
    mode: str
    sentences: tuple[Citation, ...]
    tokens_read: int
    seconds: float
    model: str
    changes: tuple[Change, ...] = ()
    changes_omitted: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain values."""
        return {
            "summary": self.text,
            "mode": self.mode,
            "sentences": [sentence.to_dict() for sentence in self.sentences],
            "changes": [change.to_dict() for change in self.changes],
            "changes_omitted": self.changes_omitted,
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
class FoundTurn:
    """A turn of a stored session that was searched for; `turn` counts from 1."""

    session: str
    turn: int
    question: str
    answer: str

    def to_dict(self) -> dict[str, Any]:
        """The turn as plain values."""
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


@dataclass(frozen=True)
class DoctorCheck:
    """One line of a `DoctorReport`: what was looked at, what was seen, and what to do about it.

    A "note" hinders nothing, a "problem" does; `remedy` is empty where nothing is to be done.
    """

    name: str
    value: str
    status: Literal["ok", "note", "problem"] = "ok"
    remedy: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The check as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class DoctorReport:
    """Versions, processor, library and a self-test: what a bug report needs."""

    checks: tuple[DoctorCheck, ...]

    @property
    def ok(self) -> bool:
        """Whether no check is a problem."""
        return all(check.status != "problem" for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        return {"ok": self.ok, "checks": [check.to_dict() for check in self.checks]}
