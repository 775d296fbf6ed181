"""Exact match and word F1 of an answer against references, as SQuAD 2.0's script counts them.

Knows only strings: no model, no document, no file.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from drt_engine.text.words import words

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_IN_NUMBERS = re.compile(r"(?<=\d)[.,:](?=\d)")
_RIGHT_F1 = 0.5
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class AnswerScore:
    """Exact match and F1 of one answer or their means over several, as fractions of 1."""

    em: float
    f1: float


def normalize_answer(text: str) -> str:
    """Return ``text`` lower-cased, without ASCII punctuation, articles and extra white space."""
    bare = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def exact_match(prediction: str, reference: str) -> float:
    """Return 1.0 where both are the same after normalisation, otherwise 0.0."""
    return float(normalize_answer(prediction) == normalize_answer(reference))


def f1(prediction: str, reference: str) -> float:
    """Return the F1 of the words shared after normalisation; empty matches only empty."""
    predicted = normalize_answer(prediction).split()
    expected = normalize_answer(reference).split()
    if not predicted or not expected:
        return float(predicted == expected)
    shared = sum((Counter(predicted) & Counter(expected)).values())
    # Equal to 2pr / (p + r) with p = shared / len(predicted), r = shared / len(expected).
    return 2 * shared / (len(predicted) + len(expected))


def is_right(prediction: str, references: Sequence[str]) -> bool:
    """Return whether a reader would take the prediction for the answer.

    It has an F1 of ``_RIGHT_F1`` or more with a reference, or holds one word for word, as the
    sentence around an answer does. Marks and markup between the words do not count: an answer in
    ``[issue](https://..)`` is the same without the link.
    """
    held = _spaced(prediction)
    return any(
        f1(prediction, text) >= _RIGHT_F1 or _spaced(text) in held
        for text in references
        if normalize_answer(text)
    )


def _spaced(text: str) -> str:
    """Return the words without articles, a space on each side of every one.

    A number is one word, without the marks in it: "3.5" does not hold "5".
    """
    bare = _ARTICLES.sub(" ", " ".join(words(_IN_NUMBERS.sub("", text))))
    return f" {' '.join(bare.split())} "


def score_answer(prediction: str, references: Sequence[str]) -> AnswerScore:
    """Return the best exact match and the best F1 over the references, each on its own.

    References that normalise to nothing do not count; with none left the right answer is "".
    """
    scorable_references = [text for text in references if normalize_answer(text)] or [""]
    return AnswerScore(
        em=max(exact_match(prediction, text) for text in scorable_references),
        f1=max(f1(prediction, text) for text in scorable_references),
    )
