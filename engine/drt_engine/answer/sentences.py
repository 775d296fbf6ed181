"""The sentences around a place of a document.

Reads text through the store and knows nothing of models, so that showing a passage loads none.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import pairwise

from drt_engine.blocks.lookup import units_between
from drt_engine.store import DocumentRow, Store
from drt_engine.store.view import LibraryView
from drt_engine.text.sentences import Span, sentence_spans

_AROUND = 600  # characters on each side searched for the sentence's borders
_LONGEST_CONTEXT = 420
_PASSAGE_MARGIN = 300  # characters on each side that are read at a glance
# Characters below which a passage goes on over blank lines. Of 350 validation questions, 0.803 have
# their answer in the first passage with it, 0.777 without; with 300 characters 0.786.
_SHORT_PASSAGE = 600
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n\s*")
_LINE = re.compile(r"[^\n]+")
# ":pr:`12`", "(#12)", "[12]": what only refers to something belongs to the sentence before it.
_REFERENCES = re.compile(
    r"(?:\(?(?::[a-z]{1,12}:`[^`\n]{1,80}`|(?:gh-|bpo-|#)\d{1,7}|\[\d{1,4}\]_?)\)?[\s,.;]*)+"
)
_BETWEEN_CELLS = re.compile(r"\S \| \S")  # a line with one is a table's; no sentence goes beyond it


def sentence_around(store: Store | LibraryView, document: DocumentRow, start: int, end: int) -> str:
    """Return the sentence or sentences that hold ``start:end``, cut to a readable length.

    Cut between words, where there are any.
    """
    touching = sentences_at(store, document, start, end)
    spare = max(0, _LONGEST_CONTEXT - (end - start)) // 2
    first, last = (touching[0][0], touching[-1][1]) if touching else (start, end)
    before = store.text(document.id, max(first, start - spare), start)
    after = store.text(document.id, end, min(last, end + spare))
    if first < start - spare:
        before = re.sub(r"\A\S*\s", "", before)
    if last > end + spare:
        after = re.sub(r"\s\S*\Z", "", after)
    return (before + store.text(document.id, start, end) + after).strip()


def passage_around(store: Store | LibraryView, document: DocumentRow, start: int, end: int) -> str:
    """Return the paragraph that holds ``start:end``, or whole sentences of it where it is long.

    A short one is taken with its neighbours: what leads to an answer, and what follows from it.
    """
    low, high = max(0, start - _PASSAGE_MARGIN), min(document.characters, end + _PASSAGE_MARGIN)
    before, after = store.text(document.id, low, start), store.text(document.id, end, high)
    lows = [low, *(low + match.end() for match in _BLANK_LINE.finditer(before))]
    highs = [*(end + match.start() for match in _BLANK_LINE.finditer(after)), high]
    low, high = lows.pop(), highs.pop(0)
    while high - low < _SHORT_PASSAGE and (lows or highs):
        if not highs or (lows and low - lows[-1] < highs[0] - high):  # the nearer border first
            low = lows.pop()
        else:
            high = highs.pop(0)
    whole = [
        (a, b)
        for a, b in sentences_at(store, document, low, high)
        if (low <= a and b <= high) or (a < end and start < b)
    ]
    if whole:
        low, high = max(low, whole[0][0]), min(high, whole[-1][1])
    before, after = store.text(document.id, low, start), store.text(document.id, end, high)
    if low > 0 and not store.text(document.id, low - 1, low).isspace():  # inside an endless one
        before = re.sub(r"\A\S{1,40}\s", "", before)
    if high < document.characters and not store.text(document.id, high, high + 1).isspace():
        after = re.sub(r"\s\S{1,40}\Z", "", after)
    return (before + store.text(document.id, start, end) + after).strip()


def sentences_at(
    store: Store | LibraryView, document: DocumentRow, start: int, end: int
) -> list[tuple[int, int]]:
    """Return the places of the sentences that share a character with ``start:end``, in order.

    A row of a table is one, and none goes beyond its record.
    """
    low, high = max(0, start - _AROUND), min(document.characters, end + _AROUND)
    text = store.text(document.id, low, high)

    def touches(span: tuple[int, int]) -> bool:
        return low + span[0] < end and start < low + span[1]

    spans = list(sentence_spans(text))
    first = next((number for number, span in enumerate(spans) if touches(span)), len(spans))
    sentences = [span for span in spans[first:] if touches(span)]
    if sentences and first and _is_reference(text, spans[first - 1][1], *sentences[0]):
        sentences[0] = (spans[first - 1][0], sentences[0][1])
    rows = (part for span in sentences for part in _rows_apart(text, *span))
    units = units_between(store, document.id, low, high)
    borders = {at - low for unit in units for at in (unit.start, unit.end)}
    parts = (part for span in rows for part in _cut_at(text, span, borders))
    return [(low + a, low + b) for a, b in filter(touches, parts)]


def _is_reference(text: str, last_end: int, start: int, end: int) -> bool:
    """Return whether a sentence only refers to something, right behind the one before it."""
    between = text[last_end:start]
    is_behind = between.isspace() and not _BLANK_LINE.search(between)
    return is_behind and _REFERENCES.fullmatch(text, start, end) is not None


def _cut_at(text: str, span: Span, borders: Collection[int]) -> Iterator[Span]:
    """Yield the parts of a span between borders, without white space around them."""
    edges = [span[0], *sorted(at for at in borders if span[0] < at < span[1]), span[1]]
    for start, end in pairwise(edges):
        part = text[start:end].strip()
        if part:
            start = text.index(part, start)
            yield start, start + len(part)


def _rows_apart(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a sentence: each row of a table that is in it, and what is between."""
    last = start
    for match in _LINE.finditer(text, start, end):
        if not _BETWEEN_CELLS.search(text, *match.span()):
            continue
        for a, b in ((last, match.start()), match.span()):
            part = text[a:b].strip()
            if part:
                a = text.index(part, a)
                yield a, a + len(part)
        last = match.end()
    last_row = text[last:end].strip()
    if last_row:
        last = text.index(last_row, last)
        yield last, last + len(last_row)
