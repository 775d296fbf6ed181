"""The choice of sentences for a summary of limited length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from drt_engine.summary.candidates import Candidate

_POOL = 400  # sentences of the best scores that compete
_NEXT_OF_DOCUMENT = 0.3  # a sentence is worth less for each one of its document that is picked
_REPETITION = 0.8  # what a sentence loses if all its words are in picked ones
_LEAST_NEW = 0.3  # share of a sentence's words that no picked sentence has


def pick_sentences(
    candidates: Sequence[Candidate], budget: int, *, longest: float | None = None
) -> list[Candidate]:
    """Return sentences of at most ``budget`` words together, in document order.

    Sentences are picked by score and by how little they repeat what is picked (maximal marginal
    relevance; Carbonell and Goldstein 1998). One that cannot be understood without the sentence
    before it may follow that one only. None is longer than ``longest`` words, by default
    ``budget``.
    """
    longest = budget if longest is None else longest
    # Where every sentence is too long, the best one is taken; its citation is cut.
    fitting = [c for c in candidates if c.length <= longest] or list(candidates)
    pool = sorted(fitting, key=lambda c: (-c.score, c.document, c.start))[:_POOL]
    several = len({c.document for c in candidates}) > 1
    picked: list[Candidate] = []
    ends: set[tuple[int, int]] = set()
    words: frozenset[str] = frozenset()
    left = budget
    while pool:
        counts = Counter(c.document for c in picked) if several else Counter[int]()
        open_pool = [c for c in pool if not c.is_dangling or (c.document, c.previous) in ends]
        if not open_pool:
            if picked:
                break
            open_pool = pool
        best = max(
            open_pool,
            key=lambda c: (
                c.score
                - _REPETITION * (1 - _novelty(c, words))
                - _NEXT_OF_DOCUMENT * counts[c.document]
            ),
        )
        picked.append(best)
        ends.add((best.document, best.end))
        words |= best.words
        left -= best.length
        pool = [
            c
            for c in pool
            if c is not best and c.length <= left and _novelty(c, words) > _LEAST_NEW
        ]
    return sorted(picked, key=lambda c: (c.document, c.start))


def _novelty(candidate: Candidate, picked_words: frozenset[str]) -> float:
    """Return the share of a sentence's words that no picked sentence has."""
    return len(candidate.words - picked_words) / max(1, len(candidate.words))
