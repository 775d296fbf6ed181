"""Summaries of one or several documents of a library, or of a section of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from drt_engine.runtime import Runtime
from drt_engine.store.view import LibraryView
from drt_engine.summary.about import about_documents
from drt_engine.summary.abstractive import abstractive_summary
from drt_engine.summary.extractive import extractive_summary
from drt_engine.summary.options import SummaryOptions
from drt_engine.summary.result import SummaryResult


def summarize(
    runtime: Runtime, store: LibraryView, document_ids: str | Sequence[str], options: SummaryOptions
) -> SummaryResult:
    """Summarise documents of the library together.

    Reads a snapshot: writers do not change the documents meanwhile. Raises ``NotFound`` for an
    unknown document or section, ``QuestionError`` for a focus without words or too long,
    ``EmptyDocument`` where there is no sentence to take.
    """
    ids = [document_ids] if isinstance(document_ids, str) else list(document_ids)
    # "auto" is extractive for every length: it measured best (see the model card).
    make = abstractive_summary if options.mode == "abstractive" else extractive_summary
    with store.snapshot() as view, runtime.computing():
        documents = [view.document(document_id) for document_id in dict.fromkeys(ids)]
        result = make(runtime, view, documents, options)
        return replace(result, about=about_documents(view, documents, options))
