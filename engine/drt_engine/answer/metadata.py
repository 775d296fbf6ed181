"""Proposes a document's own title, author or date, as its reader found them.

The value is cited where the document's head has it, otherwise as metadata of the file: a citation
without a quote, which names the field.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Literal

from drt_engine.answer.candidates import Candidate, ReadQuestion
from drt_engine.answer.citations import cite
from drt_engine.documents.base import date_of
from drt_engine.results import Citation
from drt_engine.retrieval.filters import Scope
from drt_engine.store import DocumentRow
from drt_engine.store.view import LibraryView
from drt_engine.text.words import STOP_WORDS, word_set, words

Field = Literal["author", "date", "title"]

HEAD = 4_000  # characters in which a value is looked for
_MOST_DOCUMENTS = 2_000  # of a library that are compared with a question
# Words that ask for a field, and those that say what was done to the document.
_ASKING: dict[Field, frozenset[str]] = {
    "author": word_set("who whom author authors sender"),
    "date": word_set("when date dated year"),
    "title": word_set("title titled entitled"),
}
_DONE = word_set(
    "write written wrote writes authored composed send sent sender publish published publication"
    " issue issued release released date dated"
)
_DOCUMENTS = word_set("document file text page pdf publication book novel")
_KINDS = {
    "message/": word_set("message mail email reply"),
    "application/epub": word_set("ebook"),
    "text/troff": word_set("manual page"),
}
# Words that alone ask for a document's own: "publication date", but not "release date".
_OWN = word_set("author authors sender title publication")
_HEADER = re.compile(r"(?m)^[A-Z][\w-]{1,30}:[ \t]+(?P<value>\S[^\n]*)")
_LEAST_TITLE_WORDS = 2  # one word of a title may be the name of anything


def propose_fields(question: ReadQuestion, view: LibraryView) -> list[Candidate]:
    """Propose the fields that a question asks for; nothing unless it is about one document itself.

    Every word of the question asks for a field, or names the document by its title or its kind.
    """
    question_words = words(question.text)
    fields = _fields(frozenset(question_words))
    document = _document(view, question_words, question.scope.document_ids) if fields else None
    if document is None:
        return []
    candidates = [_citation(question, view, document, field) for field in fields]
    citations = tuple(citation for citation in candidates if citation is not None)
    # Parts of a document say nothing of it unless they have its head.
    is_in_scope = all(_is_in(citation, question.scope) for citation in citations)
    if len(citations) < len(fields) or not is_in_scope:
        return []
    text = "; ".join(citation.quote or _value(citation) for citation in citations)
    return [Candidate(text, True, question.judgement.confidence, citations, origin="metadata")]


def _fields(question_words: frozenset[str]) -> list[Field]:
    """Return the fields that a question's words ask for."""
    fields: list[Field] = [name for name, asking in _ASKING.items() if asking & question_words]
    # "When was it?" is about something else.
    needs_verb = {"who", "whom", "when", "year"} & question_words
    return fields if not needs_verb or (_DONE | _OWN) & question_words else []


def _document(
    view: LibraryView, question_words: Sequence[str], document_ids: Sequence[str] | None
) -> DocumentRow | None:
    """Return the one document that a question is about; ``None`` where that is not clear."""
    count = view.count_documents() if document_ids is None else len(document_ids)
    if count > _MOST_DOCUMENTS:
        return None
    rows = view.documents() if document_ids is None else view.documents_by_id(document_ids)
    alone = len(rows) == 1
    named = [row for row in rows if _is_named(row, question_words, alone=alone)]
    return named[0] if len(named) == 1 else None


def _is_named(row: DocumentRow, question_words: Sequence[str], *, alone: bool) -> bool:
    """Return whether a question's words name a document; one ``alone`` may be "it" or "this"."""
    title = frozenset(words(f"{row.title} {PurePath(row.source).name}"))
    kinds = _DOCUMENTS.union(
        *(kind for media_type, kind in _KINDS.items() if row.media_type.startswith(media_type))
    )
    pairs = zip(question_words, question_words[1:], strict=False)
    nouns = {noun for before, noun in pairs if before == "this"} if alone else set()
    asking = frozenset[str]().union(_DONE, *_ASKING.values())
    names = frozenset(question_words) - STOP_WORDS - asking - {"it", "this"}
    if not names <= title | kinds | nouns:
        return False
    points = {"it", "this"} | (kinds if names else _OWN)
    return (alone and bool(points & {*question_words})) or len(names & title) >= _LEAST_TITLE_WORDS


def _citation(
    question: ReadQuestion, view: LibraryView, document: DocumentRow, field: Field
) -> Citation | None:
    """Cite a field of a document where its head has it, else as metadata of its file."""
    is_file_name = document.title in (document.source, PurePath(document.source).name)
    values: dict[Field, str] = {
        "author": document.author,
        "date": document.date,
        "title": "" if is_file_name else document.title,
    }
    value = values[field]
    if not value:
        return None
    head = view.text(document.id, 0, min(document.characters, HEAD))
    if (place := _locate(head, value, field)) is not None:
        passages = (p for p in question.passages if p.row.document_id == document.id)
        probability = max((p.probability for p in passages if p.row.start == 0), default=0.0)
        return cite(view, document, *place, probability)
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


def _locate(head: str, value: str, field: Field) -> tuple[int, int] | None:
    """Return where a document's head has a value; a date in any form that readers know."""
    match = re.search(r"\s+".join(map(re.escape, value.split())), head, re.IGNORECASE)
    if match is None and field == "date":
        lines = _HEADER.finditer(head)
        match = next((line for line in lines if date_of(line["value"]) == value), None)
        return match.span("value") if match else None
    return match.span() if match else None


def _value(citation: Citation) -> str:
    return (citation.metadata or "").partition(": ")[2]


def _is_in(citation: Citation, scope: Scope) -> bool:
    if citation.metadata is not None:  # no part of the text
        return scope.spans is None
    return scope.holds(citation.document, citation.start, citation.end)
