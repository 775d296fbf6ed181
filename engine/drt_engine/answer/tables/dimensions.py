"""What adjectives ask of a table: "taller" is more of a height, "cheapest" the least price.

General English. Each dimension has the adjectives for much and for little of it, the words of
columns that measure it, and of columns that measure its opposite: who is older was born earlier.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from drt_engine.text.words import word_set

_DATES = (
    "year date founded opened built planted born established created introduced published since"
    " started joined released inception birth first opening construction completed"
)
_TIMES = "time duration finish minutes hours seconds"
_DIMENSIONS = (
    ("tall", "short", "height tall", ""),
    ("high", "low", "height altitude elevation high", ""),
    ("long", "short", "length duration distance time hours minutes crossing long", ""),
    ("big large great", "small little", "size area population volume capacity diameter", ""),
    ("heavy", "light", "weight mass", ""),
    ("thick", "thin", "thickness diameter trunk girth width", ""),
    ("wide broad", "narrow", "width breadth", ""),
    ("deep", "shallow", "depth", ""),
    ("old", "young new recent", "age", _DATES),
    ("late new recent", "early", f"{_DATES} due departure arrival time", ""),
    ("fast quick swift", "slow", "speed velocity", _TIMES),
    ("hot warm", "cold cool chilly", "temperature temp", ""),
    ("wet rainy", "dry", "rain rainfall precipitation", ""),
    ("sunny", "cloudy", "sunshine sun", ""),
    ("expensive dear costly pricey", "cheap", "price cost fare fee rent rate amount", ""),
    ("rich wealthy", "poor", "gdp income wealth revenue assets", ""),
    ("far distant", "near close", "distance", ""),
    ("populous crowded", "", "population inhabitants residents density", ""),
    ("powerful strong", "weak", "power strength", ""),
    ("bright", "dim faint", "brightness luminosity", ""),
    ("steep", "flat", "gradient slope", ""),
    ("loud", "quiet", "noise decibels", ""),
    ("profitable", "", "profit income", ""),
)
_IRREGULAR = {"far": ("farther", "farthest"), "good": ("better", "best"), "bad": ("worse", "worst")}
_DOUBLED = word_set("big hot thin wet dim flat")
# Degrees that say nothing of what is compared: a column's name has to.
_MUCH = word_set("most highest largest biggest greatest maximum top peak")
_LITTLE = word_set("fewest least lowest smallest minimum bottom")
_ADVERBS = word_set("most least more less")  # before an adjective
_OF_COLUMNS = word_set("maximum minimum top peak bottom")
_MORE = word_set("more higher larger bigger greater")
_LESS = word_set("fewer less lower smaller")


class Degree(NamedTuple):
    """What a comparative or a superlative says: much or little, and of what, where it tells.

    ``columns`` are words of columns in which much of it is a high value, ``opposites`` of those
    in which it is a low one.
    """

    is_much: bool
    is_superlative: bool
    columns: frozenset[str] = frozenset()
    opposites: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Forms:
    comparative: str
    superlative: str


def _forms(adjective: str) -> _Forms:
    if adjective in _IRREGULAR:
        return _Forms(*_IRREGULAR[adjective])
    stem = adjective
    if adjective.endswith("y"):
        stem = adjective[:-1] + "i"
    elif adjective.endswith("e"):
        stem = adjective[:-1]
    elif adjective in _DOUBLED:
        stem = adjective + adjective[-1]
    return _Forms(stem + "er", stem + "est")


def _degrees() -> dict[str, list[Degree]]:
    degrees: dict[str, list[Degree]] = {}
    for much, little, columns, opposites in _DIMENSIONS:
        for is_much, adjectives in ((True, much), (False, little)):
            for adjective in adjectives.split():
                forms = _forms(adjective)
                for form, superlative in ((forms.comparative, False), (forms.superlative, True)):
                    degree = Degree(is_much, superlative, word_set(columns), word_set(opposites))
                    degrees.setdefault(form, []).append(degree)
                # "more expensive", "least expensive": the degree is in the word before.
                degrees.setdefault(adjective, []).append(
                    Degree(is_much, False, word_set(columns), word_set(opposites))
                )
    return degrees


_DEGREES = _degrees()
_INFLECTED = frozenset(
    form
    for much, little, *_ in _DIMENSIONS
    for adjective in f"{much} {little}".split()
    for form in (_forms(adjective).comparative, _forms(adjective).superlative)
)


def degrees_of(
    words: Sequence[str], column_words: Collection[str] = ()
) -> tuple[list[Degree], set[str]]:
    """Return what the comparative or superlative among some words says, and its words.

    Nothing where there is none, or several. An adjective that fits several dimensions has a degree
    for each; a bare one without columns comes first. Behind "more", a word of ``column_words`` is
    no adjective: "more rainy days".
    """
    hits = [word for word in words if word in _MUCH | _LITTLE | _MORE | _LESS]
    named = [word for word in words if word in _DEGREES and word not in hits]
    inflected = [word for word in named if word in _INFLECTED]
    if inflected:  # "the hottest by maximum temperature": then these are of a column's name
        hits = [word for word in hits if word not in _OF_COLUMNS]
    if len(hits) > 1 or (hits and inflected) or len(inflected) > 1:
        return [], set()
    if hits:
        is_much = hits[0] in _MUCH | _MORE
        is_superlative = hits[0] in _MUCH | _LITTLE
        plain = Degree(is_much, is_superlative)
        at = words.index(hits[0])
        follower = words[at + 1 : at + 2]
        is_adjective = follower and follower[0] in named and follower[0] not in column_words
        if is_adjective and hits[0] in _ADVERBS:
            degrees = [
                d._replace(is_much=d.is_much == is_much, is_superlative=is_superlative)
                for d in _DEGREES[follower[0]]
            ]
            return degrees, {hits[0], follower[0]}
        alike = [d for d in _DEGREES.get(hits[0], []) if d.is_superlative == is_superlative]
        return [plain, *alike], {hits[0]}
    if inflected:
        return _DEGREES[inflected[0]], {inflected[0]}
    return [], set()
