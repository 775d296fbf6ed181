"""The worth of a document's words: how likely each is a word of a summary, by a fitted model.

Knows words and the features of their sentences; no model. Predicting the summary's words before
its sentences goes back to Hong and Nenkova, "Improving the Estimation of Word Importance for News
Multi-Document Summarization" (2014).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from drt_engine.text.words import STOP_WORDS, words

WORD_FEATURES = (
    "count",
    "sentences",
    "sentences_of_short_text",
    "sections",
    "headings",
    "title",
    "first",
    "opens_section",
    "self",
    "cue_proposes",
    "section_abstract",
    "section_introduction",
)
# The ones that a word has if a sentence of it has them.
_OF_SENTENCES = WORD_FEATURES[-4:]
_SHORT_TEXT = 25  # sentences
_MOST = 4  # headings or openings of sections; more are no stronger sign
_BEST = 1.0  # standard deviations above the mean, from where a word is one of the best


class _Places:
    """Where in a document a word is."""

    __slots__ = ("count", "first", "flags", "opened", "section", "sections", "sentences")

    def __init__(self, first: int) -> None:
        self.first = first
        self.count = self.sentences = self.sections = self.opened = self.flags = 0
        self.section = -1  # the last one with this word


def word_features(
    tokens: Sequence[Sequence[str]],
    sections: Sequence[str],
    features: Sequence[Mapping[str, float]],
    title: str,
) -> dict[str, list[float]]:
    """Return the ``WORD_FEATURES`` of the words of a document that are no stop words.

    ``tokens``, ``sections`` and ``features`` are the words of its sentences, the headings above
    them, and their features.
    """
    places: dict[str, _Places] = {}
    section_number, section_name = -1, None
    for number, sentence in enumerate(tokens):
        if sections[number] != section_name:
            section_number, section_name = section_number + 1, sections[number]
        values = features[number]
        flags = sum(1 << bit for bit, name in enumerate(_OF_SENTENCES) if values.get(name))
        opens = bool(values["opens_section"])
        for word, count in Counter(sentence).items():
            if word in STOP_WORDS:
                continue
            place = places.get(word)
            if place is None:
                place = places[word] = _Places(number)
            place.count += count
            place.sentences += 1
            place.opened += opens
            place.flags |= flags
            if place.section != section_number:
                place.section = section_number
                place.sections += 1
    headings = Counter(word for name in set(sections) for word in set(words(name)))
    title_words = frozenset(words(title))
    most = max((place.sentences for place in places.values()), default=1)
    short = 1 / len(tokens) if 0 < len(tokens) <= _SHORT_TEXT else 0.0
    return {
        word: [
            math.log1p(place.count) / 3,
            place.sentences / most,
            place.sentences * short,
            place.sections / (section_number + 1),
            min(headings[word], _MOST) / _MOST,
            float(word in title_words),
            1 / (1 + place.first),
            min(place.opened, _MOST) / _MOST,
            *(float(place.flags >> bit & 1) for bit in range(len(_OF_SENTENCES))),
        ]
        for word, place in places.items()
    }


def word_worths(
    rows: Mapping[str, Sequence[float]], weights: Mapping[str, float]
) -> dict[str, float]:
    """Return the worth of each word of a document: mean 0, standard deviation 1."""
    factors = [weights[name] for name in WORD_FEATURES]
    values = {
        word: sum(factor * value for factor, value in zip(factors, row, strict=True))
        for word, row in rows.items()
    }
    mean = math.fsum(values.values()) / max(1, len(values))
    square = math.fsum((value - mean) ** 2 for value in values.values()) / max(1, len(values))
    deviation = math.sqrt(square) or 1.0
    return {word: (value - mean) / deviation for word, value in values.items()}


def worth_features(tokens: Sequence[str], worths: Mapping[str, float]) -> dict[str, float]:
    """Return the features of a sentence that the worths of its words give."""
    values = [worths[word] for word in tokens if word in worths]
    size = max(1, len(tokens))
    return {
        "worth": _within(sum(values) / max(1, len(values)) / 2),
        "worth_sum": _within(_positive_sum({word: worths.get(word, 0.0) for word in tokens}) / 20),
        "worth_best": sum(value > _BEST for value in values) / size,
        "content": len(values) / size,
    }


def _positive_sum(worths: Mapping[str, float]) -> float:
    return sum(value for value in worths.values() if value > 0)


def _within(value: float) -> float:
    return max(-1.0, min(2.0, value))
