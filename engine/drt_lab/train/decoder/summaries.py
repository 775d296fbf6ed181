"""Pairs of a document's sentence and the summary's sentence that says the same in other words.

A summary is written sentence by sentence: an extractive one says which sentences of the document
are worth it, and each is rewritten (extract, then rewrite: arXiv 1805.11080). Here both are aligned
by the words that they share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from drt_engine.text.sentences import Span, sentence_spans
from drt_engine.text.words import content_words
from drt_lab.data.schema import QADocument, Question, read_summaries

SUMMARY = "summary"  # the type of these questions
_LEAST_SHARED = 0.4  # of the content words of a summary's sentence that its source has
_LEAST_WORDS, _MOST_WORDS = 6, 60


def load_summary_pairs(paths: Sequence[Path]) -> tuple[list[Question], dict[str, QADocument]]:
    """Return a question for each pair: its text is the document's sentence, its answer the other.

    Raises ``ConfigError`` naming file, line and fault.
    """
    questions: list[Question] = []
    documents: dict[str, QADocument] = {}
    for path in paths:
        for item in read_summaries(path):
            document_id = f"{SUMMARY} {item.id}"
            pairs = list(_pairs(item.document, item.summary))
            if pairs:
                documents[document_id] = QADocument(document_id, item.title, item.document)
            questions += [
                Question(
                    id=f"{document_id} {number}",
                    source=item.source,
                    license=item.license,
                    doc_id=document_id,
                    question=" ".join(item.document[start:end].split()),
                    answers=(written,),
                    evidence=((start, end),),
                    kind="abstractive",
                    type=SUMMARY,
                )
                for number, ((start, end), written) in enumerate(pairs)
            ]
    return questions, documents


def _pairs(document: str, summary: str) -> Iterable[tuple[Span, str]]:
    """Yield sentences of a document, each with the summary's sentence that it is the source of."""
    sources = [
        (span, set(content_words(document[span[0] : span[1]])))
        for span in sentence_spans(document)
        if _LEAST_WORDS <= len(document[span[0] : span[1]].split()) <= _MOST_WORDS
    ]
    if not sources:
        return
    for start, end in sentence_spans(summary):
        written = " ".join(summary[start:end].split())
        words = set(content_words(written))
        if not _LEAST_WORDS <= len(written.split()) <= _MOST_WORDS:
            continue
        # Of sources that share as many words the shortest says little else.
        span, shared = max(sources, key=lambda s: (len(words & s[1]), -len(s[1])))
        if len(words & shared) >= _LEAST_SHARED * len(words):
            yield span, written
