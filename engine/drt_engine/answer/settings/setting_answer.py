"""Looks up the value of a setting, in the configuration files that were retrieved from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from drt_engine.answer.citations import cite
from drt_engine.answer.documents import DocumentRows
from drt_engine.answer.lists.list_answer import names_of
from drt_engine.answer.result import Draft
from drt_engine.answer.settings.setting_question import named_setting
from drt_engine.answer.tables.table_answer import MOST_DOCUMENTS
from drt_engine.documents.structure.setting_tree import SUFFIXES, settings_of
from drt_engine.retrieval.filters import Scope
from drt_engine.retrieval.passages import Passage
from drt_engine.store.view import LibraryView

# An estimate: on the few files that were looked at no value was wrong.
PRECISION = 0.9
_LONGEST_DOCUMENT = 500_000  # characters


def setting_answer(
    view: LibraryView,
    documents: DocumentRows,
    question: str,
    passages: Sequence[Passage],
    *,
    scope: Scope,
) -> Draft | None:
    """Return the value of the key that ``question`` names; None where there is no clear one."""
    ids = list(dict.fromkeys(passage.row.document_id for passage in passages))[:MOST_DOCUMENTS]
    for document_id in ids:
        document = documents.row(document_id)
        suffix = PurePath(document.source).suffix.lower()
        if suffix not in SUFFIXES or document.characters > _LONGEST_DOCUMENT:
            continue
        text = view.text(document_id, 0, document.characters)
        span = named_setting(question, text, settings_of(text, suffix), names_of(document))
        if span is None or not scope.holds(document_id, *span):
            continue
        near = [passage for passage in passages if passage.row.document_id == document_id]
        value = cite(view, document, *span, max(passage.probability for passage in near))
        return Draft(value.quote, True, PRECISION, (value,))
    return None
