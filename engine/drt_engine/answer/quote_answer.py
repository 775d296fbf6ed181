"""A quote as the answer: which span, how much of the text around it, and how likely it is right."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from drt_engine.answer.absent_words import LONGEST_TEXT, lacks_word, names_in, numbers_in
from drt_engine.answer.candidates import Candidate, ReadQuestion
from drt_engine.answer.choice import ranking
from drt_engine.answer.citations import cite, cite_span
from drt_engine.answer.grain import (
    OPEN_TYPES,
    crosses_sentences,
    expected_type,
    grown_span,
)
from drt_engine.answer.judge import Judgement
from drt_engine.answer.quote import QuoteSpan
from drt_engine.answer.quote_features import quote_features, repeats
from drt_engine.answer.result import QuoteCandidate
from drt_engine.documents.structure.block_kinds import NEVER_QUOTED, block_kind
from drt_engine.results import Citation
from drt_engine.store.view import LibraryView

# Questions that ask for what is otherwise never quoted.
_ASKS_FOR_HEADINGS = re.compile(
    r"(?i)\b(?:headings?|titles?|titled|entitled|called|names?|named|chapters?|sections?|parts?"
    r"|pages?|contents|headers?|subject|appendix|annex)\b"
)

# Retrieval probability of a chunk from which a quote may be an answer and not only likely. On 871
# validation questions 0.73 of the quotes from 0.02 to 0.1 were right: with a limit of 0.1, 0.50 of
# the answerable questions got a right answer at a precision of 0.80, with 0.03 they were 0.54.
_LEAST_RETRIEVAL = 0.02
# Confidence from which a quote that seems right is an answer. Of 48 questions about the real files
# that have no answer 6 got one without it, 3 with it; of 299 others 0.709 and 0.702 the right one.
_LEAST_CONFIDENCE = 0.2
_APART = 300  # characters between two likely places, so that the passage around one has not both


@dataclass(frozen=True)
class _Quote:
    """A span of the reader and its citation."""

    span: QuoteSpan
    citation: Citation


def propose_quote(question: ReadQuestion, view: LibraryView) -> list[Candidate]:
    """Propose the best quote as the answer, or the closest passages where there is none.

    Below the threshold, the passage of a quote is ``likely`` where the documents probably contain
    an answer, or where the quote seems right. Without any quote, the best passage is cited.
    """
    judgement = question.judgement
    spans = judgement.quotes.spans
    quotes = _quotes(question, view, (*spans, *judgement.quotes.by_passage))
    if not quotes:
        return [Candidate("", False, judgement.confidence, cite_closest(question, view))]
    quotable = [quote for quote in quotes if _is_quotable(question, view, quote)]
    expected = expected_type(judgement.types, question.text)
    best = (quotable or quotes)[0]
    shown = _shown(question, view, best, expected)
    seems_right = shown.right
    right = (
        seems_right
        and (judgement.found or judgement.confidence >= _LEAST_CONFIDENCE)
        and bool(quotable)
        and (judgement.own_threshold or not _lacks_word(question, view, shown))
    )
    others: Sequence[Citation] = ()
    if right:
        further = [quote for quote in quotable if quote.span in spans and quote is not best]
        others = _others(question, view, further, shown.citation, expected)
    elif quotable and not judgement.own_threshold:
        # Unsure, the reader is helped by the words around its spans to the likeliest places: those
        # that may be quoted, unless all that it chose itself are headings or marks.
        usual = any(quote.span in spans for quote in quotable)
        quotes = quotable if usual else quotes
        order = ranking(question, view, [quote.span for quote in quotes])
        places = (_shown(question, view, quotes[at], expected) for at in order)
        shown = replace(next(places), candidates=shown.candidates)
        others = _second_place(shown.citation, (place.citation for place in places))
    first = shown.citation
    return [
        Candidate(
            first.quote if right else "",
            right,
            judgement.confidence,
            (first, *others),
            likely=judgement.found or seems_right,
            quote_probability=shown.probability,
            quotes=shown.candidates,
            verdict=_verdict(judgement) if right and expected == "yesno" else None,
        )
    ]


@dataclass(frozen=True)
class _Shown:
    """The citation that is shown of a quote, how likely it is right, and whether it may answer.

    ``candidates`` are what it was chosen among, for calibration.
    """

    citation: Citation
    probability: float | None
    right: bool
    candidates: tuple[QuoteCandidate, ...]


def _shown(question: ReadQuestion, view: LibraryView, quote: _Quote, expected: str) -> _Shown:
    """Return the words of a quote, or the sentence or list around them."""
    judgement = question.judgement
    whole = _grown(question, view, quote.citation, expected)
    choices = [whole]
    if _words_may_answer(question, view, quote.citation, expected):
        choices.insert(0, quote.citation)
    candidates = tuple(
        QuoteCandidate(
            choice.quote,
            quote_features(judgement, question.text, choice, quote.span, whole=choice is whole),
        )
        for choice in choices
    )
    number, probability, right = _choose(judgement, candidates)
    return _Shown(choices[number], probability, right, candidates)


def _lacks_word(question: ReadQuestion, view: LibraryView, shown: _Shown) -> bool:
    """Return whether the document of a quote never has a name or number of the question."""
    if not (names_in(question.text) or numbers_in(question.text)):
        return False
    document = question.documents.row(shown.citation.document)
    if document.characters > LONGEST_TEXT:  # which would be read for nothing
        return False
    text = view.text(document.id, 0, document.characters)
    head = f"{document.title}\n{document.source}\n{document.author}"
    return lacks_word(question.text, f"{head}\n{text}")


def cite_quotes(question: ReadQuestion, view: LibraryView) -> tuple[Citation, ...]:
    """Cite the reader's spans as they are, best first."""
    spans = question.judgement.quotes.spans
    return tuple(quote.citation for quote in _quotes(question, view, spans))


