"""The choice of sentences for a summary of limited length."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from drt_engine.summary.candidates import Candidate

_POOL = 400  # sentences that compete; comparing all pairs of them takes the square of this
_NEXT_OF_DOCUMENT = 0.7  # weight of each further sentence of a document, so that all are quoted
_LEAST_NEW = 0.3  # share of a sentence's words that no picked sentence has


def pick_sentences(
    candidates: Sequence[Candidate], budget: int, *, longest: float | None = None
) -> list[Candidate]:
    """Return sentences of at most ``budget`` words together, in document order.

    The sentences whose chunks are retrieved most compete. A sentence is then worth its centrality
    among them, times the words that no picked sentence has said, weighted by how common they are:
    on summaries held out from training this beats counting retrievals again (examples/LOG.md).
    None is longer than ``longest`` words, by default ``budget``.
    """
    longest = budget if longest is None else longest
    counts = Counter(word for candidate in candidates for word in candidate.words)
    # Words that occur once cannot connect sentences; they count only where there are no others.
    word_weights = {word: count**0.7 for word, count in counts.items() if count > 1} or dict(counts)
    # Where every sentence is too long, the best one is taken; its citation is cut.
    fitting = [c for c in candidates if c.length <= longest] or list(candidates)
    pool = sorted(fitting, key=lambda c: -c.score * _word_worth(c, word_weights))[:_POOL]
    centrality = dict(zip(pool, _sentence_centrality(pool).sqrt().tolist(), strict=True))
    picked: list[Candidate] = []
    picked_words: frozenset[str] = frozenset()
    left = budget
    while pool:
        per_document = Counter(c.document for c in picked)
        repeats = {document: _NEXT_OF_DOCUMENT**n for document, n in per_document.items()}
        value = {
            c: centrality[c]
            * c.weight
            * _word_worth(c, word_weights)
            * repeats.get(c.document, 1.0)
            for c in pool
        }
        best = max(pool, key=value.__getitem__)
        picked.append(best)
        left -= best.length
        for word in best.words & word_weights.keys():
            word_weights[word] *= 0.5
        picked_words |= best.words
        pool = [c for c in pool if c.length <= left and _novelty(c, picked_words) > _LEAST_NEW]
    return sorted(picked, key=lambda c: (c.document, c.start))


def _sentence_centrality(sentences: Sequence[Candidate]) -> Tensor:
    """Return the TextRank scores of sentences, [n], mean 1: a walk along their common words."""
    count = len(sentences)
    graph = torch.zeros(count, count)
    for i, sentence in enumerate(sentences):
        for j, earlier in enumerate(sentences[:i]):
            if common := len(sentence.words & earlier.words):
                # By the logarithm of both lengths, or long sentences would be like all others.
                scale = math.log(1 + sentence.length) + math.log(1 + earlier.length)
                graph[i, j] = graph[j, i] = common / scale
    graph = graph / graph.sum(dim=1, keepdim=True).clamp(min=1e-6)
    rank = torch.full((count,), 1.0)
    for _ in range(30):
        rank = 0.15 + 0.85 * (rank @ graph)
    return rank


def _novelty(candidate: Candidate, picked_words: frozenset[str]) -> float:
    return len(candidate.words - picked_words) / max(1, len(candidate.words))


def _word_worth(candidate: Candidate, word_weights: Mapping[str, float]) -> float:
    total = sum(word_weights.get(word, 0.0) for word in candidate.words)
    # Between the sum, which favours long sentences, and the mean, which favours short ones.
    return total / float(candidate.length**0.3)
