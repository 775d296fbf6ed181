"""Baselines without a model: lead sentences, TextRank, and the best BM25 sentence as an answer.

Works on text and its sentences only. Everything returned is a sentence of the document, so its
span is exact.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from drt_engine.text.sentences import Sentence, is_heading, split_sentences
from drt_engine.text.words import content_words

_K1 = 1.2
_B = 0.75
_DAMPING = 0.85
_ITERATIONS = 50
_TOLERANCE = 1e-4
# Similarities grow with the square of the sentences, so long documents are ranked in windows.
_WINDOW = 200


def lead_summary(text: str, *, word_budget: int) -> list[Sentence]:
    """Return the first sentences, headings left out, that fit the budget; at least one."""
    selected_sentences: list[Sentence] = []
    left = word_budget
    for sentence in _body(text):
        left -= _length(sentence)
        if left < 0 and selected_sentences:
            break
        selected_sentences.append(sentence)
    return selected_sentences


def textrank_summary(text: str, *, word_budget: int) -> list[Sentence]:
    """Return the most central sentences that fit the budget, in document order; at least one.

    Similarity is the number of shared content words over the logarithms of both lengths; the
    ranks are those of PageRank inside windows of consecutive sentences.
    """
    sentences = _body(text)
    scores: list[float] = []
    for start in range(0, len(sentences), _WINDOW):
        scores += _textrank(sentences[start : start + _WINDOW])
    best_first = sorted(range(len(sentences)), key=lambda i: (-scores[i], i))
    return [sentences[i] for i in sorted(_fitting(sentences, best_first, word_budget))]


def joined(sentences: Iterable[Sentence]) -> str:
    """Return the sentences as one text, for scoring."""
    return " ".join(sentence.text for sentence in sentences)


class SentenceIndex:
    """BM25 over the sentences of one document, built once and asked many questions."""

    def __init__(self, sentences: Sequence[Sentence]) -> None:
        self._sentences = sentences
        self._postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        lengths: list[int] = []
        for index, sentence in enumerate(sentences):
            counts = Counter(content_words(sentence.text))
            lengths.append(counts.total())
            for word, count in counts.items():
                self._postings[word].append((index, count))
        mean = sum(lengths) / len(lengths) if lengths else 0.0
        self._norms = [_K1 * (1 - _B + _B * n / mean) if mean else _K1 for n in lengths]

    def ranked(self, question: str, *, limit: int = 1) -> list[tuple[Sentence, float]]:
        """Return the best sentences with their positive scores, best first, ties in order."""
        scores: dict[int, float] = defaultdict(float)
        # Sorted, because a set would be summed in no fixed order.
        for word in sorted(set(content_words(question))):
            postings = self._postings.get(word, [])
            n = len(postings)
            idf = math.log(1 + (len(self._sentences) - n + 0.5) / (n + 0.5))
            for index, count in postings:
                scores[index] += idf * count * (_K1 + 1) / (count + self._norms[index])
        order = sorted(scores, key=lambda index: (-scores[index], index))
        return [(self._sentences[index], scores[index]) for index in order[:limit]]


def _body(text: str) -> list[Sentence]:
    sentences = split_sentences(text)
    return [s for s in sentences if not is_heading(s.text)] or sentences


def _length(sentence: Sentence) -> int:
    return len(sentence.text.split())


def _fitting(sentences: Sequence[Sentence], best_first: Iterable[int], budget: int) -> list[int]:
    selected_indices: list[int] = []
    for index in best_first:
        length = _length(sentences[index])
        if length <= budget or not selected_indices:
            selected_indices.append(index)
            budget -= length
    return selected_indices


def _textrank(sentences: Sequence[Sentence]) -> list[float]:
    edges = _similarities([set(content_words(sentence.text)) for sentence in sentences])
    totals = [sum(weight for _, weight in neighbours) for neighbours in edges]
    shares = [[(j, weight / totals[j]) for j, weight in neighbours] for neighbours in edges]
    ranks = [1.0] * len(sentences)
    for _ in range(_ITERATIONS):
        moved = [
            1 - _DAMPING + _DAMPING * sum(share * ranks[j] for j, share in neighbours)
            for neighbours in shares
        ]
        change = max((abs(a - b) for a, b in zip(ranks, moved, strict=True)), default=0.0)
        ranks = moved
        if change < _TOLERANCE:
            break
    return ranks


def _similarities(bags: Sequence[set[str]]) -> list[list[tuple[int, float]]]:
    """Return for each sentence its neighbours and how alike they are, through shared words."""
    holders: dict[str, list[int]] = defaultdict(list)
    for index, bag in enumerate(bags):
        for word in bag:
            holders[word].append(index)
    logs = [math.log(len(bag)) if bag else 0.0 for bag in bags]
    edges: list[list[tuple[int, float]]] = []
    for index, bag in enumerate(bags):
        shared = Counter(other_index for word in bag for other_index in holders[word])
        del shared[index]
        # Sentences of one word say too little and would divide by zero.
        edges.append(
            [
                (other_index, count / (logs[index] + logs[other_index]))
                for other_index, count in sorted(shared.items())
                if logs[index] and logs[other_index]
            ]
        )
    return edges
