"""Which sentence of free text is supported by what: shared content words with a sentence of a retrieved passage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drt_engine.answer.citations import CitationResult, cite
from drt_engine.retrieval.library import Passage
from drt_engine.store import DocumentRow, Store
from drt_engine.text_units import content_words, sentence_spans, split_sentences

_ENOUGH = 0.6  # share of a sentence's content words that its source must hold
UNSUPPORTED = "[unsupported]"


@dataclass(frozen=True)
class SupportedText:
    """Text whose unsupported sentences are marked, and the sentences that back the others."""

    text: str
    citations: tuple[CitationResult, ...]


def support(
    text: str, store: Store, documents: dict[str, DocumentRow], passages: Sequence[Passage]
) -> SupportedText:
    """Mark each sentence of ``text`` by the retrieved sentence that holds most of its content words."""
    sources = [
        (passage, passage.row.start + a, passage.row.start + b, set(content_words(passage.row.text[a:b])))
        for passage in passages
        for a, b in sentence_spans(passage.row.text)
    ]
    parts: list[str] = []
    citations: dict[tuple[str, int], CitationResult] = {}
    for sentence in split_sentences(text):
        wanted = set(content_words(sentence.text))
        best, share = None, 0.0
        for source in sources:
            common = len(wanted & source[3]) / len(wanted) if wanted else 0.0
            if common > share:
                best, share = source, common
        if best is None or share < _ENOUGH:
            parts.append(f"{sentence.text} {UNSUPPORTED}")
            continue
        parts.append(sentence.text)
        passage, start, end, _ = best
        row = passage.row
        key = (row.document_id, start)
        if key not in citations:
            document = documents[row.document_id]
            citations[key] = cite(store, document, start, end, passage.probability)
    return SupportedText(" ".join(parts), tuple(citations.values()))
