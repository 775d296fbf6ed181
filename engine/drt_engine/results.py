"""Result values that the engine returns and the SDK hands on: frozen dataclasses of plain values.

Imports nothing but the standard library, so that a program can list a library without torch.
Annotations are evaluated here, which lets other modules resolve them without this one's names.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

# An answer, a passage that is likely to hold one, or neither.
AnswerState = Literal["answer", "likely", "none"]

# What an answer comes from: a field of the document, cells of a table or what is computed from
# them, a span that the reader points at, the decoder, or a summary.
Origin = Literal["metadata", "table", "reader", "decoder", "summary"]
ORIGINS: tuple[Origin, ...] = get_args(Origin)

# What may propose an answer in quote mode, in the order in which candidates are preferred.
Source = Literal["metadata", "table", "reader"]
SOURCES: tuple[Source, ...] = get_args(Source)


@dataclass(frozen=True)
class IngestProgress:
    """How far one document has been read.

    ``characters`` of ``total_characters`` are read, those of an earlier, interrupted run included.
    ``tokens`` counts those of this run only, which took ``seconds`` so far. Before, while the pages
    of a PDF are parsed, ``page`` of ``pages`` are, and the characters are not known.
    """

    source: str
    characters: int
    total_characters: int
    tokens: int
    seconds: float
    page: int = 0
    pages: int = 0

    @property
    def fraction(self) -> float:
        """How much of the document is read, from 0 to 1."""
        if not self.total_characters:
            return 0.0 if self.pages else 1.0
        return self.characters / self.total_characters

    @property
    def tokens_per_second(self) -> float:
        """Tokens read per second since this run began."""
        return self.tokens / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class ReadingStep:
    """What a question is about to read: ``passages``, and the best sentence that was retrieved.

    ``text`` is that sentence, ``start`` and ``end`` are its characters in the document. ``read`` is
    how many of the passages were read before.
    """

    passages: int
    document: str
    title: str
    text: str
    start: int
    end: int
    read: int = 0


@dataclass(frozen=True)
class ShardsProgress:
    """How far the files for all shards of a library have been read.

    ``documents`` are those that are open now, by the number of their shards, None where none is.
    ``tokens`` were read in ``seconds`` since all models were loaded.
    """

    files: int
    total_files: int
    tokens: int
    seconds: float
    documents: tuple[IngestProgress | None, ...]

    @property
    def tokens_per_second(self) -> float:
        """Tokens read per second by all shards together."""
        return self.tokens / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class UnreadLibrary:
    """One of several libraries that a result was made without, and why."""

    library: str
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Return the library as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class ScanInfo:
    """What of the landmarks was scanned for a result that might use the approximate index.

    ``probed_lists`` of ``lists`` lists were, and chunks that were read later; none where all
    landmarks were scanned, for which ``notes`` give the reasons.
    """

    probed_lists: int
    lists: int
    notes: tuple[str, ...] = ()

    @property
    def approximate(self) -> bool:
        """Whether there are landmarks that were not scanned."""
        return self.probed_lists < self.lists

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"approximate": self.approximate, **asdict(self), "notes": list(self.notes)}


@dataclass(frozen=True)
class IndexInfo:
    """A library's approximate index: its file, and the ``chunks`` that it holds in ``lists`` lists.

    A question scans ``probes`` lists, and in full the ``chunks_since`` that were read later.
    """

    file: str
    bytes: int
    chunks: int
    chunks_since: int
    lists: int
    probes: int

    def to_dict(self) -> dict[str, Any]:
        """Return the index as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Backup:
    """A copy of a library's folder: where it is, its documents, and the bytes of its files.

    ``linked_bytes`` are those of files that an earlier backup has, too.
    """

    folder: str
    documents: int
    copied_bytes: int
    linked_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Return the backup as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class IndexRecall:
    """What part of the ``count`` best chunks of an exact scan ``probes`` of the lists hold.

    ``recall`` is a mean over questions; milliseconds of a scan are of the processor, medians.
    """

    probes: int
    lists: int
    count: int
    recall: float
    milliseconds: float
    exact_milliseconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values."""
        return asdict(self)


def _handle(document: str, start: int, end: int) -> str:
    """Return the short name of a place."""
    return f"{document[:8]}:{start}-{end}"


@dataclass(frozen=True)
class Citation:
    """A quote with its place: ``quote`` is the document's text from ``start`` to ``end``.

    ``line`` is the file's, from 1, in formats that have lines. ``source_start`` and ``source_end``
    are the characters of the file that the quote comes from: of its text as ``open`` returns it,
    without a byte order mark, or of the page in a PDF. In formats whose text is kept as it is they
    hold exactly the quote; where a reader rewrites (LaTeX, tables) they hold what it was made of;
    other formats have none. ``context`` is the sentence around the quote, cut where it is very
    long; it is ``sentence`` in JSON. ``span_start`` and ``span_end`` are the words in a longer
    quote that answer, ``None`` where all of it does. ``metadata`` is a field of the file's metadata
    with its value ("author: Ann Lee") where the text does not say it: there is no quote then, and
    ``start`` and ``end`` are 0. ``likely`` marks a place that probably holds the answer.
    ``library`` is the folder that the document is in, where several libraries were asked.
    ``more_items`` counts what a quote that is a long list leaves out of it, behind its last item.
    ``page_label`` is what is printed on the page ("iv") where the file says so and it is not its
    number.
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
    span_start: int | None = field(default=None, kw_only=True, repr=False)
    span_end: int | None = field(default=None, kw_only=True, repr=False)
    probability: float
    context: str = field(default="", repr=False)
    metadata: str | None = field(default=None, kw_only=True, repr=False)
    likely: bool = field(default=False, kw_only=True, repr=False)
    library: str | None = field(default=None, kw_only=True, repr=False)
    more_items: int = field(default=0, kw_only=True, repr=False)
    page_label: str | None = field(default=None, kw_only=True, repr=False)

    @property
    def page_name(self) -> str:
        """The page as people call it, with its number in the file; empty without pages."""
        if self.page is None:
            return ""
        if self.page_label is None:
            return f"page {self.page}"
        return f"page {self.page_label} (page {self.page} of the file)"

    @property
    def handle(self) -> str:
        """The citation as one word, for ``drt.passage`` and ``drt show``."""
        return _handle(self.document, self.start, self.end)

    @property
    def sentence(self) -> str:
        """The sentence around the quote."""
        return self.context

    @property
    def span(self) -> str:
        """The words of the quote that answer; all of it where it has no others."""
        if self.span_start is None or self.span_end is None:
            return self.quote
        return self.quote[self.span_start - self.start : self.span_end - self.start]

    def to_dict(self) -> dict[str, Any]:
        """Return the citation as in the documented JSON of ``ask``."""
        values = asdict(self)
        sentence = values.pop("context")
        return values | {"sentence": sentence, "handle": self.handle}


