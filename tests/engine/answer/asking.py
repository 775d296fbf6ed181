"""Questions, and what is checked of every answer."""

from __future__ import annotations

from collections.abc import Iterator

from drt_engine.answer.ask import ask
from drt_engine.answer.options import AskOptions
from drt_engine.answer.result import AnswerResult
from drt_engine.results import Citation
from drt_engine.store import DocumentRow, Store
from tests.model_folder import runtime, text_of

QUESTION = "How long is the notice period for a keeper?"
QUESTIONS = (QUESTION, "bell?", "Who teaches at the school in Bergen", "zzz qqq " * 4, "Öl? 油?")
ANY = AskOptions(threshold=0.0)
PAGE = """<html><head><title>Rules</title></head><body><h1>Rules</h1><p>The harbour closes at
eight. Boats wait <b>outside</b> the wall &amp; pay two crowns.</p><h2>Fees</h2>
<p>A barrel of oil costs nine crowns in winter.</p></body></html>"""


def document(store: Store, name: str) -> DocumentRow:
    return store.document(name)


def all_answers(store: Store) -> Iterator[AnswerResult]:
    for question in QUESTIONS:
        yield ask(runtime(), store, question, ANY)


def same(one: AnswerResult, other: AnswerResult) -> bool:
    """The same answer of two libraries, whose chunks have other numbers."""

    def places(answer: AnswerResult) -> list[object]:
        return [
            (group.group, group.chunk, e.document, e.start, e.score, e.probability)
            for group in answer.trace.groups
            for e in group.entries
        ]

    def without_trace(answer: AnswerResult) -> dict[str, object]:
        return {k: v for k, v in vars(answer).items() if k != "trace"}

    return without_trace(one) == without_trace(other) and places(one) == places(other)


def beside(store: Store, chunk: int) -> str:
    """The texts of a chunk and of those before and after it."""
    before, after = store.neighbours_of([chunk])[chunk]
    rows = store.chunk_rows([one for one in (before, chunk, after) if one is not None])
    return "".join(row.text for row in rows)


def assert_exact(store: Store, citation: Citation) -> None:
    row = store.document(citation.document)
    text = text_of(store, row)
    assert text[citation.start : citation.end] == citation.quote
    assert citation.quote and citation.quote == citation.quote.strip()
    assert citation.context in text
    assert citation.quote in citation.context or len(citation.quote) > len(citation.context)
    assert (citation.title, citation.source) == (row.title, row.source)
    assert (citation.page, citation.section) == store.place(row.id, citation.start)
    assert 0 < citation.probability <= 1
