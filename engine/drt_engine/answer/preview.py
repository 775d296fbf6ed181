"""What a question reads, before it is read: the best sentence that was retrieved.

Takes milliseconds, where reading takes seconds. Loads no model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from drt_engine.answer.sentences import sentences_at
from drt_engine.progress import watching_passages
from drt_engine.results import ReadingStep
from drt_engine.text.lexical import LexicalIndex

if TYPE_CHECKING:
    from drt_engine.retrieval.library import LibraryQuery
    from drt_engine.retrieval.passages import Passage


@contextmanager
def watch_reading(callback: Callable[[ReadingStep], None]) -> Iterator[None]:
    """Call ``callback`` whenever a question in the block is about to read a batch of passages.

    Questions of this thread alone. One that has several parts reads more than once.
    """
    step: ReadingStep | None = None

    def watch(query: LibraryQuery, passages: Sequence[Passage], num_read: int) -> None:
        nonlocal step
        if step is None or not num_read:
            step = _step(query, passages)
        callback(replace(step, read=num_read))

    with watching_passages(watch):
        yield


def _step(query: LibraryQuery, passages: Sequence[Passage]) -> ReadingStep:
    """Return the step, with the sentence of the best passage that has most words of the query."""
    best = passages[0].row
    (document,) = query.store.documents_by_id([best.document_id])
    end = best.start + len(best.text)
    spans = sentences_at(query.store, document, best.start, end) or [(best.start, end)]
    index = LexicalIndex([query.store.text(document.id, *span) for span in spans])
    ranked = index.search(query.question)
    index.close()
    start, end = spans[ranked[0][0] if ranked else 0]
    text = query.store.text(document.id, start, end).strip()
    return ReadingStep(len(passages), document.id, document.title, text, start, end)
