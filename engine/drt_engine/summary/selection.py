"""The choice of sentences for a summary of limited length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from drt_engine.summary.candidates import Candidate

# The sentences of the best scores compete that are so many times as long as the summary: a short
# gap at the end is not filled with whatever is short enough.
_POOL = 5
_NEXT_OF_DOCUMENT = 0.3  # a sentence is worth less for each one of its document that is picked
_REPETITION = 0.8  # what a sentence loses if all its words are in picked ones
_CONTINUES = 0.1  # what a sentence gains that goes on with a picked one
_FILLS = 0.1  # what a sentence gains that takes all the length that is left; a part, if shorter
_ENOUGH = 0.25  # of the length, from which items of lists are not needed to fill it
_LEAST_NEW = 0.3  # share of a sentence's words that no picked sentence has


def pick_sentences(
    candidates: Sequence[Candidate], budget: int, *, longest: float | None = None
) -> list[Candidate]:
    """Return sentences of at most ``budget`` words together, in document order.

    Sentences are picked by score and by how little they repeat what is picked (maximal marginal
    relevance; Carbonell and Goldstein 1998). One that cannot be understood without the sentence
    before it may follow that one only. Items of lists do not fill what prose leaves, where there is
    some. None is longer than ``longest`` words, by default ``budget``.
    """
    longest = budget if longest is None else longest
    # Where every sentence is too long, the best one is taken; its citation is cut.
    fitting = [c for c in candidates if c.length <= longest] or list(candidates)
    pool = _best_scored(fitting, _POOL * budget)
    several = len({c.document for c in candidates}) > 1
    picked: list[Candidate] = []
    ends: set[tuple[int, int]] = set()
    words: frozenset[str] = frozenset()
    left, picked_items = budget, False
    while pool:
        counts = Counter(c.document for c in picked) if several else Counter[int]()
        open_pool = [c for c in pool if not c.is_dangling or (c.document, c.previous) in ends]
        if left <= (1 - _ENOUGH) * budget:
            open_pool = [c for c in open_pool if not c.is_item or picked_items]
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
                + _CONTINUES * ((c.document, c.previous) in ends)
                + _FILLS * min(1.0, c.length / max(1, left))
            ),
        )
        picked.append(best)
        picked_items = picked_items or best.is_item
        ends.add((best.document, best.end))
        words |= best.words
        left -= best.length
        pool = [
            c
            for c in pool
            if c is not best and c.length <= left and _novelty(c, words) > _LEAST_NEW
        ]
    return sorted(picked, key=lambda c: (c.document, c.start))


def _best_scored(candidates: Sequence[Candidate], words: int) -> list[Candidate]:
    """Return the best sentences of each document until they have this many words, best first."""
    best: list[Candidate] = []
    lengths: Counter[int] = Counter()
    for candidate in sorted(candidates, key=lambda c: (-c.score, c.document, c.start)):
        if lengths[candidate.document] < words:
            best.append(candidate)
            lengths[candidate.document] += candidate.length
    return best


def _novelty(candidate: Candidate, picked_words: frozenset[str]) -> float:
    """Return the share of a sentence's words that no picked sentence has."""
    return len(candidate.words - picked_words) / max(1, len(candidate.words))
