"""Looks up the value of a setting, in the configuration files that were retrieved from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from drt_engine.answer.citations import cite
from drt_engine.answer.documents import DocumentRows, first_documents
from drt_engine.answer.lists.list_answer import names_of
from drt_engine.answer.result import Draft
from drt_engine.answer.settings.setting_question import (
    LONGEST_VALUE,
    asks_count,
    named_setting,
    shares_words,
)
from drt_engine.documents.structure.setting_tree import SUFFIXES, count_items, settings_of
from drt_engine.retrieval.filters import Scope
from drt_engine.retrieval.passages import Passage
from drt_engine.store.view import LibraryView

# An estimate: on the few files that were looked at no value was wrong.
PRECISION = 0.9
_LONGEST_DOCUMENT = 500_000  # characters
_AROUND = 200  # characters on each side of a quote of settings


def setting_answer(
    view: LibraryView,
    documents: DocumentRows,
    question: str,
    passages: Sequence[Passage],
    *,
    scope: Scope,
) -> Draft | None:
    """Return the value of the key that ``question`` names; None where there is no clear one."""
    for document_id in first_documents(passages):
        document = documents.row(document_id)
        suffix = PurePath(document.source).suffix.lower()
        if suffix not in SUFFIXES or document.characters > _LONGEST_DOCUMENT:
            continue
        text = view.text(document_id, 0, document.characters)
        span = named_setting(question, text, settings_of(text, suffix), names_of(document))
        if span is None or not scope.holds(document_id, *span):
            continue
        near = [passage for passage in passages if passage.row.document_id == document_id]
        start, end = span
        if end - start > LONGEST_VALUE:  # whose items are only counted
            end = start + len(text[start:end].partition("\n")[0])
        value = cite(view, document, start, end, max(passage.probability for passage in near))
        count = count_items(text, *span) if asks_count(question) else 0
        return Draft(str(count) if count else value.quote, True, PRECISION, (value,))
    return None


def without_other_settings(
    view: LibraryView,
    documents: DocumentRows,
    question: str,
    draft: Draft,
) -> Draft:
    """Return a draft that has no answer where no word asked for is around a quote of settings.

    "Which version of the rope is used?" is not answered by the version of something else.
    """
    if not draft.found or not draft.citations:
        return draft
    first = draft.citations[0]
    document = documents.row(first.document)
    if PurePath(document.source).suffix.lower() not in SUFFIXES:
        return draft
    low, high = max(0, first.start - _AROUND), min(document.characters, first.end + _AROUND)
    around = view.text(document.id, low, high)
    if shares_words(question, f"{document.title} {first.section or ''} {around}"):
        return draft
    return replace(draft, text="", found=False, verdict=None)
