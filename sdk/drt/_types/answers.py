"""What questions, searches and summaries return, and where it is in the documents."""

import base64
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from drt_engine import results
from drt_engine.results import (
    AnswerGroup,
    AnswerState,
    Change,
    Citation,
    Origin,
    ScanInfo,
    SearchHit,
    UnreadLibrary,
)

from .written import WrittenText


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
        from .. import _engine

        return _engine.trace_page(self.to_dict())


@dataclass(frozen=True)
class Answer:
    """An answer to ``question``, and its evidence.

    ``state`` is "answer" (a quote that is right in four of five cases or more), "likely" (the
    documents probably answer in the ``sentence`` or the ``passage`` shown) or "none" (they do not
    say). ``found`` is true for "answer" alone; otherwise ``text`` is empty, and the citations are
    one or two likely places (``second_passage`` is the text around the second), or the
    closest passages. ``confidence`` is the probability that the documents hold an answer,
    ``quote_probability`` that the first citation's quote is right: ``None`` for what was looked up
    or computed, which nothing calibrates. ``origin`` is what the answer comes from: "reader" (a
    span that the reader points at), "table" (what is computed from its cells), "metadata",
    "decoder" or "summary". ``verdict`` is "yes" or "no" where
    the question asks for it and the model is sure. ``hint`` is a sentence about why nothing
    was found, or what to ask or run instead; mostly empty. The ``mode`` is "summary" for a summary,
    which a conversation was asked for: its citations are its sentences, its confidence is 1.
    ``scan`` says how much was scanned where the approximate index was allowed.
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
    quote_probability: float | None = None
    passage: str = field(default="", repr=False)
    second_passage: str = field(default="", repr=False)
    verdict: str | None = None
    hint: str = ""
    unread_libraries: tuple[UnreadLibrary, ...] = ()
    scan: ScanInfo | None = None
    origin: Origin = "reader"

    @property
    def sentence(self) -> str:
        """The sentence around the first citation's quote; empty without a citation."""
        return self.citations[0].sentence if self.citations else ""

    def __str__(self) -> str:
        """Return the answer as a terminal shows it: quotes in their sentences, and their places."""
        from .. import _render

        return _render.as_text(self)

    def as_markdown(self) -> str:
        """Return the answer as Markdown: the words that answer in bold, places as footnotes."""
        from .. import _render

        return _render.as_markdown(self)

    def _repr_html_(self) -> str:
        """Return the answer as a notebook shows it."""
        from .. import _render

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
            "origin": self.origin,
            "verdict": self.verdict,
            "hint": self.hint,
            "sentence": self.sentence,
            "passage": self.passage,
            "second_passage": self.second_passage,
            "citations": [citation.to_dict() for citation in self.citations],
            "tokens_read": self.tokens_read,
            "seconds": self.seconds,
            "model": self.model,
            "unread_libraries": [entry.to_dict() for entry in self.unread_libraries],
            "scan": None if self.scan is None else self.scan.to_dict(),
        }


@dataclass(frozen=True)
class AllAnswers:
    """Every place that answers ``question``: groups of places with the same answer, best first.

    ``passages_read`` of the documents' passages were looked at. ``scan`` says how much was scanned
    where the approximate index was allowed.
    """

    question: str
    answers: tuple[AnswerGroup, ...]
    passages_read: int
    tokens_read: int
    seconds: float
    model: str
    unread_libraries: tuple[UnreadLibrary, ...] = ()
    scan: ScanInfo | None = None

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
            "scan": None if self.scan is None else self.scan.to_dict(),
        }


@dataclass(frozen=True)
class SearchResult:
    """The passages that fit a query best, best first; ``model`` is empty where none was needed.

    ``scan`` says how much was scanned where the approximate index was allowed.
    """

    query: str
    hits: tuple[SearchHit, ...]
    seconds: float
    model: str
    unread_libraries: tuple[UnreadLibrary, ...] = ()
    scan: ScanInfo | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the result as in the documented JSON of ``search``."""
        return {
            "query": self.query,
            "hits": [hit.to_dict() for hit in self.hits],
            "seconds": self.seconds,
            "model": self.model,
            "unread_libraries": [entry.to_dict() for entry in self.unread_libraries],
            "scan": None if self.scan is None else self.scan.to_dict(),
        }


@dataclass(frozen=True)
class Summary:
    """A summary and the cited sentences; ``changes`` if two versions were compared.

    ``changes_omitted`` counts changes that did not fit into the length. ``about`` says in one line
    what is summarised: title, author, date, pages and sections; empty for a part of a document.
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
    about: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as plain values."""
        return {
            "summary": self.text,
            "about": self.about,
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
class PageImage:
    """The page of a PDF that a quote is on, drawn as PNG with the quote in yellow.

    ``boxes`` are (left, top, right, bottom) of the quote's lines, as fractions of the page; empty
    where it is not known which characters of the page it is. ``pages`` is how many the file has.
    """

    citation: Citation
    page: int
    pages: int
    width: int
    height: int
    boxes: tuple[tuple[float, float, float, float], ...]
    png: bytes = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the page as plain values, the PNG in base64."""
        values = {name: value for name, value in vars(self).items() if name != "citation"}
        return values | {
            "boxes": [list(box) for box in self.boxes],
            "document": self.citation.document,
            "title": self.citation.title,
            "handle": self.citation.handle,
            "page_label": self.citation.page_label,
            "png": base64.b64encode(self.png).decode("ascii"),
        }


@dataclass(frozen=True)
class Turn:
    """One question of a session and its answer; ``mode`` is "summary" for a summary.

    Turns of older conversations have no ``state``: what was not found is "none" then; nor a
    ``quote_probability``, which is None then, as it is for summaries. ``writing`` is what a writer
    wrote beside the answer, None where none was asked.
    """

    question: str
    answer: str
    found: bool
    state: AnswerState
    confidence: float
    mode: str
    citations: tuple[Citation, ...]
    writing: WrittenText | None = None
    quote_probability: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the turn as plain values."""
        return vars(self) | {
            "citations": [citation.to_dict() for citation in self.citations],
            "writing": None if self.writing is None else self.writing.to_dict(),
        }


@dataclass(frozen=True)
class AskProgress:
    """How many of several questions are answered, in how many seconds; ``total`` where known."""

    done: int
    total: int | None
    seconds: float
