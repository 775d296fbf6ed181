"""Answers a question about a document itself, from its text where that says so.

What only the file's metadata say is cited as such: a citation without a quote, which names the
field.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from drt_engine.answer.candidates import Candidate, ReadQuestion
from drt_engine.answer.citations import cite
from drt_engine.answer.metadata.header import header_values
from drt_engine.answer.metadata.question import (
    Field,
    MetadataQuestion,
    is_about,
    metadata_question,
    names_title,
)
from drt_engine.answer.metadata.values import (
    HEAD,
    Stored,
    Value,
    find_value,
    locate,
    version_in,
)
from drt_engine.results import Citation
from drt_engine.retrieval.filters import Scope
from drt_engine.retrieval.passages import Passage
from drt_engine.store import DocumentRow
from drt_engine.store.view import LibraryView

_MOST_DOCUMENTS = 2_000  # of a library that are compared with a question
_NEAR = 60  # characters between two values that are quoted together


def propose_fields(question: ReadQuestion, view: LibraryView) -> list[Candidate]:
    """Propose a document's own title, author, date, version and the like.

    Nothing where a question is not clearly about one document itself, or its scope does not say.
    """
    document_ids, passages = question.scope.document_ids, question.passages
    asked = metadata_question(question.text)
    document = None if asked is None else _document(view, asked, document_ids)
    if asked is None or document is None:
        citations = _named_fields(view, question.text, document_ids, passages)
    else:
        citations = _own_fields(view, document, asked, passages)
    # Parts of a document say nothing of it unless they have its head.
    if not citations or not all(_is_in(citation, question.scope) for citation in citations):
        return []
    text = "; ".join(map(_shown, citations))
    confidence = question.judgement.confidence
    return [Candidate(text, True, confidence, tuple(citations), origin="metadata")]


def _is_in(citation: Citation, scope: Scope) -> bool:
    if citation.metadata is not None:  # no part of the text
        return scope.spans is None
    return scope.holds(citation.document, citation.start, citation.end)


def _own_fields(
    view: LibraryView,
    document: DocumentRow,
    asked: MetadataQuestion,
    passages: Sequence[Passage],
) -> list[Citation]:
    """Cite what a document says of itself, and what only its file's metadata say."""
    head = view.text(document.id, 0, min(document.characters, HEAD))
    stored = Stored(_own_title(document), document.author, document.date)
    citations: list[Citation] = []
    by_field = {field: _values(document, field, asked, head=head) for field in asked.fields}
    values = [value for field in asked.fields for value in by_field[field]]
    for start, end in _together(head, values):
        probability = _probability(passages, document.id, start)
        citations.append(cite(view, document, start, end, probability))
    if not (asked.updated or asked.is_named_alone):
        missing = [field for field in asked.fields if not by_field[field]]
        citations += filter(None, (_of_file(document, field, stored) for field in missing))
    return citations


def _values(
    document: DocumentRow, field: Field, asked: MetadataQuestion, *, head: str
) -> list[Value]:
    """Return where a document says what a field of it is; each of several authors by itself."""
    stored = Stored(_own_title(document), document.author, document.date)
    if field == "author":
        names = [locate(head, name) for name in document.author.split(", ")]
        if len(names) > 1 and all(names):
            return [name for name in names if name is not None]
    value = find_value(field, head, stored, updated=asked.updated, keyed=asked.is_named_alone)
    return [] if value is None else [value]


def _named_fields(
    view: LibraryView,
    question: str,
    document_ids: Sequence[str] | None,
    passages: Sequence[Passage],
) -> list[Citation]:
    """Cite the field of the header of the only document that is asked."""
    rows = view.documents() if document_ids is None else view.documents_by_id(document_ids)
    if len(rows) != 1:
        return []
    (document,) = rows
    head = view.text(document.id, 0, min(document.characters, HEAD))
    values = header_values(question, head, _title_and_file(document))
    return [
        cite(view, document, v.start, v.end, _probability(passages, document.id, v.start))
        for v in values
    ]


def _shown(citation: Citation) -> str:
    """Return what a citation says: its quote, or the value of the file's metadata."""
    return citation.quote or (citation.metadata or "").partition(": ")[2]


def _document(
    view: LibraryView, asked: MetadataQuestion, document_ids: Sequence[str] | None
) -> DocumentRow | None:
    """Return the one document that a question is about; None where that is not clear."""
    rows = view.documents() if document_ids is None else view.documents_by_id(document_ids)
    if len(rows) > 1:  # of several documents one has to be named
        rows = rows[:_MOST_DOCUMENTS]
        rows = [row for row in rows if names_title(asked, _title_and_file(row))]
    if len(rows) != 1:
        return None
    row = rows[0]
    head = view.text(row.id, 0, min(row.characters, HEAD))
    fits = is_about(
        asked,
        title=_title_and_file(row),
        author=row.author,
        head=head,
        media_type=row.media_type,
    )
    return row if fits else None


def _title_and_file(row: DocumentRow) -> str:
    return f"{row.title} {PurePath(row.source).name}"


def _own_title(row: DocumentRow) -> str:
    """Return the document's title, "" where it is only the name of its file."""
    return "" if row.title in (row.source, PurePath(row.source).name) else row.title


def _together(head: str, values: Sequence[Value]) -> list[tuple[int, int]]:
    """Return the spans of values, those that are beside each other as one."""
    spans: list[tuple[int, int]] = []
    for value in values:
        if spans:
            start, end = min(spans[-1][0], value.start), max(spans[-1][1], value.end)
            if end - start <= len(value.text) + spans[-1][1] - spans[-1][0] + _NEAR and (
                "\n\n" not in head[start:end]
            ):
                spans[-1] = (start, end)
                continue
        spans.append((value.start, value.end))
    return spans


def _probability(passages: Sequence[Passage], document_id: str, start: int) -> float:
    """Return the retrieval probability of the passage with a character, 0 without one."""
    return max(
        (
            passage.probability
            for passage in passages
            if passage.row.document_id == document_id
            and passage.row.start <= start < passage.row.start + len(passage.row.text)
        ),
        default=0.0,
    )


def _of_file(document: DocumentRow, field: Field, stored: Stored) -> Citation | None:
    """Return the citation of a value that the file's metadata alone have; None without one."""
    values: dict[Field, str] = {
        "title": stored.title,
        "author": stored.author,
        "date": stored.date,
        "version": version_in(stored.title),
    }
    value = values.get(field)
    if not value:
        return None
    return Citation(
        document=document.id,
        title=document.title,
        source=document.source,
        start=0,
        end=0,
        quote="",
        page=None,
        section=None,
        probability=0.0,
        metadata=f"{field}: {value}",
    )
