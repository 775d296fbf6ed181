"""From spans to citations: document, page or section, characters, the sentence around.

Every quote is a slice of its document's text.
"""

from __future__ import annotations

from dataclasses import dataclass

from drt_engine.answer.quote import QuoteSpan
from drt_engine.answer.sentences import sentence_around
from drt_engine.documents.source_map import place_in_source
from drt_engine.store import DocumentRow
from drt_engine.store.view import LibraryView
from drt_engine.text.words import whole_words

_LONGEST_WORD = 40


@dataclass(frozen=True)
class CitationResult:
    """Where a quote stands: it is the slice ``start:end`` of the document's text, in characters.

    ``line`` is the file's, from 1, in formats that have lines; ``source_start:source_end`` are the
    characters of the file's text that the quote comes from (of the page in PDF files), where the
    format allows: exactly these where the reader keeps the text as it is, else what holds them.
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
    context: str
    line: int | None = None
    source_start: int | None = None
    source_end: int | None = None


def cite(
    store: LibraryView, document: DocumentRow, start: int, end: int, probability: float
) -> CitationResult:
    """Return the citation of characters ``start:end`` of a document, less white space around them.

    The quote is empty where there is nothing else.
    """
    text = store.text(document.id, start, end)
    quote = text.strip()
    start += len(text) - len(text.lstrip()) if quote else 0
    end = start + len(quote)
    page, section = store.place(document.id, start)
    place = place_in_source(store, document, start, end)
    return CitationResult(
        document=document.id,
        title=document.title,
        source=document.source,
        start=start,
        end=end,
        quote=quote,
        page=page,
        section=section,
        probability=probability,
        context=sentence_around(store, document, start, end),
        line=place.line,
        source_start=place.start,
        source_end=place.end,
    )


def cite_span(store: LibraryView, document: DocumentRow, span: QuoteSpan) -> CitationResult:
    """Return the citation of a quoted span, with the retrieval probability of its passage.

    A span that begins or ends inside a word or a number is grown to the whole of it.
    """
    low, high = max(0, span.start - _LONGEST_WORD), span.end + _LONGEST_WORD
    text = store.text(document.id, low, high)
    start, end = whole_words(text, span.start - low, span.end - low)
    return cite(store, document, low + start, low + end, span.passage.probability)
