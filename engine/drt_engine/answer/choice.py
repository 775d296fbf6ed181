"""Which of the reader's spans is shown: by its probability, and by the question's words around it.

The reader sees a passage of a few sentences. Where it is unsure, a place whose surroundings have
more of the question's words is the better one. Knows plain text and spans; knows nothing of models.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from drt_engine.answer.candidates import ReadQuestion
from drt_engine.answer.quote import QuoteSpan
from drt_engine.retrieval.passages import Passage
from drt_engine.store.view import LibraryView
from drt_engine.text.words import content_words, stem, words

_AROUND = 300  # characters on each side of a span that may have the question's words
# What all of the question's words count against the mean log-probability of start and end. On 773
# validation questions, evidence within 300 characters: 0.736 without, 0.763 with 3 (2: 0.752, 4:
# 0.757, 8: 0.758).
_COVERAGE = 3.0
_LEAST_PROBABILITY = 1e-12


def ranking(question: ReadQuestion, view: LibraryView, spans: Sequence[QuoteSpan]) -> list[int]:
    """Return the numbers of ``spans``, the one to be shown first; equals keep their order."""
    weights = _word_weights(question.text, question.judgement.passages)
    total = sum(weights.values()) or 1.0
    scores = []
    for span in spans:
        document = question.documents.row(span.document)
        low, high = max(0, span.start - _AROUND), min(document.characters, span.end + _AROUND)
        around = {stem(word) for word in words(view.text(document.id, low, high))}
        covered = sum(weight for word, weight in weights.items() if word in around)
        log_probability = math.log(max(span.probability, _LEAST_PROBABILITY))
        scores.append(log_probability / 2 + _COVERAGE * covered / total)
    return sorted(range(len(spans)), key=lambda number: -scores[number])


def _word_weights(question: str, passages: Sequence[Passage]) -> Mapping[str, float]:
    """Return the question's words by their stems; what fewer passages have weighs more."""
    stems = [{stem(word) for word in words(passage.text)} for passage in passages]
    return {
        word: math.log1p(len(stems) / (1 + sum(word in passage for passage in stems)))
        for word in dict.fromkeys(stem(word) for word in content_words(question))
    }
