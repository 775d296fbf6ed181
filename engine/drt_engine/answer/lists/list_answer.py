"""Looks up what a list says, in the documents that were retrieved from.

A value by the name before it, what an option of a program does, an item by its number, a whole list
by its heading, what code printed, or what a release has.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import NamedTuple

from drt_engine.answer.citations import cite
from drt_engine.answer.documents import DocumentRows, first_documents
from drt_engine.answer.lists.key_lists import keyed_cell, keyed_names
from drt_engine.answer.lists.led_lists import asked_list, led_list, list_behind
from drt_engine.answer.lists.numbered_lists import numbered_item, numbered_section
from drt_engine.answer.lists.option_lists import key_doing, option_above, option_text
from drt_engine.answer.lists.outputs import asks_output, named_output
from drt_engine.answer.lists.release_lists import (
    asks_release,
    is_about_releases,
    is_of_other_release,
    release_field,
    release_of,
)
from drt_engine.answer.lists.terms import asks_term, term_of
from drt_engine.answer.result import Draft
from drt_engine.answer.tables.table_answer import MARGIN, texts_around
from drt_engine.answer.tables.table_question import joined
from drt_engine.answer.tables.wording import table_words
from drt_engine.retrieval.filters import Scope
from drt_engine.retrieval.passages import Passage
from drt_engine.store import DocumentRow
from drt_engine.store.view import LibraryView
from drt_engine.text.sentences import Span

# That of a value in a list of names and values: of 15 such answers on files that nobody prepared
# and on the real ones none was wrong, which says little.
KEY_PRECISION = 0.85
RELEASE_MARGIN = 100_000  # characters in which the other releases are
# A line "name: value", one of fields between tabs or many spaces, of an option, or with a number.
_LISTED = re.compile(
    r"(?m)^[ \t]*(?:[-*+\u2022][ \t]+)?[^:|\n]{1,60}: \S|^\S[^\t\n]*(?:\t|  )[ \t]*\S"
    r"|^[ \t]*--?\w|^[ \t]*(?:#+ )?(?:\w{4,9} )?\d+(?:[.)]|\.\d+) *\S"
    r"|^[^\s:;][^:;\n]{0,60}([:;])[^\s:;][^:;\n]*\1\S"
)
_ANY = re.compile("")
_ASKS_WHAT = re.compile(r"(?i)\W*(?:for )?(?:what|which|who|list|name|how)\b")
_LONGEST_LIST = 5_000  # characters behind a quote that a list and what leads to it may have


def list_answer(
    view: LibraryView,
    documents: DocumentRows,
    question: str,
    passages: Sequence[Passage],
    *,
    scope: Scope,
) -> Draft | None:
    """Return what a list of names and values, or of options, has for ``question``.

    ``passages`` are the retrieved ones, of the ``scope``.
    """
    may_be_anywhere = (asks_release, asked_list, asks_output, asks_term)
    is_listed = not any(asks(question) for asks in may_be_anywhere)
    for document, text, offset, probability in texts_with(
        view, documents, passages, _LISTED if is_listed else _ANY, scope=scope
    ):
        context = names_of(document)
        if names := keyed_names(question, text, context):
            citations = tuple(
                cite(view, document, offset + cell.start, offset + cell.end, probability)
                for cell in names
            )
            return Draft(joined(names), True, KEY_PRECISION, citations)
        entry = _entry(question, text, context)
        if entry is None:
            continue
        first, span = entry.first, entry.span
        start, end = offset + span[0], offset + span[1]
        citation = cite(view, document, offset + first, end, probability)
        if first < span[0]:  # an option, which is shown with what it does
            citation = replace(citation, span_start=start, span_end=end)
        return Draft(entry.shown or citation.quote, True, KEY_PRECISION, (citation,))
    return None


def with_likely_value(
    view: LibraryView,
    documents: DocumentRows,
    question: str,
    draft: Draft,
    *,
    passages: Sequence[Passage],
    scope: Scope,
) -> Draft:
    """Return a draft that has no answer with the value of the one name that a question has.

    One word of the question may be unexplained ("the Ukrainian hryvnia"), so it is likely only.
    """
    if draft.found:
        return draft
    for document, text, offset, probability in texts_with(
        view, documents, passages, _LISTED, scope=scope
    ):
        cell = keyed_cell(question, text, names_of(document), unexplained=True)
        if cell is not None:
            value = cite(view, document, offset + cell.start, offset + cell.end, probability)
            others = tuple(c for c in draft.citations if c.start != value.start)[:1]
            return replace(draft, citations=(value, *others), likely=True)
    return draft


class _Entry(NamedTuple):
    """What a list says: from where it is shown, the answer, and its text where that is no quote."""

    first: int
    span: Span
    shown: str = ""


def _entry(question: str, text: str, context: Collection[str]) -> _Entry | None:
    """Return the entry of a list that answers a question; None where there is no clear one."""
    cell = keyed_cell(question, text, context)
    span = (cell.start, cell.end) if cell else release_field(question, text)
    span = span or numbered_section(question, text) or numbered_item(question, text)
    span = span or term_of(question, text)
    if span is not None:
        return _Entry(span[0], span)
    if option := option_text(question, text, context):
        return _Entry(*option)
    if key := key_doing(question, text):
        return _Entry(*key)
    if output := named_output(question, text):
        return _Entry(output[0], output)
    block = led_list(question, text, context)
    if block is None:
        return None
    shown = str(block.count) if block.asks_count else ""
    return _Entry(block.start, (block.start, block.end), shown)


def texts_with(
    view: LibraryView,
    documents: DocumentRows,
    passages: Sequence[Passage],
    pattern: re.Pattern[str],
    *,
    scope: Scope,
) -> Iterator[tuple[DocumentRow, str, int, float]]:
    """Yield texts of the scope to look into, of the first documents whose passages fit a pattern.

    With each its document, where it begins, and the probability of its best passage.
    """
    for document_id in first_documents(p for p in passages if pattern.search(p.text)):
        document = documents.row(document_id)
        for text, offset, probability in texts_around(view, document, passages):
            for start, end in scope.parts(document_id, offset, offset + len(text)):
                yield document, text[start - offset : end - offset], start, probability


def names_of(document: DocumentRow) -> tuple[str, ...]:
    """Return the words of what a document is called."""
    return tuple(table_words(f"{document.title} {PurePath(document.source).stem}"))


def with_option(view: LibraryView, documents: DocumentRows, question: str, draft: Draft) -> Draft:
    """Return a quote with the option above it, where a question asks which one does something."""
    if not draft.citations or not draft.found:
        return draft
    first, *others = draft.citations
    document = documents.row(first.document)
    low = max(0, first.start - MARGIN)
    line_end = first.start + len(first.quote.partition("\n")[0])
    span = option_above(question, view.text(document.id, low, line_end))
    if span is None or view.place(document.id, low + span[0])[1] != first.section:
        return draft
    start, end = low + span[0], low + span[1]
    whole = cite(view, document, start, max(first.end, end), first.probability)
    citation = replace(whole, span_start=start, span_end=end)
    return replace(draft, text=citation.quote, citations=(citation, *others))


def with_items(view: LibraryView, documents: DocumentRows, question: str, draft: Draft) -> Draft:
    """Return a quote with the list that goes on with it: "overall management, including: ..."."""
    if not draft.found or not draft.citations or not _ASKS_WHAT.match(question):
        return draft
    first, *others = draft.citations
    document = documents.row(first.document)
    low = max(0, first.start - MARGIN)
    text = view.text(document.id, low, min(document.characters, first.end + _LONGEST_LIST))
    end = list_behind(text, first.end - low)
    if end is None:
        return draft
    whole = cite(view, document, first.start, low + end, first.probability)
    citation = replace(whole, span_start=first.start, span_end=first.end)
    return replace(draft, text=citation.quote, citations=(citation, *others))


def with_release(view: LibraryView, documents: DocumentRows, question: str, draft: Draft) -> Draft:
    """Return the release above a quote, where a question asks which one has what it says.

    A quote of another release than the one that is asked for is no answer.
    """
    if not draft.citations or not is_about_releases(question):
        return draft
    first, *others = draft.citations
    document = documents.row(first.document)
    low = max(0, first.start - RELEASE_MARGIN)
    text = view.text(document.id, low, min(document.characters, first.end + RELEASE_MARGIN))
    quote = (first.start - low, first.end - low)
    if draft.found and is_of_other_release(question, quote, text):
        return replace(draft, text="", found=False, verdict=None)
    is_sure = draft.found or draft.likely
    span = release_of(question, quote, text, is_sure=is_sure)
    if span is None:
        return draft
    release = cite(view, document, low + span[0], low + span[1], first.probability)
    return replace(
        draft,
        text=release.quote,
        found=True,
        citations=(release, first, *others),
        quote_probability=KEY_PRECISION,
        confidence=max(draft.confidence, KEY_PRECISION),
    )
