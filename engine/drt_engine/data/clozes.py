"""Questions made from plain text by the million: a span is taken out of a sentence, which becomes
the question.

Two kinds. *Recurring*: the sentence is cut from the text, and the evidence is another place where
the same span stands (recurring span selection: Ram et al. 2021, arXiv 2101.00438, and for
retrieval 2112.07708). *Echo*: the sentence stays, and the question keeps only some of its words.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from drt_engine.config.model import ModelConfig
from drt_engine.text.sentences import is_heading, split_sentences
from drt_engine.text.tokenizer import Tokenizer
from drt_engine.text.words import STOP_WORDS
from drt_engine.train.questions import (
    BatchBuilder,
    Item,
    QuestionBatch,
    TokenDocument,
    read_texts,
    token_span,
)

_CHARACTERS_PER_TOKEN = 4.3
_WORD = re.compile(r"\w+(?:['’.,-]\w+)*")
_YEAR = re.compile(r"(?:1\d|20)\d\d")
_LONGEST_SPAN = 5  # words
_SHORTEST, _LONGEST = 7, 60  # words of a sentence that may be asked
_MOST_PLACES = 6
_MOST_WORDS = 30  # of a question


@dataclass(frozen=True)
class Word:
    """A word of a text: its characters, and the same in lower case."""

    start: int
    end: int
    text: str
    space: bool  # a space stands before it

    @property
    def plain(self) -> str:
        """The word as it is compared."""
        return self.text.lower()

    @property
    def content(self) -> bool:
        """Whether the word says something by itself."""
        return self.plain not in STOP_WORDS and len(self.text) > 1


@dataclass(frozen=True)
class Place:
    """Words ``first:last`` of sentence number ``sentence``."""

    sentence: int
    first: int
    last: int


@dataclass(frozen=True)
class Cloze:
    """A question, its answer, and the characters of its evidence in the text it is asked of."""

    question: str
    answer: str
    evidence: list[tuple[int, int]]


def make_clozes(
    text: str, rng: random.Random, *, count: int, recurring: float
) -> tuple[str, list[Cloze]]:
    """Return up to ``count`` cloze questions on ``text``, about ``recurring`` of them of that kind,
    and the text without the sentences that were cut.
    """
    sentences = split_sentences(text)
    words = [
        []
        if is_heading(s.text)
        else [
            Word(s.start + m.start(), s.start + m.end(), m.group(), s.text[m.start() - 1] == " ")
            for m in _WORD.finditer(s.text)
        ]
        for s in sentences
    ]
    wanted = round(count * recurring)
    asked = _recurring(words, rng, wanted)
    cut = {place.sentence for place, _ in asked}
    removed = sorted(cut)
    gaps = [(sentences[i].start, sentences[i].end) for i in removed]
    kept, moved = _without(text, gaps)
    out = [
        Cloze(
            _ask(words[place.sentence], place, rng, keep=1.0),
            _text(text, words, place),
            [(moved(a), moved(b)) for a, b in (_span(words, p) for p in others)],
        )
        for place, others in asked
    ]
    for place in _echoes(words, rng, count - len(out), cut):
        start, end = _span(words, place)
        question = _ask(words[place.sentence], place, rng, keep=rng.uniform(0.45, 1.0))
        out.append(Cloze(question, text[start:end], [(moved(start), moved(end))]))
    return kept, out


def _span(words: Sequence[Sequence[Word]], place: Place) -> tuple[int, int]:
    sentence = words[place.sentence]
    return sentence[place.first].start, sentence[place.last - 1].end


def _text(text: str, words: Sequence[Sequence[Word]], place: Place) -> str:
    start, end = _span(words, place)
    return text[start:end]


def _without(text: str, gaps: Sequence[tuple[int, int]]) -> tuple[str, Callable[[int], int]]:
    """Return ``text`` without ``gaps``, and where its characters have moved to."""
    pieces, at = [], 0
    for start, end in gaps:
        pieces.append(text[at:start])
        at = end
    pieces.append(text[at:])

    def moved(character: int) -> int:
        return character - sum(b - a for a, b in gaps if b <= character)

    return "".join(pieces), moved


def _spans(sentence: Sequence[Word]) -> list[tuple[int, int]]:
    """Word spans that neither begin nor end with a stop word and name something."""
    found = []
    for first in range(len(sentence)):
        if not sentence[first].content:
            continue
        for last in range(first + 1, min(first + _LONGEST_SPAN, len(sentence)) + 1):
            if last - first > 1 and not _adjacent(sentence[last - 2], sentence[last - 1]):
                break
            if sentence[last - 1].content and _names(sentence[first:last]):
                found.append((first, last))
    return found


def _adjacent(one: Word, two: Word) -> bool:
    return two.start - one.end == 1 and two.space  # not a line end, a stop or a dash


def _names(span: Sequence[Word]) -> bool:
    """Whether a span is worth asking for: several words, a name, a number, or a long word."""
    word = span[0].text
    return len(span) > 1 or word[0].isupper() or word[0].isdigit() or len(word) > 6


def _recurring(
    words: Sequence[Sequence[Word]], rng: random.Random, count: int
) -> list[tuple[Place, list[Place]]]:
    """Choose ``count`` sentences to cut, each with a span and the other places where it stands."""
    places: dict[tuple[str, ...], list[Place]] = defaultdict(list)
    for number, sentence in enumerate(words):
        for first, last in _spans(sentence):
            key = tuple(w.plain for w in sentence[first:last])
            places[key].append(Place(number, first, last))
    groups = [g for g in places.values() if 2 <= len({p.sentence for p in g}) <= _MOST_PLACES]
    groups = _whole(groups)
    rng.shuffle(groups)
    used: set[int] = set()
    evidence: set[int] = set()
    out: list[tuple[Place, list[Place]]] = []
    for group in groups:
        if len(out) == count:
            break
        asked = rng.choice(group)
        others = [p for p in group if p.sentence != asked.sentence and p.sentence not in used]
        others = [p for p in others if _related(words, asked, p)]
        length = len(words[asked.sentence])
        fits = _SHORTEST <= length <= _LONGEST
        if not others or not fits or asked.sentence in used or asked.sentence in evidence:
            continue
        used.add(asked.sentence)
        evidence |= {p.sentence for p in others}
        out.append((asked, others))
    return out


def _whole(groups: list[list[Place]]) -> list[list[Place]]:
    """Leave out what only ever stands inside a longer recurring span: "Penrose" where it is always
    "Josiah Penrose".
    """
    inside: set[Place] = set()
    for group in groups:
        for place in group:
            for first in range(place.first, place.last):
                inside |= {
                    Place(place.sentence, first, last) for last in range(first + 1, place.last + 1)
                } - {place}
    return [group for group in groups if not inside.issuperset(group)]


def _related(words: Sequence[Sequence[Word]], asked: Place, other: Place) -> bool:
    """Whether the sentence asked and the surroundings of the other place share another word."""
    span = {w.plain for w in words[asked.sentence][asked.first : asked.last]}
    question = {w.plain for w in words[asked.sentence] if w.content} - span
    near = words[max(0, other.sentence - 1) : other.sentence + 2]
    return any(w.plain in question for sentence in near for w in sentence)


def _echoes(
    words: Sequence[Sequence[Word]], rng: random.Random, count: int, cut: set[int]
) -> list[Place]:
    """Choose a span in each of ``count`` sentences that are still there; names and numbers are
    asked for more often.
    """
    numbers = [n for n, s in enumerate(words) if n not in cut and _SHORTEST <= len(s) <= _LONGEST]
    rng.shuffle(numbers)
    out = []
    for number in numbers:
        if len(out) == count:
            break
        sentence = words[number]
        spans = _spans(sentence)
        if not spans:
            continue
        weights = [_worth(sentence, first, last) for first, last in spans]
        first, last = rng.choices(spans, weights)[0]
        out.append(Place(number, first, last))
    return out


def _worth(sentence: Sequence[Word], first: int, last: int) -> float:
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


def _ask(sentence: Sequence[Word], place: Place, rng: random.Random, *, keep: float) -> str:
    """Turn a sentence without its span into a question; words are kept with probability
    ``keep``.
    """
    before = [w for w in sentence[: place.first] if w.text and rng.random() < keep]
    after = [w for w in sentence[place.last :] if rng.random() < keep]
    if rng.random() < 0.4:  # questions have few of the little words of a sentence
        before = [w for w in before if w.content or rng.random() < 0.5]
        after = [w for w in after if w.content or rng.random() < 0.5]
    room = rng.randint(8, _MOST_WORDS)
    left = min(len(before), max(room // 2, room - len(after)))
    one = [w.text for w in before[len(before) - left :]]
    two = [w.text for w in after[: room - left]]
    what = _wh_words(sentence[place.first : place.last], rng)
    shape = rng.random()
    if shape < 0.35:
        parts = [what, *two, *one]
    elif shape < 0.7:
        parts = [what, *one, *two]
    else:
        parts = [*one, what, *two]
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


class ClozeSource:
    """Corpus texts that cloze questions are made from."""

    def __init__(
        self, corpus: Sequence[Path], *, tokenizer: Tokenizer, config: ModelConfig
    ) -> None:
        self.tokenizer, self.config = tokenizer, config
        self.texts = read_texts(corpus, "cloze")
        # Long books would crowd the rest out.
        self._mass = [min(len(text), 200_000) for text in self.texts]

    def batch(
        self,
        rng: random.Random,
        *,
        questions: int,
        more: int,
        windows: int,
        window: int,
        recurring: float,
    ) -> QuestionBatch:
        """Return ``questions`` cloze questions to read for and ``more`` that only retrieve, on
        ``windows`` pieces of text of ``window`` chunks.
        """
        builder = BatchBuilder(self.config, rng)
        each = -(-(questions + more) // windows)
        while len(builder.windows) < windows:
            document = self._document(rng, window, each, recurring)
            if document is None:
                continue
            read = min(len(document.items), -(-questions // windows))
            builder.add(document, document.items[:read], window, more=document.items[read:])
        return builder.build()

    def _document(
        self, rng: random.Random, window: int, count: int, recurring: float
    ) -> TokenDocument | None:
        text = rng.choices(self.texts, self._mass)[0]
        size = int(window * self.config.chunk * _CHARACTERS_PER_TOKEN)
        at = rng.randrange(max(1, len(text) - size))
        text, clozes = make_clozes(text[at : at + size], rng, count=count, recurring=recurring)
        rng.shuffle(clozes)
        if not clozes:
            return None
        encoding = self.tokenizer.encode(text)
        asked = self.tokenizer.encode_batch([c.question for c in clozes])
        answered = self.tokenizer.encode_batch([c.answer for c in clozes])
        items = []
        for cloze, question, answer in zip(clozes, asked, answered, strict=True):
            spans = [token_span(encoding, a, b) for a, b in cloze.evidence]
            known = [s for s in spans if s is not None]
            room = self.config.chunk - 2
            ids = question.ids[:room]
            if known and ids:
                answer_ids = answer.ids[: max(0, room - len(ids))]
                items.append(Item(cloze.question, ids, answer_ids, known, "extractive"))
        return TokenDocument(encoding, text, "cloze", items) if items else None
