"""Releases of change logs as answers: looked up, or those in whose notes a quote stands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from drt_engine.answer.citations import cite
from drt_engine.answer.documents import DocumentRows
from drt_engine.answer.lists.list_answer import (
    KEY_PRECISION,
    RELEASE_MARGIN,
    names_of,
    texts_with,
)
from drt_engine.answer.lists.release_lists import releases, says_all
from drt_engine.answer.lists.release_questions import (
    asks_for_release,
    asks_when,
    has_versions,
    release_above,
    release_span,
)
from drt_engine.answer.result import Draft
from drt_engine.retrieval.filters import Scope
from drt_engine.retrieval.passages import Passage
from drt_engine.store.view import LibraryView

# A version and a year in one line.
_RELEASED = re.compile(r"\d\.\d.*\b(?:19|20)\d\d\b|\b(?:19|20)\d\d\b.*\d\.\d")


def release_answer(
    view: LibraryView,
    documents: DocumentRows,
    question: str,
    passages: Sequence[Passage],
    *,
    scope: Scope,
) -> Draft | None:
    """Return the date of a release, or the release of a date, the last or the first one.

    ``passages`` are the retrieved ones, of the ``scope``.
    """
    if not asks_for_release(question):
        return None
    for document, text, offset, probability in texts_with(
        view, documents, passages, _RELEASED, scope=scope
    ):
        whole = len(text) == document.characters
        span = release_span(question, text, names_of(document), whole=whole)
        if span is not None:
            citation = cite(view, document, offset + span[0], offset + span[1], probability)
            return Draft(citation.quote, True, KEY_PRECISION, (citation,))
    return None


def in_change_log(view: LibraryView, documents: DocumentRows, passages: Sequence[Passage]) -> bool:
    """Return whether the best passage is in a change log."""
    best = max(passages, key=lambda passage: passage.probability, default=None)
    if best is None:
        return False
    document, at = documents.row(best.row.document_id), best.row.start
    low, high = max(0, at - RELEASE_MARGIN), min(document.characters, at + RELEASE_MARGIN)
    return bool(releases(view.text(document.id, low, high)))


def with_release_of_notes(
    view: LibraryView, documents: DocumentRows, question: str, draft: Draft
) -> Draft | None:
    """Return the version, or the date, in whose notes a quote stands; None if in no change log.

    A quote that lacks a version that is asked for is a likely place only.
    """
    if not draft.citations:
        return None
    first, *others = draft.citations
    if not draft.found and says_all(question, first.sentence):
        draft = replace(draft, found=True, text=first.quote, quote_probability=KEY_PRECISION)
    if not has_versions(question, f"{first.quote}\n{first.context}"):
        draft = replace(draft, found=False, likely=True)
    document = documents.row(first.document)
    low = max(0, first.start - RELEASE_MARGIN)
    text = view.text(document.id, low, min(document.characters, first.end + RELEASE_MARGIN))
    span = release_above(first.quote, text, first.start - low, date=asks_when(question))
    if span is None:
        return None
    release = cite(view, document, low + span[0], low + span[1], first.probability)
    citations = (release, first, *others) if draft.found else draft.citations
    shown = release.quote if draft.found else ""
    return replace(draft, text=shown, citations=citations, verdict=None)
