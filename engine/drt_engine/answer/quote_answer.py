"""A quote as the answer: which span, how much of the text around it, and how likely it is right.

Every span of the reader is a candidate in two forms, its words and the sentence or list around
them; one calibrated probability ranks them all, and says whether the best is an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from drt_engine.answer.candidates import Candidate, ReadQuestion
from drt_engine.answer.citations import cite, cite_span
from drt_engine.answer.grain import (
    LIST_TYPES,
    OPEN_TYPES,
    SENTENCE,
    expected_type,
    grown_span,
)
from drt_engine.answer.judge import Judgement
from drt_engine.answer.quote import QuoteSpan
from drt_engine.answer.quote_features import is_repeated, quote_features
from drt_engine.answer.result import QuoteCandidate
from drt_engine.documents.structure.block_kinds import block_kind
from drt_engine.results import Citation
from drt_engine.store.view import LibraryView

# A cell is shown, not its row, where it has this share of the row's probability. Of 32 rows quoted
# from real2/, 0.59 are shown by a cell with it, 0.41 with 0.95, and the same answers are right.
_CELL_SHARE = 0.8
_APART = 300  # characters between two likely places, so that the passage around one has not both


@dataclass(frozen=True)
class _Quote:
    """A span of the reader and its citation."""

    span: QuoteSpan
    citation: Citation


def propose_quote(question: ReadQuestion, view: LibraryView) -> list[Candidate]:
    """Propose the most probable quote as the answer, or the closest passages where there is none.

    Below the threshold, the passage of a quote is ``likely`` where the documents probably contain
    an answer. Without any quote, the best passage is cited.
    """
    judgement = question.judgement
    spans = judgement.quotes.spans
    quotes = _quotes(question, view, (*spans, *judgement.quotes.by_passage))
    if not quotes:
        return [Candidate("", False, judgement.confidence, cite_closest(question, view))]
    expected = expected_type(judgement.types, question.text)
    places = [_shown(question, view, quote, expected) for quote in quotes]
    calibration = judgement.calibration.quote
    ranked = places
    if calibration is not None and calibration.ranks:
        ranked = sorted(places, key=lambda place: -(place.probability or 0.0))
    best = ranked[0]
    right = _is_right(judgement, best)
    further_places: Sequence[Citation] = ()
    if right:
        further = [p.quote for p in places if p is not best and p.quote.span in spans]
        further_places = _others(question, view, further, best.citation, expected)
    elif not judgement.own_threshold:
        further_places = _second_place(best.citation, (place.citation for place in ranked[1:]))
    return [
        Candidate(
            best.citation.quote if right else "",
            right,
            judgement.confidence,
            (best.citation, *further_places),
            likely=judgement.found,
            quote_probability=best.probability,
            quotes=tuple(place.forms for place in places),
            verdict=_verdict(judgement) if right and expected == "yesno" else None,
        )
    ]


@dataclass(frozen=True)
class _Shown:
    """The form of a quote that is shown, and how likely it is right; ``None`` where unknown.

    ``forms`` are what it was chosen among, for calibration.
    """

    quote: _Quote
    citation: Citation
    probability: float | None
    forms: tuple[QuoteCandidate, ...]


def _shown(question: ReadQuestion, view: LibraryView, quote: _Quote, expected: str) -> _Shown:
    """Return the words of a quote, or the sentence or list around them."""
    judgement = question.judgement
    whole = _grown(question, view, quote.citation, expected)
    words = quote.citation
    repeats = is_repeated(words.quote, question.text)  # which says nothing new
    choices = [whole] if expected in OPEN_TYPES or repeats else [words, whole]
    if expected in LIST_TYPES or len(choices) == 2:
        # The votes say whether the sentence answers, or all of a list.
        sentence = _grown(question, view, words, SENTENCE, with_list=expected in LIST_TYPES)
        shorter = len(choices) == 1 or len(words.quote) < len(sentence.quote)
        if shorter and len(sentence.quote) < len(whole.quote):
            choices.insert(-1, sentence)
    own = [p.probability for p in question.passages if p.row.document_id == words.document]
    forms = tuple(
        QuoteCandidate(
            choice.document,
            choice.quote,
            quote_features(
                judgement,
                question.text,
                choice,
                quote.span,
                whole=choice is whole or choice is not words,
                document=sum(own) / sum(p.probability for p in question.passages),
            ),
        )
        for choice in choices
    )
    calibration = judgement.calibration.quote
    if calibration is None:
        return _Shown(quote, choices[0], None, forms)
    document = question.documents.row(words.document)
    in_row = block_kind(view, document, words.start, words.end) == "row"
    share = _CELL_SHARE if in_row else calibration.span_threshold
    number, probability = calibration.choose([form.features for form in forms], share)
    return _Shown(quote, choices[number], probability, forms)


def _is_right(judgement: Judgement, best: _Shown) -> bool:
    """Return whether the most probable quote is an answer."""
    calibration = judgement.calibration.quote
    if calibration is None or best.probability is None or judgement.own_threshold:
        return judgement.found
    return best.probability >= calibration.threshold


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


def _grown(
    question: ReadQuestion,
    view: LibraryView,
    citation: Citation,
    expected: str,
    *,
    with_list: bool = True,
) -> Citation:
    """Return the citation of the sentence or the list around a span, with the span marked."""
    document = question.documents.row(citation.document)
    span = (citation.start, citation.end)
    start, end, items_left_out = grown_span(view, document, span, expected, with_list=with_list)
    if (start, end) == span:
        return citation
    grown = cite(view, document, start, end, citation.probability)
    return replace(
        grown, span_start=citation.start, span_end=citation.end, more_items=items_left_out
    )


def _others(
    question: ReadQuestion,
    view: LibraryView,
    quotes: Sequence[_Quote],
    first: Citation,
    expected: str,
) -> list[Citation]:
    """Return the further citations: sentences where a comparison needs both sides, else spans."""
    further: list[Citation] = []
    for quote in quotes:
        citation = quote.citation
        if expected == "compare":
            citation = _grown(question, view, citation, expected)
        if not any(_overlap(citation, better) for better in (first, *further)):
            further.append(citation)
    return further


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
