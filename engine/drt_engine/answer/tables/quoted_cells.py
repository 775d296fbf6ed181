"""Demotes quotes from a table that are of another column than the one a question asks for."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import PurePath

from drt_engine.answer.documents import DocumentRows
from drt_engine.answer.result import Draft
from drt_engine.answer.tables.attributes import asks_for_attribute, is_of_other_attribute
from drt_engine.answer.tables.records import lacks_column
from drt_engine.answer.tables.table_answer import LONGEST_DOCUMENT, quoted_row, rows_in
from drt_engine.answer.tables.values import comparable
from drt_engine.answer.tables.wording import content_stems, table_words
from drt_engine.model.word_similarity import WordSimilarity
from drt_engine.results import Citation
from drt_engine.runtime import Runtime
from drt_engine.store.view import LibraryView
from drt_engine.text.table_rows import Cell, TableRow

_LONGEST_CELL = 24  # characters; longer ones are no numbers
_LONGEST_ROW = 300
# The reader's own, for a number of another column, is as high as for the right one.
_CONFIDENCE = 0.1
_LEAD = 400  # characters above a row in which the text above its table is looked for


def without_other_columns(
    runtime: Runtime, view: LibraryView, documents: DocumentRows, question: str, draft: Draft
) -> Draft:
    """Return a draft as it is, or as none where its quote is of another column."""
    row = quoted_row(view, documents, draft)
    if draft.found and lacks_column(question, draft.text, row):
        return replace(draft, text="", found=False, verdict=None)
    if draft.found and draft.citations and asks_for_attribute(question):
        similarity = WordSimilarity(
            runtime.model.embedding, lambda word: runtime.tokenizer.encode(word).ids
        )
        if _is_of_other(view, documents, question, draft.citations[0], similarity):
            confidence = min(draft.confidence, _CONFIDENCE)
            return Draft("", False, confidence, draft.citations, tokens_read=draft.tokens_read)
    return draft


def _is_of_other(
    view: LibraryView,
    documents: DocumentRows,
    question: str,
    citation: Citation,
    similarity: WordSimilarity,
) -> bool:
    """Return whether a quote is numbers of a row, and other things of it are asked for."""
    document = documents.row(citation.document)
    quote = citation.quote
    is_row = "|" in quote and "\n" not in quote and len(quote) <= _LONGEST_ROW
    is_number = len(quote) <= _LONGEST_CELL and not math.isnan(comparable(quote))
    if not (is_row or is_number) or document.characters > LONGEST_DOCUMENT:
        return False
    text = view.text(document.id, 0, document.characters)
    row = next((r for r in rows_in(text, whole=True) if r.end >= citation.start), None)
    if row is None:
        return False
    cells = _quoted_cells(row, citation, question)
    title = f"{document.title} {PurePath(document.source).stem} {citation.section or ''}"
    return is_of_other_attribute(
        question,
        cells,
        row,
        similarity,
        context=frozenset(table_words(title)),
        lead=frozenset(table_words(_lead(text, row))),
    )


def _quoted_cells(row: TableRow, citation: Citation, question: str) -> list[Cell]:
    """Return the cells of a row that a quote is, less those whose words a question has.

    None where the quote has other text, too.
    """
    start, end = citation.start, citation.end
    inside = [cell for cell in row.cells if start <= cell.start and cell.end <= end]
    if len(inside) == 1 and len(row.cells) > 1:
        return inside if inside[0].text == citation.quote else []
    if len(inside) != len(row.cells) or row.end < end - 3:  # a bar behind the last cell
        return []
    stems = content_stems(question)
    return [cell for cell in inside if not content_stems(cell.text) & stems]


def _lead(text: str, row: TableRow) -> str:
    """Return the text above a row's table: lines without bars."""
    lines = text[max(0, row.start - _LEAD) : row.start].split("\n")[:-1]
    return "\n".join(line for line in lines if "|" not in line)