@dataclass(frozen=True)
class AnswerGroup:
    """An answer and every place that gives it, best first.

    ``confidence`` is the probability that the best of the places answers the question.
    """

    text: str
    confidence: float
    citations: tuple[Citation, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the group as plain values."""
        return {
            "text": self.text,
            "confidence": self.confidence,
            "citations": [citation.to_dict() for citation in self.citations],
        }


@dataclass(frozen=True)
class SearchHit:
    """A passage that a search found: ``text`` is the document's from ``start`` to ``end``.

    ``sentence_start`` and ``sentence_end`` are the place of its best sentence, which ``page``,
    ``section`` and ``line`` belong to. ``score`` ranks the passages of one search; it is the sum of
    ``landmark`` (the product of vectors), ``lexical`` (BM25, normalised and weighted) and ``late``
    (late interaction of words), of the best chunk of the passage. ``library`` is as of a citation.
    """

    document: str
    title: str
    source: str
    start: int
    end: int
    text: str
    sentence_start: int
    sentence_end: int
    page: int | None
    section: str | None
    line: int | None
    score: float
    landmark: float = field(default=0.0, repr=False)
    lexical: float = field(default=0.0, repr=False)
    late: float = field(default=0.0, repr=False)
    library: str | None = None

    @property
    def page_name(self) -> str:
        """The page in words, empty in formats without pages."""
        return "" if self.page is None else f"page {self.page}"

    @property
    def sentence(self) -> str:
        """The best sentence of the passage."""
        return self.text[self.sentence_start - self.start : self.sentence_end - self.start]

    @property
    def handle(self) -> str:
        """The best sentence's place as one word, for ``drt.passage`` and ``drt show``."""
        return _handle(self.document, self.sentence_start, self.sentence_end)

    def to_dict(self) -> dict[str, Any]:
        """Return the hit as plain values, with ``sentence`` and ``handle``."""
        return asdict(self) | {"sentence": self.sentence, "handle": self.handle}


@dataclass(frozen=True)
class Change:
    """A sentence that differs between two versions of a document.

    ``new`` is the place in the newer version (None: removed), ``old`` the sentence of the older
    one (empty: added).
    """

    kind: Literal["added", "changed", "removed"]
    old: str
    new: Citation | None

    def to_dict(self) -> dict[str, Any]:
        """Return the change as plain values."""
        new = None if self.new is None else self.new.to_dict()
        return {"kind": self.kind, "old": self.old, "new": new}


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
        """The character after the last of ``text``."""
        return self.start + len(self.text)

    @property
    def handle(self) -> str:
        """A short name of the place, which ``passage`` and ``drt show`` understand."""
        return _handle(self.document, self.start, self.end)

    def to_dict(self) -> dict[str, Any]:
        """Return the chunk as plain values, with ``end`` and ``handle``."""
        return asdict(self) | {"end": self.end, "handle": self.handle}


@dataclass(frozen=True)
class TraceEntry(_Place):
    """One retrieved chunk: its place, the landmark score, and the probability it was read with.

    ``probability`` is the softmax of ``score``, the sum of ``landmark`` (the product of vectors),
    ``lexical`` (normalised BM25 times its weight) and ``late`` (late interaction). ``mass`` is the
    attention the chunk got, averaged over the tokens that read it; ``pointer`` is the chunk's
    share of the quote head's start probability. ``source`` is the list that proposed the chunk.
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
    """A candidate chunk from landmarks or words, with its score (words: normalised BM25)."""

    score: float
    retrieved: bool


@dataclass(frozen=True)
class TraceGroup:
    """What one layer group retrieved for one chunk of the answer, and its best candidates."""

    group: int
    chunk: int
    entries: tuple[TraceEntry, ...]
    by_landmark: tuple[TraceCandidate, ...] = ()
    by_words: tuple[TraceCandidate, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the group as plain values."""
        chunks = ("entries", "by_landmark", "by_words")
        return vars(self) | {
            name: [chunk.to_dict() for chunk in vars(self)[name]] for name in chunks
        }


@dataclass(frozen=True)
class TraceToken:
    """A token and the attention it gave: ``mass`` by layer group, then by retrieved chunk.

    ``part`` is "question" (as the decoder reads it again), "marker" (where the answer begins) or
    "answer"; ``chunk`` is the answer chunk whose retrievals the token read.
    """

    text: str
    part: str
    chunk: int
    mass: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class TraceDocument:
    """A document that something was retrieved from; ``heat`` are landmark scores along it."""

    id: str
    title: str
    source: str
    characters: int
    heat: tuple[float, ...]


@dataclass(frozen=True)
class Trace:
    """What the model retrieved for each chunk of an answer and each layer group.

    ``tokens`` and ``documents`` are empty unless the answer was recorded in full.
    """

    question: str
    groups: tuple[TraceGroup, ...]
    tokens: tuple[TraceToken, ...] = ()
    documents: tuple[TraceDocument, ...] = ()


@dataclass(frozen=True)
class SessionInfo:
    """A stored session: its name, the number of turns, and when it was last saved (ISO)."""

    name: str
    turns: int
    updated: str

    def to_dict(self) -> dict[str, Any]:
        """Return the session as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class FoundTurn:
    """A turn of a stored session that was searched for; ``turn`` counts from 1."""

    session: str
    turn: int
    question: str
    answer: str

    def to_dict(self) -> dict[str, Any]:
        """Return the turn as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Finding:
    """Something a check found: an error if something was lost, otherwise a harmless note."""

    kind: str
    where: str
    message: str
    severity: Literal["error", "note"] = "error"

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class DoctorCheck:
    """One line of a ``DoctorReport``: what was checked, the result, and what to do about it.

    A "problem" keeps drt from working, a "note" does not; ``remedy`` is empty if nothing is needed.
    """

    name: str
    value: str
    status: Literal["ok", "note", "problem"] = "ok"
    remedy: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the check as plain values."""
        return asdict(self)
