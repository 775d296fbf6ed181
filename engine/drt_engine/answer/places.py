"""Every place that answers a question: each passage read by itself, equal answers grouped.

``ask`` chooses one answer among its passages; here each passage is judged as if it were the only
one, so that a second answer, or the same one elsewhere, is as good as the first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from drt_engine.answer.citations import cite_span
from drt_engine.answer.documents import DocumentRows, documents_to_ask
from drt_engine.answer.judge import calibration_name, judge
from drt_engine.answer.options import AskOptions
from drt_engine.answer.quote import QuoteSpan, best_quotes
from drt_engine.config.model import ReaderConfig
from drt_engine.errors import ConfigError
from drt_engine.generate.prompt_run import open_prompt, question_ids
from drt_engine.model.calibration import Calibration, Signals
from drt_engine.results import AnswerGroup, Citation, ScanInfo
from drt_engine.retrieval.reader_pass import PassageLogits
from drt_engine.retrieval.sources import Retrieval
from drt_engine.runtime import Runtime
from drt_engine.store.view import LibraryView
from drt_engine.text.words import words

TOP_K = 32
# Confidence from which a place is shown where no threshold is asked for. In the best 8 passages of
# 952 validation questions, 0.76 of the places that reach it are right; of those that reach 0.35,
# from where on a document is taken to hold an answer, 0.48.
PLACE_THRESHOLD = 0.9
_ARTICLES = frozenset({"a", "an", "the"})


@dataclass(frozen=True)
class PlacesResult:
    """The answers, best first; ``passages_read`` is how many were looked at.

    ``scan`` is what was scanned, where it might have been approximate.
    """

    groups: tuple[AnswerGroup, ...]
    passages_read: int
    tokens_read: int
    scan: ScanInfo | None = None


@dataclass(frozen=True)
class _Place:
    """The best span of one passage, and how likely the passage answers."""

    span: QuoteSpan
    confidence: float


def ask_all(
    runtime: Runtime, store: LibraryView, question: str, options: AskOptions
) -> PlacesResult:
    """Return every place that answers a question with at least the threshold's confidence.

    The threshold is ``PLACE_THRESHOLD`` in a calibrated model, unless ``options`` have another.
    ``options.top_k`` passages are read, 32 by default. Without a reader pass, or in a model that
    has no reader, the places are the best quotes of all passages together. Raises what ``ask``
    does, and ``ConfigError`` for another mode than quotes.
    """
    if options.mode != "quote":
        raise ConfigError(
            f"mode is {options.mode!r}: every place that answers is found by quotes, expected mode"
            " 'quote'"
        )
    options = replace(options, top_k=options.top_k or TOP_K)
    with store.snapshot() as view, runtime.computing():
        documents = documents_to_ask(view, options.documents)
        question_ids(runtime, question)  # the user's own words must be a question
        run = open_prompt(runtime, view, question, options.search_options())
        retrieval = run.retrieval
        if retrieval is None:
            return PlacesResult((), 0, run.prompt_tokens)
        reader = runtime.config.reader
        reads = reader is not None and retrieval.passage_logits is not None
        calibration = runtime.calibration.get(calibration_name(runtime, reads_passages=reads))
        is_judged_alone = reads and calibration is not None
        calibration = calibration or Calibration()
        least = PLACE_THRESHOLD if is_judged_alone else calibration.threshold
        limit = least if options.threshold is None else options.threshold
        if reader is not None and reads:
            places = list(_places(retrieval, calibration, reader))
        else:
            judgement = judge(runtime, run, threshold=options.threshold)
            places = [_Place(span, judgement.confidence) for span in judgement.quotes.spans]
        groups = _grouped(view, documents, [p for p in places if p.confidence >= limit])
        return PlacesResult(
            groups,
            len(retrieval.passages),
            run.prompt_tokens + run.source.tokens_read,
            run.source.query.scan_info,
        )


def _places(
    retrieval: Retrieval, calibration: Calibration, reader: ReaderConfig
) -> Iterator[_Place]:
    """Yield the best span of each passage, judged as if there were no others.

    A passage that is retrieved with less than the best counts less: by the same power of the
    retrieval probability by which ``ask`` weighs passages against each other.
    """
    logits = retrieval.passage_logits
    assert logits is not None
    scores = retrieval.retrieved.scores[0, 0].tolist()
    best = max(scores)
    for number, passage in enumerate(retrieval.passages):
        passage_logits = _passage_logits(logits, number)
        quotes = best_quotes(passage_logits.quote_logits(torch.zeros(1), 0.0), [passage], limit=1)
        if not quotes.spans:
            continue
        evidence = float(passage_logits.evidence()[0])
        signals = Signals(quotes.score, scores[number], evidence, -quotes.null, evidence)
        prior = math.exp(reader.prior * (scores[number] - best))
        yield _Place(quotes.spans[0], prior * calibration.confidence(signals))


def _passage_logits(logits: PassageLogits, number: int) -> PassageLogits:
    """Return the logits of one passage."""
    return PassageLogits(*(value[number : number + 1] for value in vars(logits).values()))


def _grouped(
    view: LibraryView, documents: DocumentRows, places: Sequence[_Place]
) -> tuple[AnswerGroup, ...]:
    """Group places with the same words, articles left out; the best answer comes first."""
    groups: dict[object, list[tuple[float, Citation]]] = {}
    for place in sorted(places, key=lambda place: -place.confidence):
        citation = cite_span(view, documents.row(place.span.document), place.span)
        if not any(map(str.isalnum, citation.quote)) or _is_cited(citation, groups):
            continue
        own_words = tuple(words(citation.quote))
        key = tuple(word for word in own_words if word not in _ARTICLES) or own_words
        groups.setdefault(key, []).append((place.confidence, citation))
    return tuple(
        AnswerGroup(
            text=cited[0][1].quote,
            confidence=cited[0][0],
            citations=tuple(citation for _, citation in cited),
        )
        for cited in groups.values()
    )


def _is_cited(citation: Citation, groups: dict[object, list[tuple[float, Citation]]]) -> bool:
    """Return whether a better place shares characters with a citation: passages overlap."""
    return any(
        citation.document == cited_place.document
        and citation.start < cited_place.end
        and cited_place.start < citation.end
        for cited in groups.values()
        for _, cited_place in cited
    )
