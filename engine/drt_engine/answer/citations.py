"""From spans to citations: document, page or section, characters, the sentence around; every quote is a slice."""

from __future__ import annotations

from dataclasses import dataclass

from drt_engine.answer.quote import QuoteSpan
from drt_engine.store import DocumentRow, Store
from drt_engine.text_units import sentence_spans

_AROUND = 600  # characters on each side searched for the sentence's borders
_LONGEST_CONTEXT = 420


@dataclass(frozen=True)
class CitationResult:
    """Where a quote stands: ``start``, ``end`` are characters of the document's text, and ``quote`` is that slice."""

    document: str
    title: str
    source: str
    start: int
    end: int
    quote: str
    page: int | None
    section: str | None
    probability: float
    context: str


def cite(store: Store, document: DocumentRow, start: int, end: int, probability: float) -> CitationResult:
    """Return the citation of characters ``start:end`` of a document."""
    page, section = store.place(document.id, start)
    return CitationResult(
        document=document.id,
        title=document.title,
        source=document.source,
        start=start,
        end=end,
        quote=store.text(document.id, start, end),
        page=page,
        section=section,
        probability=probability,
        context=sentence_around(store, document, start, end),
    )


def cite_span(store: Store, document: DocumentRow, span: QuoteSpan) -> CitationResult:
    """Return the citation of a quoted span; its probability is the retrieval probability of its passage."""
    return cite(store, document, span.start, span.end, span.passage.probability)


def sentence_around(store: Store, document: DocumentRow, start: int, end: int) -> str:
    """Return the sentence or sentences that hold ``start:end``, cut to a readable length around it."""
    low, high = max(0, start - _AROUND), min(document.characters, end + _AROUND)
    text = store.text(document.id, low, high)
    a, b = start - low, end - low
    touching = [(s, e) for s, e in sentence_spans(text) if s < b and a < e]
    first = touching[0][0] if touching else a
    last = touching[-1][1] if touching else b
    spare = max(0, _LONGEST_CONTEXT - (b - a)) // 2
    return text[max(first, a - spare) : min(last, b + spare)].strip()
