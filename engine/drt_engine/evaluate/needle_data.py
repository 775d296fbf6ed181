"""Makes needle documents: facts hidden at a chosen depth of a text, with question and answer.

Knows nothing of models or files; a caller's function counts tokens. The phrasings and the proper
names of the "train" and "eval" splits never overlap.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal
from zlib import crc32

from drt_engine.errors import ConfigError
from drt_engine.text_units import Span, sentence_spans

Split = Literal["train", "eval"]
CountTokens = Callable[[str], int]
# Statement and question on an entity {e}, a thing or a person, and a value {v}.
_Form = tuple[str, str]

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
    pairs = (form for forms in _FORMS[split].values() for form in forms)
    return frozenset(template for pair in pairs for template in pair) | frozenset(_BRIDGES[split])


def proper_names(split: Split) -> frozenset[str]:
    """Return every proper name of a split: of places (also family names) and first names."""
    return frozenset(_PLACES[split]) | frozenset(_FIRST_NAMES[split])


# --- drawing names and values


def _listed(words: str) -> tuple[str, ...]:
    return tuple(words.split())


def _split_of(name: str) -> Split:
    return "eval" if crc32(name.encode()) % 4 == 0 else "train"


_HEADS = _listed(
    """
    Mar Hal Thorn Ash Wick Bel Cor Dun Els Fen Gar Hath Ing Kel Lang Mel Nor Oak Pem Quar Rav
    Sel Tarn Ulv Ver Wal Yar Zel Brack Crom Drey Farn Glen Holm Jar Kirk Lor Myr Ost Pol Rusk
    Stan Tel Vand Wex Arl Bram Calde Dor Esk Frith Gris Harl Isen Jor Karst Lind Mor Nev Ord
    """
)
_TAILS = _listed(
    """
    low ford by stead wick ham mere ton ley worth field gate moor dale combe bourne thorpe hurst
    den wold rick shaw vane brook croft mont sey brigg
    """
)
_ALL_PLACES = tuple(dict.fromkeys(head + tail for head in _HEADS for tail in _TAILS))
_ALL_FIRST_NAMES = _listed(
    """
    Ida Otto Clara Hugo Agnes Felix Greta Oscar Nadia Viktor Irene Casper Leona Anton Marta
    Edgar Sonja Rufus Helga Julian Petra Silas Vera Ivo Tilda Magnus Rosa Conrad Ulla Basil
    Edith Lorenz Flora Emil Hanna Gideon Astrid Bruno Celia Dmitri Elsa Florian Gilda Harald
    Inga Jasper Katya Lionel Mina Nestor Odette Pavel Renata Stellan Thea Ulrich Wanda Yusuf
    Zora Alma Bertram Corinna Desmond Estelle Fergus Gwen Horatio Isolde Joachim Kirsten
    """
)
_PLACES: dict[Split, tuple[str, ...]] = {
    "train": tuple(name for name in _ALL_PLACES if _split_of(name) == "train"),
    "eval": tuple(name for name in _ALL_PLACES if _split_of(name) == "eval"),
}
_FIRST_NAMES: dict[Split, tuple[str, ...]] = {
    "train": tuple(name for name in _ALL_FIRST_NAMES if _split_of(name) == "train"),
    "eval": tuple(name for name in _ALL_FIRST_NAMES if _split_of(name) == "eval"),
}
_THINGS = _listed(
    """
    depot warehouse station workshop archive laboratory harbour observatory mill quarry foundry
    library bakery orchard museum clinic ferry lighthouse tannery brewery granary chapel
    garrison nursery printworks reservoir shipyard theatre vineyard windmill
    """
)
_ROLES: dict[Split, tuple[str, ...]] = {
    "train": _listed("keeper courier auditor surveyor caretaker clerk treasurer warden"),
    "eval": _listed("steward inspector porter bookkeeper curator foreman"),
}
_BRIDGES: dict[Split, tuple[str, ...]] = {
    "train": (
        "The {r} of {e} is {p}.",
        "{p} serves as the {r} of {e}.",
        "{p} was appointed {r} of {e}.",
        "As everyone knows, the {r} of {e} is called {p}.",
        "Since last spring {p} has acted as {r} of {e}.",
    ),
    "eval": (
        "For many years {p} has been the {r} of {e}.",
        "{p} works as {r} of {e}.",
        "The post of {r} of {e} is held by {p}.",
    ),
}
_ADJECTIVES = _listed(
    """
    amber brittle copper distant eager frozen gentle hollow ivory jagged lively mossy narrow
    orange patient quiet rusty silver tangled uneven velvet woven young zealous crooked dusty
    faded golden humble noisy polished restless shallow striped thirsty wooden
    """
)
_NOUNS = _listed(
    """
    anchor basket candle dagger engine falcon goblet hammer island jacket kettle lantern mirror
    needle otter pebble quiver ribbon saddle teapot umbrella violin walnut yarrow zither acorn
    beacon cradle drum feather glacier hinge ladder magnet nettle parrot rudder sparrow thimble
    """
)
_SHADES = _listed("pale dark bright dusky smoky deep light dull vivid milky")
_COLOURS = _listed(
    """
    crimson ochre teal indigo scarlet olive turquoise maroon lilac saffron cobalt emerald russet
    violet magenta vermilion sepia cerulean chartreuse fuchsia mauve umber
    """
)
_MONTHS = _listed(
    """
    January February March April May June July August September October November December
    """
)
_UNITS = _listed("litres crates barrels bundles sacks coins bottles tiles spools candles")
_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"


def _person(rng: random.Random, split: Split) -> str:
    return f"{rng.choice(_FIRST_NAMES[split])} {rng.choice(_PLACES[split])}"


def _place(rng: random.Random, split: Split) -> str:
    return rng.choice(_PLACES[split])


def _number(rng: random.Random, split: Split) -> str:
    return str(rng.randrange(10_000, 10_000_000))


def _code(rng: random.Random, split: Split) -> str:
    letters = "".join(rng.choices(_LETTERS, k=rng.choice((2, 3))))
    return f"{letters}-{rng.randrange(1000, 100_000)}"


def _identifier(rng: random.Random, split: Split) -> str:
    digits = f"{rng.getrandbits(64):016x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:]}"


def _amount(rng: random.Random, split: Split) -> str:
    return f"{rng.randrange(101, 9999)} {rng.choice(_UNITS)}"


def _words(rng: random.Random, split: Split) -> str:
    return f"{rng.choice(_ADJECTIVES)} {rng.choice(_NOUNS)}"


def _colour(rng: random.Random, split: Split) -> str:
    first, second = rng.sample(_COLOURS, 2)
    return f"{rng.choice(_SHADES)} {first} and {second}"


def _date(rng: random.Random, split: Split) -> str:
    return f"{rng.randrange(1, 29)} {rng.choice(_MONTHS)} {rng.randrange(1801, 2060)}"


# --- phrasings; the value never opens a sentence, so that it keeps its spelling

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
_TRAIN_FORMS: dict[str, tuple[_Form, ...]] = {
    "code": (
        ("The access code of {e} is {v}.", "What is the access code of {e}?"),
        ("The access code for {e} was changed to {v}.", "Tell me the access code for {e}."),
        ("Remember that {e} has the access code {v}.", "{e} has which access code?"),
        ("The code that was issued for {e} reads {v}.", "What code was issued for {e}?"),
        ("According to the register, {e} uses the code {v}.", "Which code does {e} use?"),
    ),
    "number": (
        ("The registration number of {e} is {v}.", "What is the registration number of {e}?"),
        ("The number {v} was entered in the books for {e}.", "Which number was entered for {e}?"),
        ("The records list {e} under number {v}.", "Under what number is {e} listed?"),
        ("By order of the council, {e} received the number {v}.", "What number did {e} receive?"),
        ("The special magic number of {e} is {v}.", "What is the number of {e}?"),
    ),
    "identifier": (
        ("The device identifier of {e} is {v}.", "What is the device identifier of {e}?"),
        (
            "The system knows {e} by the identifier {v}.",
            "By which identifier does the system know {e}?",
        ),
        (
            "The tracking identifier {v} is reserved for {e}.",
            "Which tracking identifier is reserved for {e}?",
        ),
        ("The inventory gives {e} the identifier {v}.", "What identifier does {e} have?"),
    ),
    "words": (
        ("The password of {e} is {v}.", "What is the password of {e}?"),
        ("The secret phrase chosen for {e} is {v}.", "Which secret phrase was chosen for {e}?"),
        ("The watchword {v} was given to {e}.", "What watchword was given to {e}?"),
        ("The sign that stands for {e} is the {v}.", "What is the sign of {e}?"),
    ),
    "amount": (
        ("The yearly allowance of {e} is {v}.", "What is the yearly allowance of {e}?"),
        ("The stores still owe {v} to {e}.", "How much do the stores owe to {e}?"),
        ("The contract grants {e} a total of {v}.", "How much does the contract grant {e}?"),
        ("An order of {v} was placed for {e}.", "What was ordered for {e}?"),
    ),
    "date": (
        ("The first report on {e} was filed on {v}.", "When was the first report on {e} filed?"),
        ("The next review of {e} is set for {v}.", "For what date is the next review of {e} set?"),
        ("The licence granted to {e} ends on {v}.", "When does the licence of {e} end?"),
        (
            "The agreement with {e} was signed on {v}.",
            "On what date was the agreement with {e} signed?",
        ),
    ),
    "place": (
        ("The new address of {e} is in {v}.", "Where is the new address of {e}?"),
        ("All letters for {e} must be sent to {v}.", "Where must letters for {e} be sent?"),
        (
            "The belongings of {e} were moved to {v}.",
            "To which place were the belongings of {e} moved?",
        ),
        ("The nearest market for {e} is the one at {v}.", "Where is the nearest market for {e}?"),
    ),
    "colour": (
        ("The flag of {e} is {v}.", "What colour is the flag of {e}?"),
        ("The colours worn by {e} are {v}.", "Which colours are worn by {e}?"),
        ("The committee chose {v} for {e}.", "What colours did the committee choose for {e}?"),
        ("The crates marked for {e} are painted {v}.", "How are the crates for {e} painted?"),
    ),
    "name": (
        ("The deputy of {e} is {v}.", "Who is the deputy of {e}?"),
        ("The legal guarantor of {e} is named {v}.", "What is the name of the guarantor of {e}?"),
        ("The debts of {e} were paid by {v}.", "Who paid the debts of {e}?"),
        ("The portrait of {e} was painted by {v}.", "By whom was the portrait of {e} painted?"),
    ),
}
_EVAL_FORMS: dict[str, tuple[_Form, ...]] = {
    "code": (
        ("The only valid code for {e} is {v}.", "What is the valid code for {e}?"),
        (
            "A note in the margin says that the code of {e} is {v}.",
            "What code does the note give for {e}?",
        ),
        (
            "The code belonging to {e} is {v}, and no other is accepted.",
            "Which code belongs to {e}?",
        ),
    ),
    "number": (
        ("The file number assigned to {e} is {v}.", "Which number is assigned to {e}?"),
        (
            "In the ledger, {e} appears with the number {v}.",
            "With what number does {e} appear in the ledger?",
        ),
        ("The secret number of {e} has always been {v}.", "What is the secret number of {e}?"),
    ),
    "identifier": (
        (
            "The unique identifier stored for {e} is {v}.",
            "What unique identifier is stored for {e}?",
        ),
        (
            "Every message from {e} carries the identifier {v}.",
            "Which identifier do messages from {e} carry?",
        ),
    ),
    "words": (
        ("The passphrase agreed on for {e} is {v}.", "What passphrase was agreed on for {e}?"),
        ("The emblem of {e} shows the {v}.", "What does the emblem of {e} show?"),
    ),
    "amount": (
        ("The quota fixed for {e} amounts to {v}.", "How large is the quota fixed for {e}?"),
        ("A shipment of {v} is on its way to {e}.", "What shipment is on its way to {e}?"),
    ),
    "date": (
        ("The anniversary of {e} is kept on {v}.", "On which date is the anniversary of {e} kept?"),
        (
            "The insurance taken out for {e} runs until {v}.",
            "Until when does the insurance of {e} run?",
        ),
    ),
    "place": (
        ("The twin town chosen by {e} is {v}.", "Which twin town was chosen by {e}?"),
        ("The spare keys of {e} are kept in {v}.", "Where are the spare keys of {e} kept?"),
    ),
    "colour": (
        ("The banner carried by {e} is {v}.", "What colour is the banner of {e}?"),
        ("The uniform designed for {e} is {v}.", "What colours has the uniform designed for {e}?"),
    ),
    "name": (
        ("The lawyer who speaks for {e} is {v}.", "Which lawyer speaks for {e}?"),
        ("The history of {e} was written by {v}.", "Who wrote the history of {e}?"),
    ),
}
_FORMS: dict[Split, dict[str, tuple[_Form, ...]]] = {"train": _TRAIN_FORMS, "eval": _EVAL_FORMS}


# --- one case


def _draw_plan(rng: random.Random, options: NeedleOptions) -> _Plan:
    split = options.split
    kind = rng.choice(tuple(_VALUES))
    form = rng.choice(_FORMS[split][kind])
    place, person = _place(rng, split), _person(rng, split)
    thing = f"the {place} {rng.choice(_THINGS)}"
    on_person = options.hops == 2 or rng.random() < _SHARE_OF_PERSONS
    holder = person if on_person else thing
    answer = _needle(kind, form, holder, rng=rng, split=split)
    asked = holder
    needles: tuple[_Needle, ...] = (answer,)
    names: tuple[str, ...] = (person if on_person else place,)
    if options.hops == 2:
        role = rng.choice(_ROLES[split])
        bridge = rng.choice(_BRIDGES[split]).format(r=role, e=thing, p=person)
        asked, needles = f"the {role} of {thing}", (_Needle(_capital(bridge), person), answer)
        names = (place, person)
    others = tuple(
        _needle(kind, form, _other(thing, on_person, rng=rng, split=split), rng=rng, split=split)
        for _ in range(options.distractors)
    )
    return _Plan(kind, _capital(form[1].format(e=asked)), needles, others, names)


def _needle(kind: str, form: _Form, entity: str, *, rng: random.Random, split: Split) -> _Needle:
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
