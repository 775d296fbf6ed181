"""What is shown where a question does not tell which of several documents it means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from drt_engine.answer.metadata.lookup import PRECISION, metadata_answer
from drt_engine.answer.parts import question_parts
from drt_engine.answer.result import Draft
from drt_engine.retrieval.filters import Scope
from drt_engine.store import DocumentRow
from drt_engine.store.view import LibraryView

_MOST_PLACES = 2  # that are shown as likely


def likely_of_several(
    view: LibraryView, question: str, draft: Draft, documents: Sequence[DocumentRow]
) -> Draft:
    """Return a draft as likely at most; of two ``documents``, cite the field that is asked of each.

    One quote of several documents that fit is as often wrong as right.
    """
    if len(documents) <= _MOST_PLACES:
        for text in (question, *(part.question for part in question_parts(question))):
            fields = [metadata_answer(view, text, Scope((row.id,)), ()) for row in documents]
            citations = tuple(field.citations[0] for field in fields if field is not None)
            if len(citations) == len(documents) and all(c.quote for c in citations):
                return Draft(
                    "",
                    False,
                    draft.confidence,
                    citations,
                    likely=True,
                    quote_probability=PRECISION / len(documents),
                )
    if not draft.found:
        return draft
    return replace(
        draft,
        text="",
        found=False,
        likely=True,
        citations=draft.citations[:_MOST_PLACES],
        quote_probability=draft.probability / max(1, len(documents)),
        verdict=None,
        unanswered=(),
    )
