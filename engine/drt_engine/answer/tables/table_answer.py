"""Looks up the cell of a table that answers a question, in the documents that were retrieved from.

The retrieved chunks tell which documents to look into; a document's rows are then compared as a
whole, since two rows of a table differ in few words and any of them may be the best chunk.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from pathlib import PurePath

from drt_engine.answer.candidates import Candidate, ReadQuestion
from drt_engine.answer.citations import cite
from drt_engine.answer.documents import first_documents
from drt_engine.answer.tables.dimensions import is_superlative
from drt_engine.answer.tables.extremes import compare
from drt_engine.answer.tables.lookup import look_up
from drt_engine.answer.tables.number_rows import NUMBER_LINES, number_rows
from drt_engine.answer.tables.table_question import kind_of_rows
from drt_engine.answer.tables.totals import total
from drt_engine.answer.tables.values import Table, tables_of
from drt_engine.answer.tables.verdicts import TableVerdict, verdict_of
from drt_engine.answer.tables.wording import Similarity, is_heading_number, table_words
from drt_engine.model.word_similarity import WordSimilarity
from drt_engine.retrieval.passages import Passage
from drt_engine.store import DocumentRow
from drt_engine.store.view import LibraryView
from drt_engine.text.table_rows import Cell, TableRow, table_rows

LONGEST_DOCUMENT = 2_000_000  # characters that are searched whole; of a longer one, what surrounds
MARGIN = 2_000  # characters around a retrieved chunk
_MOST_CITATIONS = 5  # of a count or a sum, which may rest on thousands of rows
_FEWEST_NUMBERS = 2  # that a question names a heading by
_FIELDS = re.compile(r"(?m)\||^[^\s:;]+([:;\t])[^\s:;][^:;\t\n]*\1\S")
# Two lines that spaces align; after a sentence's end they part sentences.
_ALIGNED = re.compile(r"[^\s.!?:\"'\u201d\u2019)] {2,}\S.*\n.*[^\s.!?:\"'\u201d\u2019)] {2,}\S")


def propose_cells(question: ReadQuestion, view: LibraryView) -> list[Candidate]:
    """Propose the cell that answers, or a count or a sum with the cells it rests on.

    Nothing where neither is clear.
    """
    candidate = _candidate(question, view)
    return [] if candidate is None else [candidate]


def _candidate(asked: ReadQuestion, view: LibraryView) -> Candidate | None:
    question, passages = asked.text, asked.passages
    confidence = asked.judgement.confidence
    similarity: WordSimilarity | None = None
    for document_id in _documents_with_tables(passages):
        document = asked.documents.row(document_id)
        for text, offset, probability in _texts_around(view, document, passages):
            whole = len(text) == document.characters
            rows = [  # whose names of columns may be elsewhere
                row
                for row in _rows_in(text, whole=whole)
                if asked.scope.holds(document.id, offset + row.start, offset + row.end)
            ]
            if not rows:
                continue
            similarity = similarity or WordSimilarity(
                asked.runtime.model.embedding, lambda word: asked.runtime.tokenizer.encode(word).ids
            )
            context = frozenset(table_words(f"{document.title} {PurePath(document.source).stem}"))
            tables = [table for table in tables_of(rows) if len(table.rows) > 1]
            sections = [view.place(document.id, offset + t.rows[0].start)[1] for t in tables]
            contexts = [context | frozenset(table_words(section or "")) for section in sections]
            tables, contexts = _of_heading(question, tables, contexts)
            verdict = _verdict(question, tables, similarity, contexts)
            if verdict is not None:
                candidate = _verdict_candidate(view, document, text, verdict, (offset, probability))
                return replace(candidate, confidence=confidence)
            text_of_answer, cells = _answer(
                question, tables, similarity, contexts=contexts if whole else None
            )
            if cells:
                citations = [
                    cite(view, document, offset + cell.start, offset + cell.end, probability)
                    for cell in cells[:_MOST_CITATIONS]
                ]
                if len(cells) > _MOST_CITATIONS:
                    more = len(cells) - _MOST_CITATIONS
                    citations[-1] = replace(citations[-1], more_items=more)
                answer = text_of_answer or citations[0].quote
                return Candidate(answer, True, confidence, tuple(citations), origin="table")
    return None


def _of_heading(
    question: str, tables: list[Table], contexts: list[frozenset[str]]
) -> tuple[list[Table], list[frozenset[str]]]:
    """Return the tables whose heading has all numbers of a question, where some have; else all.

    "The schedule for 9 players on 2 courts" is one of many. Years are of rows.
    """
    words = table_words(question)
    numbers = set(filter(is_heading_number, words))
    named = [numbers <= context for context in contexts]
    if len(numbers) < _FEWEST_NUMBERS or not any(named):
        return tables, contexts
    return list(compress(tables, named)), list(compress(contexts, named))


def _verdict(
    question: str,
    tables: Sequence[Table],
    similarity: Similarity,
    contexts: Sequence[frozenset[str]],
) -> TableVerdict | None:
    """Return what the one table that decides a question of yes or no says."""
    verdicts = [
        verdict
        for table, context in zip(tables, contexts, strict=True)
        if (verdict := verdict_of(question, table, similarity, context=context))
    ]
    return verdicts[0] if len(verdicts) == 1 else None


def _verdict_candidate(
    view: LibraryView,
    document: DocumentRow,
    text: str,
    verdict: TableVerdict,
    place: tuple[int, float],
) -> Candidate:
    """Return yes or no with the whole row, since a cell of it alone says nothing."""
    offset, probability = place
    start = text.rfind("\n", 0, verdict.row.start) + 1
    end = text.find("\n", verdict.row.end)
    row = cite(
        view, document, offset + start, offset + (len(text) if end < 0 else end), probability
    )
    cell = verdict.cell
    citation = replace(row, span_start=offset + cell.start, span_end=offset + cell.end)
    answer = "yes" if verdict.is_yes else "no"
    return Candidate(citation.quote, True, 0.0, (citation,), verdict=answer, origin="table")


def _answer(
    question: str,
    tables: Sequence[Table],
    similarity: Similarity,
    *,
    contexts: Sequence[frozenset[str]] | None,
) -> tuple[str, tuple[Cell, ...]]:
    """Return the answer's text, "" where it is that of its first cell, and the cells it rests on.

    Rows are only compared, counted and summed in a document that was read whole; each table has the
    words ``contexts`` of what it is called. Of a part, which has None, some rows may be missing.
    Two tables that answer differently are no answer.
    """
    computed = [compare(question, table, similarity) for table in tables]
    if contexts is not None:
        computed = [
            answer or total(question, table, similarity, context=context)
            for answer, table, context in zip(computed, tables, contexts, strict=True)
        ]
        # Whatever a question calls the rows, they are meant where their column is just "Name".
        kind = kind_of_rows(question)
        if kind and not any(computed):
            computed = [
                total(question, table, similarity, context=context | {kind})
                if table.may_hold(kind)
                else None
                for table, context in zip(tables, contexts, strict=True)
            ]
    elif is_superlative(question):
        return "", ()
    totals = [answer for answer in computed if answer is not None]
    if totals:
        is_clear = len({answer.text for answer in totals}) == 1
        return (totals[0].text, totals[0].cells) if is_clear else ("", ())
    lookups = [
        look_up(question, table.rows, similarity, context=context)
        for table, context in zip(tables, contexts or [frozenset()] * len(tables), strict=True)
    ]
    cells = sorted(filter(None, lookups), key=lambda answer: -answer.words)
    if not cells or (len(cells) > 1 and cells[0].words == cells[1].words):
        return "", ()
    return "", (cells[0].cell,)


def _rows_in(text: str, *, whole: bool) -> list[TableRow]:
    """Return the rows of all tables in a text, also of those of numbers that spaces part."""
    rows = table_rows(text, whole=whole)
    lines = {text.rfind("\n", 0, row.start) for row in rows}
    others = (row for row in number_rows(text) if text.rfind("\n", 0, row.start) not in lines)
    return sorted([*rows, *others], key=lambda row: row.start)


def _documents_with_tables(passages: Sequence[Passage]) -> list[str]:
    """Return the documents of the best passages that hold a line of fields, or aligned ones."""
    return first_documents(
        p
        for p in passages
        if "|" in p.text or any(sign.search(p.text) for sign in (_FIELDS, _ALIGNED, NUMBER_LINES))
    )


def _texts_around(
    view: LibraryView, document: DocumentRow, passages: Sequence[Passage]
) -> list[tuple[str, int, float]]:
    """Return texts to look into, where each begins, and the probability of its best passage."""
    document_passages = [passage for passage in passages if passage.row.document_id == document.id]
    if document.characters <= LONGEST_DOCUMENT:
        return [
            (view.text(document.id, 0, document.characters), 0, document_passages[0].probability)
        ]
    texts = []
    for passage in document_passages:
        start = max(0, passage.row.start - MARGIN)
        end = min(document.characters, passage.row.start + len(passage.row.text) + MARGIN)
        text = view.text(document.id, start, end)
        # A line that the ends cut has lost its first cells or the end of its last one.
        first = text.find("\n") + 1 if start else 0
        last = text.rfind("\n") if end < document.characters else len(text)
        texts.append((text[first : max(first, last)], start + first, passage.probability))
    return texts
