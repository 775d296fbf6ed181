"""Questions from plain text by the million: a sentence without a span asks for that span.

Two kinds. *Recurring*: the sentence is cut from the text, and the evidence is another place where
the same span occurs (recurring span selection: Ram et al. 2021, arXiv 2101.00438, and for
retrieval 2112.07708). *Echo*: the sentence stays, and the question keeps only some of its words.
Knows nothing of tokens or models.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from drt_engine.text.sentences import is_heading, split_sentences
from drt_engine.text.words import STOP_WORDS

_WORD = re.compile(r"\w+(?:['’.,-]\w+)*")
_YEAR = re.compile(r"(?:1\d|20)\d\d")
_LONGEST_SPAN = 5  # words
_SHORTEST, _LONGEST = 7, 60  # words of a sentence that may become a question
_MOST_PLACES = 6  # sentences with the same span; a span in more is too common to ask for
_MOST_WORDS = 30  # of a question


@dataclass(frozen=True)
class Word:
    """A word of a text with its character offsets; ``space``: a space is right before it."""

    start: int
    end: int
    text: str
    space: bool

    @property
    def plain(self) -> str:
        """Return the word in lower case, as it is compared."""
        return self.text.lower()

    @property
    def content(self) -> bool:
        """Return whether the word is no stop word and longer than a letter."""
        return self.plain not in STOP_WORDS and len(self.text) > 1


@dataclass(frozen=True)
class Place:
    """Words ``first:last`` of sentence number ``sentence``."""

    sentence: int
    first: int
    last: int


@dataclass(frozen=True)
class Cloze:
    """A question, its answer, and the character spans of its evidence in the text asked."""

    question: str
    answer: str
    evidence: list[tuple[int, int]]


def make_clozes(
    text: str, rng: random.Random, *, count: int, recurring: float
) -> tuple[str, list[Cloze]]:
    """Make up to ``count`` cloze questions on ``text``, about ``recurring`` of them of that kind.

    Returns the text without the sentences that were cut, and the questions on it.
    """
    sentences = split_sentences(text)
    # One list of words per sentence; headings have none, so nothing is asked of them.
    words = [
        []
        if is_heading(s.text)
        else [
            Word(s.start + m.start(), s.start + m.end(), m.group(), s.text[m.start() - 1] == " ")
            for m in _WORD.finditer(s.text)
        ]
        for s in sentences
    ]
    # Recurring spans first: their sentences are cut, and echoes are made of what is left.
    pairs = _recurring(words, rng, round(count * recurring))
    cut = {place.sentence for place, _ in pairs}
    gaps = [(sentences[i].start, sentences[i].end) for i in sorted(cut)]
    shortened, moved = _without(text, gaps)
    clozes = [
        Cloze(
            _question(words[place.sentence], place, rng, keep=1.0),
            text[slice(*_characters(words, place))],
            [(moved(a), moved(b)) for a, b in (_characters(words, p) for p in evidence_places)],
        )
        for place, evidence_places in pairs
    ]
    # Echoes drop words, or the question would be a copy of its evidence.
    for place in _echoes(words, rng, count - len(clozes), cut):
        start, end = _characters(words, place)
        question = _question(words[place.sentence], place, rng, keep=rng.uniform(0.45, 1.0))
        clozes.append(Cloze(question, text[start:end], [(moved(start), moved(end))]))
    return shortened, clozes


def _characters(words: Sequence[Sequence[Word]], place: Place) -> tuple[int, int]:
    sentence = words[place.sentence]
    return sentence[place.first].start, sentence[place.last - 1].end


def _without(text: str, gaps: Sequence[tuple[int, int]]) -> tuple[str, Callable[[int], int]]:
    """Return ``text`` without ``gaps``, and a map of its character offsets to the new ones."""
    pieces, at = [], 0
    for start, end in gaps:
        pieces.append(text[at:start])
        at = end
    pieces.append(text[at:])

    def moved(character: int) -> int:
        return character - sum(b - a for a, b in gaps if b <= character)

    return "".join(pieces), moved


# --- spans worth asking for


def _spans(sentence: Sequence[Word]) -> list[tuple[int, int]]:
    """Return word spans that neither begin nor end with a stop word and name something."""
    spans = []
    for first in range(len(sentence)):
        if not sentence[first].content:
            continue
        for last in range(first + 1, min(first + _LONGEST_SPAN, len(sentence)) + 1):
            if last - first > 1 and not _adjacent(sentence[last - 2], sentence[last - 1]):
                break
            if sentence[last - 1].content and _names(sentence[first:last]):
                spans.append((first, last))
    return spans


def _adjacent(left: Word, right: Word) -> bool:
    return right.start - left.end == 1 and right.space  # not a line end, a stop or a dash


def _names(span: Sequence[Word]) -> bool:
    """Return whether a span is worth asking for: several words, a name, a number, a long word."""
    word = span[0].text
    return len(span) > 1 or word[0].isupper() or word[0].isdigit() or len(word) > 6


def _recurring(
    words: Sequence[Sequence[Word]], rng: random.Random, count: int
) -> list[tuple[Place, list[Place]]]:
    """Choose ``count`` sentences to cut, each with a span and the other places that hold it."""
    # All places of each span, by its words in lower case.
    places: dict[tuple[str, ...], list[Place]] = defaultdict(list)
    for number, sentence in enumerate(words):
        for first, last in _spans(sentence):
            key = tuple(w.plain for w in sentence[first:last])
            places[key].append(Place(number, first, last))
    groups = [g for g in places.values() if 2 <= len({p.sentence for p in g}) <= _MOST_PLACES]
    groups = _longest_spans(groups)
    rng.shuffle(groups)
    # A sentence that was cut cannot be evidence, and evidence cannot be cut.
    cut: set[int] = set()
    evidence: set[int] = set()
    pairs: list[tuple[Place, list[Place]]] = []
    for group in groups:
        if len(pairs) == count:
            break
        place = rng.choice(group)
        elsewhere = [p for p in group if p.sentence != place.sentence and p.sentence not in cut]
        elsewhere = [p for p in elsewhere if _related(words, place, p)]
        fits = _SHORTEST <= len(words[place.sentence]) <= _LONGEST
        if not elsewhere or not fits or place.sentence in cut or place.sentence in evidence:
            continue
        cut.add(place.sentence)
        evidence |= {p.sentence for p in elsewhere}
        pairs.append((place, elsewhere))
    return pairs


def _longest_spans(groups: list[list[Place]]) -> list[list[Place]]:
    """Leave out a span that only ever occurs inside a longer recurring one.

    "Penrose" is left out where it is always "Josiah Penrose".
    """
    inside: set[Place] = set()
    for group in groups:
        for place in group:
            for first in range(place.first, place.last):
                inside |= {
                    Place(place.sentence, first, last) for last in range(first + 1, place.last + 1)
                } - {place}
    return [group for group in groups if not inside.issuperset(group)]


def _related(words: Sequence[Sequence[Word]], place: Place, evidence: Place) -> bool:
    """Return whether the question and the surroundings of the evidence share another word."""
    span = {w.plain for w in words[place.sentence][place.first : place.last]}
    question = {w.plain for w in words[place.sentence] if w.content} - span
    surroundings = words[max(0, evidence.sentence - 1) : evidence.sentence + 2]
    return any(w.plain in question for sentence in surroundings for w in sentence)


def _echoes(
    words: Sequence[Sequence[Word]], rng: random.Random, count: int, cut: set[int]
) -> list[Place]:
    """Choose a span in each of ``count`` sentences that were not cut, names and numbers first."""
    numbers = [n for n, s in enumerate(words) if n not in cut and _SHORTEST <= len(s) <= _LONGEST]
    rng.shuffle(numbers)
    places: list[Place] = []
    for number in numbers:
        if len(places) == count:
            break
        sentence = words[number]
        spans = _spans(sentence)
        if not spans:
            continue
        weights = [_weight(sentence, first, last) for first, last in spans]
        first, last = rng.choices(spans, weights)[0]
        places.append(Place(number, first, last))
    return places


def _weight(sentence: Sequence[Word], first: int, last: int) -> float:
    """Return how often a span is drawn, relative to the others of its sentence."""
    span = sentence[first:last]
    if any(c.isdigit() for c in span[0].text):
        return 4.0
    named = first > 0 and all(w.text[0].isupper() for w in span if w.content)
    if not named:
        return 1.0 / (last - first)
    # The whole name rather than a part of it.
    wider = last < len(sentence) and sentence[last].text[0].isupper()
    wider |= first > 1 and sentence[first - 1].text[0].isupper()
    return 0.5 if wider else 5.0


# --- the wording of a question


def _question(sentence: Sequence[Word], place: Place, rng: random.Random, *, keep: float) -> str:
    """Turn a sentence without its span into a question; keep each word with chance ``keep``."""
    before = [w for w in sentence[: place.first] if w.text and rng.random() < keep]
    after = [w for w in sentence[place.last :] if rng.random() < keep]
    if rng.random() < 0.4:  # questions have few of the little words of a sentence
        before = [w for w in before if w.content or rng.random() < 0.5]
        after = [w for w in after if w.content or rng.random() < 0.5]
    # Cut to a length drawn by chance: the words nearest to the gap stay.
    room = rng.randint(8, _MOST_WORDS)
    num_before = min(len(before), max(room // 2, room - len(after)))
    left = [w.text for w in before[len(before) - num_before :]]
    right = [w.text for w in after[: room - num_before]]
    wh_words = _wh_words(sentence[place.first : place.last], rng)
    # Mostly "who ... ?", sometimes with the question word where the span was.
    order = rng.random()
    if order < 0.35:
        parts = [wh_words, *right, *left]
    elif order < 0.7:
        parts = [wh_words, *left, *right]
    else:
        parts = [*left, wh_words, *right]
    return " ".join(parts) + "?"


def _wh_words(span: Sequence[Word], rng: random.Random) -> str:
    text = " ".join(w.text for w in span)
    if _YEAR.search(text):
        return rng.choice(["when", "in what year", "what year", "what date"])
    if any(c.isdigit() for c in text):
        return rng.choice(["how many", "how much", "what", "which number"])
    if text[0].isupper():
        return rng.choice(["who", "what", "which", "where", "whose", "what is the name of"])
    return rng.choice(["what", "what", "which", "what kind of", "how"])
