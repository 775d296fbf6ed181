"""Extractive summaries: sentences of the documents, quoted with their places.

Works for any length: the text is cut into parts, the retrieval graph of each part is scored, and
the sentences of all parts compete for the length, which is never exceeded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from drt_engine.answer.citations import cite
from drt_engine.errors import EmptyDocument, NotFound
from drt_engine.results import Citation
from drt_engine.runtime import Runtime
from drt_engine.store import DocumentRow
from drt_engine.store.catalogue.document_rows import nearest
from drt_engine.store.view import LibraryView
from drt_engine.summary.candidates import Candidate, sentence_candidates
from drt_engine.summary.options import SummaryOptions
from drt_engine.summary.result import SummaryResult
from drt_engine.summary.sections import section_spans
from drt_engine.summary.selection import pick_sentences
from drt_engine.summary.sentences.tables import describe_table


def extractive_summary(
    runtime: Runtime, view: LibraryView, documents: Sequence[DocumentRow], options: SummaryOptions
) -> SummaryResult:
    """Return the best sentences of the documents that fit in the length.

    Raises ``NotFound`` for an unknown section, ``EmptyDocument`` where there is no sentence.
    """
    candidates = candidates_of_documents(runtime, view, documents, options)
    if len(documents) == 1 and not any(candidate.is_prose for candidate in candidates):
        table = _table_summary(view, documents[0], options)
        if table is not None:
            return table
    picked = pick_sentences(candidates, options.budget, longest=options.longest)
    if not picked:
        raise EmptyDocument(f"{_titles(documents)} holds no sentences, expected text to summarise")
    citations = tuple(_cite_candidate(view, documents, c, options.longest) for c in picked)
    text = " ".join(" ".join(citation.quote.split()) for citation in citations)
    tokens = sum(document.tokens for document in documents)
    return SummaryResult(text, "extractive", citations, tokens)


def _table_summary(
    view: LibraryView, document: DocumentRow, options: SummaryOptions
) -> SummaryResult | None:
    """Return what a document that is one table holds; None for any other."""
    description = describe_table("".join(view.iter_text(document.id)), options.budget)
    if description is None:
        return None
    text, start, end = description
    first_row = cite(view, document, start, end, 1.0)
    return SummaryResult(text, "table", (first_row,), document.tokens)


def candidates_of_documents(
    runtime: Runtime, view: LibraryView, documents: Sequence[DocumentRow], options: SummaryOptions
) -> list[Candidate]:
    """Return the candidate sentences of all documents, or of the section that the options name.

    Raises ``NotFound`` for a section that no document has.
    """
    candidates: list[Candidate] = []
    section_names: list[str] = []
    for number, document in enumerate(documents):
        spans = None
        if options.section is not None or options.pages is not None:
            spans, names = section_spans(view, document, options.section, options.pages)
            section_names += names
            if not spans:
                continue
        sentences = sentence_candidates(runtime, view, document, options.focus, spans=spans)
        candidates += [replace(sentence, document=number) for sentence in sentences]
    if options.section is not None and not candidates:
        hint = nearest(options.section, list(dict.fromkeys(section_names)))
        raise NotFound(f"no section {options.section!r} with text in {_titles(documents)}: {hint}")
    return candidates


def _cite_candidate(
    view: LibraryView, documents: Sequence[DocumentRow], candidate: Candidate, longest: float
) -> Citation:
    """Return a candidate's citation, cut after ``longest`` words."""
    document, start, end = documents[candidate.document], candidate.start, candidate.end
    if candidate.length > longest:
        words = re.finditer(r"\S+", view.text(document.id, start, end))
        end = start + [word.end() for word in words][int(longest) - 1]
    return cite(view, document, start, end, candidate.retrieved)


def _titles(documents: Sequence[DocumentRow]) -> str:
    return ", ".join(repr(document.title) for document in documents[:3])
