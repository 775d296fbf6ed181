"""Computes answers over the rows of a table, in the documents that were retrieved from.

Retrieval tells which documents to look into; their rows are then compared, counted and summed as a
whole. A single cell is the reader's to quote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath

from drt_engine.answer.candidates import Candidate, ReadQuestion
from drt_engine.answer.citations import cite
from drt_engine.answer.documents import first_documents
from drt_engine.answer.tables.extremes import compare
from drt_engine.answer.tables.table_question import TableTotal
from drt_engine.answer.tables.totals import total
from drt_engine.answer.tables.values import tables_of
from drt_engine.answer.tables.wording import table_words
from drt_engine.retrieval.passages import Passage
from drt_engine.store import DocumentRow
from drt_engine.store.view import LibraryView
from drt_engine.text.table_rows import table_rows

LONGEST_DOCUMENT = 2_000_000  # characters; a part of a longer one may lack some rows
_MOST_CITATIONS = 5  # of a count or a sum, which may rest on thousands of rows
_FIELDS = re.compile(r"(?m)\||^[^\s:;]+([:;\t])[^\s:;][^:;\t\n]*\1\S")
# Two lines that spaces align; after a sentence's end they part sentences.
_ALIGNED = re.compile(r"[^\s.!?:\"'\u201d\u2019)] {2,}\S.*\n.*[^\s.!?:\"'\u201d\u2019)] {2,}\S")


def propose_cells(question: ReadQuestion, view: LibraryView) -> Iterator[Candidate]:
    """Propose a count, a sum, an extreme or a difference with the cells it rests on.

    Nothing where the rows do not explain every word of the question, or tables disagree.
    """
    for document_id in _documents_with_tables(question.passages):
        document = question.documents.row(document_id)
        if document.characters > LONGEST_DOCUMENT:
            continue
        totals = _totals(question, view, document)
        if len({answer.text for answer in totals}) == 1:
            yield _candidate(question, view, document, totals[0])
            return


def _totals(question: ReadQuestion, view: LibraryView, document: DocumentRow) -> list[TableTotal]:
    """Return what each table of a document answers, within the scope of the question."""
    text = view.text(document.id, 0, document.characters)
    rows = [
        row for row in table_rows(text) if question.scope.holds(document.id, row.start, row.end)
    ]
    title = frozenset(table_words(f"{document.title} {PurePath(document.source).stem}"))
    answers = []
    for table in tables_of(rows):
        section = view.place(document.id, table.rows[0].start)[1]
        context = title | frozenset(table_words(section or ""))
        answers.append(
            compare(question.text, table) or total(question.text, table, context=context)
        )
    return [answer for answer in answers if answer is not None]


def _candidate(
    question: ReadQuestion, view: LibraryView, document: DocumentRow, answer: TableTotal
) -> Candidate:
    """Return an answer with citations of the cells it rests on."""
    probability = max(
        passage.probability
        for passage in question.passages
        if passage.row.document_id == document.id
    )
    cells = answer.cells[:_MOST_CITATIONS]
    citations = [cite(view, document, cell.start, cell.end, probability) for cell in cells]
    if left_out := len(answer.cells) - len(cells):
        citations[-1] = replace(citations[-1], more_items=left_out)
    confidence = question.judgement.confidence
    return Candidate(answer.text, True, confidence, tuple(citations), origin="table")


def _documents_with_tables(passages: Sequence[Passage]) -> list[str]:
    """Return the documents of the best passages that hold a line of fields, or aligned ones."""
    return first_documents(
        passage
        for passage in passages
        if _FIELDS.search(passage.text) or _ALIGNED.search(passage.text)
    )
