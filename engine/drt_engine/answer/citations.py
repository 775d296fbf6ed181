"""From spans to citations: document, page or section, characters, the sentence around.

Every quote is a slice of its document's text.
"""

from __future__ import annotations

import re

from drt_engine.answer.quote import QuoteSpan
from drt_engine.answer.sentences import sentence_around
from drt_engine.blocks.lookup import page_label
from drt_engine.documents.source_map import place_in_source
from drt_engine.results import Citation
from drt_engine.store import DocumentRow
from drt_engine.store.view import LibraryView
from drt_engine.text.brackets import with_whole_brackets
from drt_engine.text.words import strip_lone_marks, whole_words

_LONGEST_WORD = 100  # of an address
_ADDRESS = re.compile(
    r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64})+|\bhttps?://[^\s<>()\[\]\"'`|]+(?<![.,;:!?])"
)
# "A-20931", "UTF-8" and "order_id": of a part, nobody could tell what it is.
_IDENTIFIER = re.compile(
    r"\b(?:[A-Z]{1,6}(?:-[A-Za-z]{0,3}\d[^\W_]{0,30}){1,6}|[^\W_]{1,40}(?:_{1,2}[^\W_]{1,40}){1,9})\b"
)
_MARKS = ("**", "`")  # of Markdown, around words
_UNDERLINES = re.compile(r"(?:[-=~^*_+#.]{3,}[^\S\n]*\n\s*)+(?=\S)")  # of a heading


def cite(
    store: LibraryView, document: DocumentRow, start: int, end: int, probability: float
) -> Citation:
    """Return the citation of characters ``start:end`` of a document, less white space around them.

    Less the underline of a heading before them, too. The quote is empty where there is nothing
    else.
    """
    text = store.text(document.id, start, end)
    quote = text.strip()
    start += len(text) - len(text.lstrip()) if quote else 0
    if underlines := _UNDERLINES.match(quote):
        quote, start = quote[underlines.end() :], start + underlines.end()
    end = start + len(quote)
    page, section = store.place(document.id, start)
    place = place_in_source(store, document, start, end)
    return Citation(
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
        page_label=None if page is None else page_label(store, document.id, start),
    )


def cite_span(store: LibraryView, document: DocumentRow, span: QuoteSpan) -> Citation:
    """Return the citation of a quoted span, with the retrieval probability of its passage.

    A span that begins or ends inside a word, a number, an identifier or an address is grown to the
    whole of it, and loses a mark or a bracket at an end whose other one it has not; near brackets,
    and marks beside it, are completed.
    """
    low, high = max(0, span.start - _LONGEST_WORD), span.end + _LONGEST_WORD
    text = store.text(document.id, low, high)
    start, end = whole_words(text, span.start - low, span.end - low)
    start, end = strip_lone_marks(text, start, end)
    start, end = with_whole_brackets(text, start, end)
    start, end = with_whole_addresses(text, start, end)
    start, end = with_whole_marks(text, start, end)
    return cite(store, document, low + start, low + end, span.passage.probability)


def with_whole_addresses(text: str, start: int, end: int) -> tuple[int, int]:
    """Grow ``start:end`` so that it cuts no mail address, no URL and no identifier."""
    for pattern in (_ADDRESS, _IDENTIFIER):
        for address in pattern.finditer(text):
            if address.start() < start < address.end() or address.start() < end < address.end():
                start, end = min(start, address.start()), max(end, address.end())
    return start, end


def with_whole_marks(text: str, start: int, end: int) -> tuple[int, int]:
    """Drop a mark of Markdown at an end of ``start:end`` whose other half is outside.

    One inside is completed where its other half is beside the span: "3 June to **17 June".
    """
    for mark in _MARKS:
        size = len(mark)
        is_fence = text.find("```", start, end) >= 0
        if text.count(mark, start, end) % 2 == 0 or end - start <= size or is_fence:
            continue
        if text.startswith(mark, start) and not text[start + size].isspace():
            start += size
        elif text.endswith(mark, start, end) and not text[end - size - 1].isspace():
            end -= size
        elif text.startswith(mark, end):
            end += size
        elif start >= size and text.startswith(mark, start - size):
            start -= size
    return start, end
