"""The two kinds of answers: a quote, or text that the decoder writes, each with its citations."""

from __future__ import annotations

import re
from collections.abc import Generator

from drt_engine.answer.citations import cite, cite_span
from drt_engine.answer.documents import DocumentRows
from drt_engine.answer.judge import Judgement
from drt_engine.answer.quote import Quotes
from drt_engine.answer.quote_features import quote_features
from drt_engine.answer.result import Draft
from drt_engine.answer.support import Evidence, marked
from drt_engine.generate.prompt_run import PromptRun
from drt_engine.generate.sampling import SamplingConfig, write
from drt_engine.results import Citation
from drt_engine.runtime import Runtime
from drt_engine.store.view import LibraryView


def quote_answer(
    store: LibraryView, documents: DocumentRows, run: PromptRun, judgement: Judgement, question: str
) -> Draft:
    """Return the best quote as the answer, or the closest passage where there is none.

    A quote that is not likely enough to be right is no answer; its passage is likely to hold one
    where the documents are.
    """
    citations = _cite_quotes(store, documents, judgement.quotes)
    if not citations:
        return Draft("", False, judgement.confidence, _cite_closest(store, documents, run))
    best = citations[0]
    features = quote_features(judgement, question, best.quote, best.sentence)
    right, probability = judgement.found, None
    if judgement.quote_calibration is not None:
        probability = judgement.quote_calibration.probability(features)
        if not judgement.own_threshold:
            right = probability >= judgement.quote_calibration.threshold
    return Draft(
        best.quote if right else "",
        right,
        judgement.confidence,
        citations if right else citations[:1],
        likely=judgement.found,
        quote_probability=probability,
        features=features,
    )


def written_answer(
    runtime: Runtime,
    store: LibraryView,
    documents: DocumentRows,
    run: PromptRun,
    judgement: Judgement,
    *,
    question: str,
    max_tokens: int,
) -> Generator[str, None, Draft]:
    """Write an answer, every sentence backed by a citation or marked; return it in the end.

    Nothing is written where the documents do not say it. A model without a quote head cannot
    know that before: then an answer without any backed sentence is not found.
    """
    has_head = runtime.model.quote_head is not None
    if has_head and not judgement.found:
        return quote_answer(store, documents, run, judgement, question)
    evidence = Evidence(store, documents.row)

    def supports(sentence: str) -> bool:
        evidence.add(run.passages)  # those of the chunk that is being written
        return evidence.supports(sentence)

    written = write(
        runtime,
        run.decoder,
        run.answer_state,
        SamplingConfig(max_tokens=max_tokens),
        sources=[passage.row.text for passage in run.passages],
    )
    pieces: list[str] = []
    for piece in marked(written, supports):
        pieces.append(piece)
        if has_head:
            yield piece
    text = "".join(pieces)
    if not has_head:
        if not evidence.citations:
            return Draft("", False, 0.0, _cite_closest(store, documents, run))
        yield text
        confidence = max(citation.probability for citation in evidence.citations)
        return Draft(text, bool(text), confidence, evidence.citations)
    citations = evidence.citations or _cite_quotes(store, documents, judgement.quotes)
    if citations and not text:  # the decoder had nothing to say, the quote head has
        text = citations[0].quote
        run.decoder.feed(runtime.tokenizer.encode(text).ids)
        yield text
    return Draft(text, bool(text), judgement.confidence, citations)


def _cite_quotes(
    store: LibraryView, documents: DocumentRows, quotes: Quotes
) -> tuple[Citation, ...]:
    """Cite spans, best first, without those that share characters with a better one."""
    citations: list[Citation] = []
    for span in quotes.spans:
        citation = cite_span(store, documents.row(span.document), span)
        # Grown to whole words, spans may share one; punctuation alone says nothing.
        apart = all(
            citation.document != better.document
            or citation.end <= better.start
            or better.end <= citation.start
            for better in citations
        )
        if apart and re.search(r"\w", citation.quote):
            citations.append(citation)
    return tuple(citations)


def _cite_closest(
    store: LibraryView, documents: DocumentRows, run: PromptRun
) -> tuple[Citation, ...]:
    """Cite the best passage as a whole, where no span of it can be named."""
    best = max(run.passages, key=lambda passage: passage.probability, default=None)
    if best is None:
        return ()
    row, document = best.row, documents.row(best.row.document_id)
    return (cite(store, document, row.start, row.start + len(row.text), best.probability),)