def cite_closest(question: ReadQuestion, view: LibraryView) -> tuple[Citation, ...]:
    """Cite the best passage as a whole, where no span of it can be named."""
    best = max(question.passages, key=lambda passage: passage.probability, default=None)
    if best is None:
        return ()
    row, document = best.row, question.documents.row(best.row.document_id)
    return (cite(view, document, row.start, row.start + len(row.text), best.probability),)


def _quotes(question: ReadQuestion, view: LibraryView, spans: Sequence[QuoteSpan]) -> list[_Quote]:
    """Cite spans, best first, without those that share characters with a better one."""
    quotes: list[_Quote] = []
    for span in spans:
        citation = cite_span(view, question.documents.row(span.document), span)
        # Grown to whole words, spans may share one; punctuation alone says nothing.
        apart = not any(_overlap(citation, better.citation) for better in quotes)
        if apart and any(map(str.isalnum, citation.quote)):
            quotes.append(_Quote(span, citation))
    return quotes


def _overlap(one: Citation, other: Citation) -> bool:
    return one.document == other.document and one.start < other.end and other.start < one.end


def _is_quotable(question: ReadQuestion, view: LibraryView, quote: _Quote) -> bool:
    """Return whether a quote is text of the document, or a heading or mark that was asked for."""
    if _ASKS_FOR_HEADINGS.search(question.text):
        return True
    citation = quote.citation
    document = question.documents.row(citation.document)
    return block_kind(view, document, citation.start, citation.end) not in NEVER_QUOTED


def _words_may_answer(
    question: ReadQuestion, view: LibraryView, citation: Citation, expected: str
) -> bool:
    """Return whether the words of a span can be the answer without the sentence around them."""
    if expected in OPEN_TYPES or repeats(citation.quote, question.text):
        return False
    document = question.documents.row(citation.document)
    return not crosses_sentences(view, document, (citation.start, citation.end))


def _grown(
    question: ReadQuestion, view: LibraryView, citation: Citation, expected: str
) -> Citation:
    """Return the citation of the sentence or the list around a span, with the span marked."""
    document = question.documents.row(citation.document)
    span = (citation.start, citation.end)
    start, end, more = grown_span(view, document, span, expected)
    if (start, end) == span:
        return citation
    grown = cite(view, document, start, end, citation.probability)
    return replace(grown, span_start=citation.start, span_end=citation.end, more_items=more)


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
    question: ReadQuestion,
    view: LibraryView,
    quotes: Sequence[_Quote],
    first: Citation,
    expected: str,
) -> list[Citation]:
    """Return the further citations: sentences where a comparison needs both sides, else spans."""
    others: list[Citation] = []
    for quote in quotes:
        citation = quote.citation
        if expected == "compare":
            citation = _grown(question, view, citation, expected)
        if not any(_overlap(citation, better) for better in (first, *others)):
            others.append(citation)
    return others


def _second_place(first: Citation, places: Iterable[Citation]) -> tuple[Citation, ...]:
    """Return the best of some further places that is well apart from the first, if there is one."""
    apart = (
        place
        for place in places
        if place.document != first.document
        or place.start >= first.end + _APART
        or place.end + _APART <= first.start
    )
    return tuple(islice(apart, 1))


def _verdict(judgement: Judgement) -> str | None:
    """Return "yes" or "no" where the reader is sure of it."""
    least = judgement.calibration.verdict
    if least is None or abs(judgement.verdict) < least:
        return None
    return "yes" if judgement.verdict > 0 else "no"
