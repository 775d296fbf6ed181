"""Makes needle documents: facts hidden at a chosen depth of a text, with question and answer.

Knows nothing of models or files; a caller's function counts tokens. The phrasings and the proper
names of the "train" and "eval" splits never overlap.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from zlib import crc32

from drt_engine.errors import ConfigError
from drt_engine.text.sentences import Span, sentence_spans
from drt_lab.data.needle_words import (
    ADJECTIVES,
    BRIDGES,
    COLOURS,
    FIRST_NAMES,
    FORMS,
    MONTHS,
    NOUNS,
    PLACES,
    ROLES,
    SHADES,
    THINGS,
    UNITS,
    Form,
    Split,
)

CountTokens = Callable[[str], int]

_DRAWS = 100
_SHARE_OF_PERSONS = 0.25
_SAMPLE = 20_000
_REFINEMENTS = 4
_NEARBY = 2000
_FAR = 600
_SENTENCE_ENDS = '.!?"”’'


@dataclass(frozen=True)
class NeedleOptions:
    """What to make: `tokens` of text with the answer's needle at `depth` (0 start, 1 end).

    With two hops, one needle names a person and another, elsewhere, gives that person's value.
    Distractors are needles of the same kind about others.
    """

    tokens: int
    depth: float = 0.5
    hops: int = 1
    split: Split = "eval"
    distractors: int = 0
    characters_per_token: float = 4.2

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ConfigError(f"needle length is {self.tokens} tokens, expected at least 1")
        if not 0 <= self.depth <= 1:
            raise ConfigError(f"needle depth is {self.depth}, expected a share from 0 to 1")
        if self.hops not in (1, 2):
            raise ConfigError(f"needle hops is {self.hops}, expected 1 or 2")
        if self.split not in ("train", "eval"):
            raise ConfigError(f"needle split is '{self.split}', expected 'train' or 'eval'")
        if self.distractors < 0 or self.characters_per_token <= 0:
            raise ConfigError(
                f"needle distractors is {self.distractors} and characters per token "
                f"{self.characters_per_token}, expected none or more and a positive number"
            )


@dataclass(frozen=True)
class NeedleCase:
    """A text with its needle: `text[start:end] == answer` for the one span of `evidence`.

    `needles` are the spans of the statements that the answer needs, in order of the hops.
    """

    text: str
    question: str
    answer: str
    evidence: tuple[Span, ...]
    needles: tuple[Span, ...]
    kind: str
    hops: int
    depth: float


@dataclass(frozen=True)
class _Needle:
    sentence: str
    value: str


@dataclass(frozen=True)
class _Plan:
    """The needles of one case: the last of `needles` holds the answer, `names` whom they are on."""

    kind: str
    question: str
    needles: tuple[_Needle, ...]
    distractors: tuple[_Needle, ...]
    names: tuple[str, ...]


def make_needle(
    haystack: str,
    options: NeedleOptions,
    *,
    seed: int,
    count_tokens: CountTokens | None = None,
) -> NeedleCase:
    """Hide one fact in a stretch of the haystack; the same arguments give the same case.

    Without `count_tokens` the length is `characters_per_token` times the tokens. Raises
    ConfigError where the haystack is too short for the length, or the length for the needle.
    """
    rng = random.Random(f"needle {seed}")
    count = count_tokens or (lambda text: round(len(text) / options.characters_per_token))
    plan = _draw_plan(rng, options)
    hay = _stretch(haystack, _room(plan, options, count=count), rng=rng, count=count)
    for _ in range(_DRAWS):
        if not _clashes(plan, hay):
            return _hidden(hay, plan, rng=rng, options=options)
        plan = _draw_plan(rng, options)
    raise ConfigError(
        f"the haystack holds the names of all {_DRAWS} needles drawn, expected ordinary text"
    )


def make_needles(
    haystack: str,
    options: NeedleOptions,
    *,
    needles: int,
    seed: int,
    count_tokens: CountTokens | None = None,
) -> Iterator[NeedleCase]:
    """Yield cases with depths spread evenly from 0 to 1 (one alone keeps its own depth)."""
    for index in range(needles):
        depth = index / (needles - 1) if needles > 1 else options.depth
        case_seed = crc32(f"{seed} {index}".encode())
        placed = replace(options, depth=depth)
        yield make_needle(haystack, placed, seed=case_seed, count_tokens=count_tokens)


def gather_haystack(texts: Iterable[str], *, characters: int) -> str:
    """Join texts with blank lines until there are enough characters, repeating them if need be.

    Raises ConfigError where the texts hold nothing.
    """
    parts: list[str] = []
    size = 0
    for text in texts:
        if size >= characters:
            break
        if text.strip():
            parts.append(text.strip())
            size += len(parts[-1]) + 2
    if not parts:
        raise ConfigError("the corpus holds no text, expected documents to hide needles in")
    whole = "\n\n".join(parts)
    times = -(-characters // (len(whole) + 2))
    return "\n\n".join([whole] * times)


def needle_kinds() -> tuple[str, ...]:
    """Return the names of the kinds of fact."""
    return tuple(_VALUES)


def phrasings(split: Split) -> frozenset[str]:
    """Return every template of a split: statements, questions and the bridges of two hops."""
    pairs = (form for forms in FORMS[split].values() for form in forms)
    return frozenset(template for pair in pairs for template in pair) | frozenset(BRIDGES[split])


def proper_names(split: Split) -> frozenset[str]:
    """Return every proper name of a split: of places (also family names) and first names."""
    return frozenset(PLACES[split]) | frozenset(FIRST_NAMES[split])


# --- drawing names and values

_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"


def _person(rng: random.Random, split: Split) -> str:
    return f"{rng.choice(FIRST_NAMES[split])} {rng.choice(PLACES[split])}"


def _place(rng: random.Random, split: Split) -> str:
    return rng.choice(PLACES[split])


def _number(rng: random.Random, _split: Split) -> str:
    return str(rng.randrange(10_000, 10_000_000))


def _code(rng: random.Random, _split: Split) -> str:
    letters = "".join(rng.choices(_LETTERS, k=rng.choice((2, 3))))
    return f"{letters}-{rng.randrange(1000, 100_000)}"


def _identifier(rng: random.Random, _split: Split) -> str:
    digits = f"{rng.getrandbits(64):016x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:]}"


def _amount(rng: random.Random, _split: Split) -> str:
    return f"{rng.randrange(101, 9999)} {rng.choice(UNITS)}"


def _words(rng: random.Random, _split: Split) -> str:
    return f"{rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}"


def _colour(rng: random.Random, _split: Split) -> str:
    first, second = rng.sample(COLOURS, 2)
    return f"{rng.choice(SHADES)} {first} and {second}"


def _date(rng: random.Random, _split: Split) -> str:
    return f"{rng.randrange(1, 29)} {rng.choice(MONTHS)} {rng.randrange(1801, 2060)}"


_VALUES: dict[str, Callable[[random.Random, Split], str]] = {
    "code": _code,
    "number": _number,
    "identifier": _identifier,
    "words": _words,
    "amount": _amount,
    "date": _date,
    "place": _place,
    "colour": _colour,
    "name": _person,
}


# --- one case


def _draw_plan(rng: random.Random, options: NeedleOptions) -> _Plan:
    split = options.split
    kind = rng.choice(tuple(_VALUES))
    form = rng.choice(FORMS[split][kind])
    place, person = _place(rng, split), _person(rng, split)
    thing = f"the {place} {rng.choice(THINGS)}"
    on_person = options.hops == 2 or rng.random() < _SHARE_OF_PERSONS
    holder = person if on_person else thing
    answer = _needle(kind, form, holder, rng=rng, split=split)
    asked = holder
    needles: tuple[_Needle, ...] = (answer,)
    names: tuple[str, ...] = (person if on_person else place,)
    if options.hops == 2:
        role = rng.choice(ROLES[split])
        bridge = rng.choice(BRIDGES[split]).format(r=role, e=thing, p=person)
        asked, needles = f"the {role} of {thing}", (_Needle(_capital(bridge), person), answer)
        names = (place, person)
    others = tuple(
        _needle(kind, form, _other(thing, on_person, rng=rng, split=split), rng=rng, split=split)
        for _ in range(options.distractors)
    )
    return _Plan(kind, _capital(form[1].format(e=asked)), needles, others, names)


def _needle(kind: str, form: Form, entity: str, *, rng: random.Random, split: Split) -> _Needle:
    value = _VALUES[kind](rng, split)
    return _Needle(_capital(form[0].format(e=entity, v=value)), value)


def _other(thing: str, on_person: bool, *, rng: random.Random, split: Split) -> str:
    """Return another entity of the same sort; a thing keeps its noun, so the name must decide."""
    if on_person:
        return _person(rng, split)
    return f"the {_place(rng, split)} {thing.rsplit(' ', 1)[-1]}"


def _capital(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def _clashes(plan: _Plan, hay: str) -> bool:
    """Say whether the answer or a name of the needle also stands where it must not.

    The text may hold neither, another needle or the question not the answer, a distractor no
    name of the needle, and the question of two hops not the person between them.
    """
    *bridges, answer = plan.needles
    value = answer.value.casefold()
    distracting = [needle.sentence.casefold() for needle in plan.distractors]
    elsewhere = [plan.question.casefold(), *distracting]
    elsewhere += [bridge.sentence.casefold() for bridge in bridges]
    if answer.sentence.casefold().count(value) != 1 or any(value in text for text in elsewhere):
        return True
    if any(bridge.value in plan.question for bridge in bridges):
        return True
    # Family names are place names: a person called like the place would make one hop of two.
    if bridges and plan.names[0] in answer.sentence:
        return True
    names = [name.casefold() for name in plan.names]
    if any(name in text for text in distracting for name in names):
        return True
    folded = hay.casefold()
    return any(name in folded for name in [value, *names])


# --- the stretch of text and the places in it


def _room(plan: _Plan, options: NeedleOptions, *, count: CountTokens) -> int:
    """Return the tokens left for the haystack when the needles are in."""
    used = count(" ".join(needle.sentence for needle in (*plan.needles, *plan.distractors)))
    if used >= options.tokens:
        raise ConfigError(
            f"a text of {options.tokens} tokens has no room for needles of {used} tokens, "
            "expected a greater length or fewer distractors"
        )
    return options.tokens - used


def _stretch(haystack: str, tokens: int, *, rng: random.Random, count: CountTokens) -> str:
    """Return a stretch of about so many tokens, from a border drawn by chance to a border."""
    sample = haystack[:_SAMPLE]
    size = max(1, round(tokens * len(sample) / max(1, count(sample))))
    start = _border_near(haystack, rng.randrange(max(1, len(haystack) - size - size // 8)))
    for _ in range(_REFINEMENTS):
        counted = count(haystack[start : start + size])
        if start + size > len(haystack) or abs(counted - tokens) <= max(2, tokens // 200):
            break
        size = max(1, round(size * tokens / max(1, counted)))
    latest = len(haystack) - size
    if latest < -size // 10:
        raise ConfigError(
            f"the haystack has {len(haystack)} characters, expected about {size} "
            f"for {tokens} tokens; give a longer text or a smaller length"
        )
    if start > latest:
        border = _border_near(haystack, latest)
        start = border if border <= latest else max(0, latest)
    end = min(len(haystack), start + size)
    border = _border_near(haystack, end)
    # A border that is far off would miss the length; prose has one close by.
    close = border > start and abs(border - end) <= max(100, size // 20)
    return haystack[start : border if close else end].strip()


def _border_near(text: str, position: int) -> int:
    """Return the end of the sentence nearest to a position; a gap or the position without one."""
    if position <= 0 or position >= len(text):
        return max(0, min(position, len(text)))
    base = max(0, position - _NEARBY)
    window = text[base : position + _NEARBY]
    # The last span is left out: it may be cut off by the window.
    ends = [base + end for _, end in sentence_spans(window)[:-1]]
    near = [end for end in ends if abs(end - position) <= _FAR]
    near = [end for end in near if text[end - 1] in _SENTENCE_ENDS] or near
    gaps = near or [base + gap.start() for gap in re.finditer(r"\s", window)] or [position]
    return min(gaps, key=lambda end: abs(end - position))


def _hidden(hay: str, plan: _Plan, *, rng: random.Random, options: NeedleOptions) -> NeedleCase:
    """Insert all needles and find their spans in the finished text."""
    *bridges, answer = plan.needles
    placed = [(rng.random(), needle) for needle in (*bridges, *plan.distractors)]
    placed.append((options.depth, answer))
    rng.shuffle(placed)
    spots: dict[int, list[str]] = {}
    for depth, needle in placed:
        spot = _border_near(hay, round(depth * len(hay)))
        spots.setdefault(spot, []).append(needle.sentence)
    text = _inserted(hay, spots)
    spans = tuple(_span_of(text, needle.sentence) for needle in plan.needles)
    start = spans[-1][0] + answer.sentence.index(answer.value)
    return NeedleCase(
        text=text,
        question=plan.question,
        answer=answer.value,
        evidence=((start, start + len(answer.value)),),
        needles=spans,
        kind=plan.kind,
        hops=options.hops,
        depth=options.depth,
    )


def _inserted(hay: str, spots: dict[int, list[str]]) -> str:
    """Put needles behind a sentence into its paragraph, elsewhere into one of their own."""
    parts: list[str] = []
    last = 0
    for spot in sorted(spots):
        needles = " ".join(spots[spot])
        inside = spot > 0 and hay[spot - 1] in _SENTENCE_ENDS
        parts += [hay[last:spot], " " if inside else "\n\n" if spot else "", needles]
        parts.append("" if inside or spot == len(hay) else "\n\n")
        last = spot
    return "".join([*parts, hay[last:]])


def _span_of(text: str, sentence: str) -> Span:
    start = text.index(sentence)
    return start, start + len(sentence)
