"""A quote as the answer: which span, how much of the text around it, and how likely it is right."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from drt_engine.answer.citations import cite, cite_span
from drt_engine.answer.documents import DocumentRows
from drt_engine.answer.grain import OPEN_TYPES, answer_type, grown_span
from drt_engine.answer.judge import Judgement
from drt_engine.answer.quote import QuoteSpan
from drt_engine.answer.quote_features import quote_features, repeats
from drt_engine.answer.result import Draft, QuoteCandidate
from drt_engine.documents.structure.block_kinds import NEVER_QUOTED, block_kind
from drt_engine.results import Citation
from drt_engine.retrieval.passages import Passage
from drt_engine.store.view import LibraryView

# Questions that ask for what is otherwise never quoted.
_ASKS_FOR_HEADINGS = re.compile(
    r"(?i)\b(?:headings?|titles?|titled|entitled|called|names?|named|chapters?|sections?|parts?"
    r"|pages?|contents|headers?|subject|appendix|annex)\b"
)

# Retrieval probability of a chunk from which a quote may be an answer and not only likely. On 897
# validation questions 0.65 of the quotes from less were right where 0.80 were to be.
_LEAST_RETRIEVAL = 0.1


@dataclass(frozen=True)
class _Quote:
    """A span of the reader and its citation."""

    span: QuoteSpan
    citation: Citation


def quote_answer(
    store: LibraryView,
    documents: DocumentRows,
    judgement: Judgement,
    question: str,
    *,
    passages: Sequence[Passage],
) -> Draft:
    """Return the best quote as the answer, or the closest passage where there is none.

    A quote that is not likely enough to be right is no answer; its passage is likely to hold one
    where the documents are. Without any quote, the best of the ``passages`` is cited.
    """
    quotes = _quotes(store, documents, judgement)
    if not quotes:
        return Draft("", False, judgement.confidence, cite_closest(store, documents, passages))
    quotable = [quote for quote in quotes if _may_be_quoted(store, documents, quote, question)]
    judged = (quotable or quotes)[0]
    expected = answer_type(judgement.types)
    whole = _grown(store, documents, judged.citation, expected)
    choices = [whole]
    if expected not in OPEN_TYPES and not repeats(judged.citation.quote, question):
        choices.insert(0, judged.citation)
    candidates = tuple(
        QuoteCandidate(
            choice.quote,
            quote_features(judgement, question, choice, judged.span, whole=choice is whole),
        )
        for choice in choices
    )
    number, probability, right = _choose(judgement, candidates)
    first = choices[number]
    right = right and bool(quotable)
    others = _others(store, documents, quotable[1:], first, expected)
    return Draft(
        first.quote if right else "",
        right,
        judgement.confidence,
        (first, *others) if right else (first,),
        likely=judgement.found,
        quote_probability=probability,
        candidates=candidates,
        verdict=_verdict(judgement) if right and expected == "yesno" else None,
    )


def cite_quotes(
    store: LibraryView, documents: DocumentRows, judgement: Judgement
) -> tuple[Citation, ...]:
    """Cite the reader's spans as they are, best first."""
    return tuple(quote.citation for quote in _quotes(store, documents, judgement))


def cite_closest(
    store: LibraryView, documents: DocumentRows, passages: Sequence[Passage]
) -> tuple[Citation, ...]:
    """Cite the best passage as a whole, where no span of it can be named."""
    best = max(passages, key=lambda passage: passage.probability, default=None)
    if best is None:
        return ()
    row, document = best.row, documents.row(best.row.document_id)
    return (cite(store, document, row.start, row.start + len(row.text), best.probability),)


def _quotes(store: LibraryView, documents: DocumentRows, judgement: Judgement) -> list[_Quote]:
    """Cite spans, best first, without those that share characters with a better one."""
    quotes: list[_Quote] = []
    for span in judgement.quotes.spans:
        citation = cite_span(store, documents.row(span.document), span)
        # Grown to whole words, spans may share one; punctuation alone says nothing.
        apart = not any(_overlap(citation, better.citation) for better in quotes)
        if apart and re.search(r"\w", citation.quote):
            quotes.append(_Quote(span, citation))
    return quotes


def _overlap(one: Citation, other: Citation) -> bool:
    return one.document == other.document and one.start < other.end and other.start < one.end


def _may_be_quoted(
    store: LibraryView, documents: DocumentRows, quote: _Quote, question: str
) -> bool:
    """Return whether a quote is text of the document, or a heading or mark that was asked for."""
    if _ASKS_FOR_HEADINGS.search(question):
        return True
    citation = quote.citation
    document = documents.row(citation.document)
    return block_kind(store, document, citation.start, citation.end) not in NEVER_QUOTED


def _grown(
    store: LibraryView, documents: DocumentRows, citation: Citation, expected: str
) -> Citation:
    """Return the citation of the sentence or the list around a span, with the span marked."""
    document, span = documents.row(citation.document), (citation.start, citation.end)
    start, end = grown_span(store, document, span, expected)
    if (start, end) == span:
        return citation
    grown = cite(store, document, start, end, citation.probability)
    return replace(grown, span_start=citation.start, span_end=citation.end)


def _choose(
    judgement: Judgement, candidates: Sequence[QuoteCandidate]
) -> tuple[int, float | None, bool]:
    """Return which candidate is shown, how likely it is right, and whether it is an answer."""
    calibration = judgement.calibration.quote
    if calibration is None:
        return 0, None, judgement.found
    number, probability = calibration.choose([candidate.features for candidate in candidates])
    if judgement.own_threshold:
        return number, probability, judgement.found
    # Whatever the fit says: right quotes from such chunks are fewer than it expects.
    is_retrieved = candidates[number].features.retrieval >= math.log(_LEAST_RETRIEVAL)
    return number, probability, probability >= calibration.threshold and is_retrieved


def _others(
    store: LibraryView,
    documents: DocumentRows,
    quotes: Sequence[_Quote],
    first: Citation,
    expected: str,
) -> list[Citation]:
    """Return the further citations: sentences where a comparison needs both sides, else spans."""
    others: list[Citation] = []
    for quote in quotes:
        citation = quote.citation
        if expected == "compare":
            citation = _grown(store, documents, citation, expected)
        if not any(_overlap(citation, better) for better in (first, *others)):
            others.append(citation)
    return others


def _verdict(judgement: Judgement) -> str | None:
    """Return "yes" or "no" where the reader is sure of it."""
    least = judgement.calibration.verdict
    if least is None or abs(judgement.verdict) < least:
        return None
    return "yes" if judgement.verdict > 0 else "no"
