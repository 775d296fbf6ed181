"""Candidates for an answer: what a source proposes for a question, and how they are ranked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from drt_engine.answer.documents import DocumentRows
from drt_engine.answer.judge import Judgement
from drt_engine.answer.result import LOOKED_UP, QuoteCandidate
from drt_engine.results import SOURCES, Citation, Origin
from drt_engine.retrieval.filters import Scope
from drt_engine.retrieval.passages import Passage
from drt_engine.runtime import Runtime
from drt_engine.store.view import LibraryView


@dataclass(frozen=True)
class ReadQuestion:
    """A question whose passages were retrieved and read.

    ``passages`` are those of the last retrieval, best first, all of the ``scope``; ``judgement`` is
    what the reader made of them.
    """

    text: str
    runtime: Runtime
    documents: DocumentRows
    scope: Scope = Scope()
    passages: tuple[Passage, ...] = ()
    judgement: Judgement = Judgement()


@dataclass(frozen=True)
class Candidate:
    """A proposed answer with its evidence.

    Where nothing was ``found``, ``text`` is empty, and ``likely`` says that the citations probably
    hold the answer. ``quote_probability`` is ``None`` where nothing calibrates the answer;
    ``quotes`` are what the reader chose among, in their forms, for calibration.
    """

    text: str
    found: bool
    confidence: float
    citations: tuple[Citation, ...]
    likely: bool = False
    quote_probability: float | None = None
    quotes: tuple[tuple[QuoteCandidate, ...], ...] = ()
    verdict: str | None = None
    origin: Origin = "reader"

    @property
    def probability(self) -> float | None:
        """How likely the first citation is right; ``None`` for what was looked up."""
        if self.origin in LOOKED_UP or self.quote_probability is not None:
            return self.quote_probability
        return self.confidence


# Proposes answers to a question from a library; none where it has no answer.
Proposer = Callable[[ReadQuestion, LibraryView], Iterable[Candidate]]


def best_candidate(candidates: Iterable[Candidate], *, threshold: float | None) -> Candidate | None:
    """Return the candidate that is shown; ``None`` where there is none.

    A look-up proposes only where it explains every word of a question, so the sources are preferred
    in the order of ``SOURCES``. A user's ``threshold`` excludes look-ups of a lower confidence; the
    reader has applied it to its own.
    """
    admitted = (
        candidate
        for candidate in candidates
        if threshold is None or candidate.origin == "reader" or candidate.confidence >= threshold
    )
    return min(admitted, key=lambda candidate: SOURCES.index(candidate.origin), default=None)
