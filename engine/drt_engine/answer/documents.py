"""The documents of a library that a question may be answered from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from drt_engine.errors import NotFound, QuestionError, StoreError
from drt_engine.retrieval.passages import Passage
from drt_engine.store import DocumentRow
from drt_engine.store.view import LibraryView

_MOST_DOCUMENTS = 2  # that an answer is looked up in


class DocumentRows:
    """Rows of documents by id, each read from the library once."""

    def __init__(self, store: LibraryView, rows: Iterable[DocumentRow] = ()) -> None:
        self._store = store
        self._rows = {row.id: row for row in rows}

    def row(self, document_id: str) -> DocumentRow:
        """Return the row of a document that something was retrieved from."""
        row = self._rows.get(document_id) or self._store.document_by_id(document_id)
        if row is None:
            raise StoreError(
                f"document {document_id} has chunks but no row: run `drt library check`"
            )
        self._rows[document_id] = row
        return row


def first_documents(passages: Iterable[Passage]) -> list[str]:
    """Return the ids of the documents of the best passages, in which an answer is looked up."""
    ids = dict.fromkeys(passage.row.document_id for passage in passages)
    return list(ids)[:_MOST_DOCUMENTS]


def documents_to_ask(store: LibraryView, document_ids: Sequence[str] | None) -> DocumentRows:
    """Return the rows of the documents that a question is restricted to, if it is.

    Raises ``NotFound`` where one of them is not there, ``QuestionError`` where there is none to
    ask.
    """
    rows = store.documents_by_id(document_ids or ())
    present = {row.id for row in rows}
    for document_id in document_ids or ():
        if document_id not in present:
            raise NotFound(f"no document has the id {document_id!r}; it was removed or replaced")
    if document_ids == () or not store.has_documents():
        raise QuestionError("there is no document to ask; read one first with `drt ingest PATH`")
    return DocumentRows(store, rows)
