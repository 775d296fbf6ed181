"""Which setting of a configuration file a question names: "Which Python version is required?".

All words of the key are in the question, and all words of the question are of the key, of the keys
above it, or of asking. Knows nothing of models and libraries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import cache

from drt_engine.answer.tables.conditions import negations, tokens_of
from drt_engine.answer.tables.table_question import UNITS
from drt_engine.answer.tables.wording import SYNONYM, same_word, similar, table_words
from drt_engine.documents.structure.setting_tree import MOST_SETTINGS, Setting, count_items
from drt_engine.text.words import STOP_WORDS, word_set

LONGEST_VALUE, _LONGEST_COUNTED = 1_500, 100_000  # characters
_LONG = 6  # letters that a word and another have at the beginning, to be the same
_SHORTEST_PART = 3  # letters of a word that a key shortens: "minversion"
_NO_VALUE = re.compile(
    r"(?i)\W*(?:did|do|does|is|are|was|were|has|have|had|can|may|must|should|why"
    r"|how (?!many|much|long|often|old|big|large|high))\b"
)
_SEVERAL = re.compile(
    r"(?i)\W*(?:(?:which|what) (?:are\b|(?!has\b|is\b|was\b|does\b)\w+s\b)|(?:list|name)\b)"
)
_AMOUNT = re.compile(r"\d[\d.,_]*")
_HOW = re.compile(r"(?i)\W*how\b")
_COUNT = re.compile(
    r"(?i)\W*how many [\w -]{2,60}? (?:are|does|do|has|have|is)\b|\W*(?:the )?number of\b"
)
_NOTHING = re.compile(r"(?i)(?:null|none|~|\[\s*\]|\{\s*\})?")
_AT_LEAST = re.compile(r">=|\^|~")
_LEAST = word_set("minimum lowest oldest least")
_PERSON = re.compile(r"(?i)\W*(?:who|whom|whose)\b")
_KINDS = (
    (_PERSON, re.compile(r"[A-Z][^\W\d_]+")),
    (re.compile(r"(?i)\W*(?:how|when)\b"), re.compile(r"\d")),
    (re.compile(r"(?i)\W*where\b"), re.compile(r"[/\\]")),
)
# Words of asking for a setting, and for what such a file is of.
_ASKING = word_set(
    """
    value values setting settings option options configured configuration config configure set used
    use uses using specified specify specifies declared declare declares defined define defines
    given listed list lists file files project package packages app application program tool module
    library version versions default defaults required require requires need needs needed name names
    called number many much kind type field fields key keys have has entry entries item items rule
    rules command commands run runs running give show tell support supports supported policy
    path paths data dataset
    """
)
_OPTIONAL = word_set("requires require required default use uses using current")  # of a key


def named_setting(
    question: str, text: str, settings: Sequence[Setting], context: Collection[str] = ()
) -> tuple[int, int] | None:
    """Return the place of the value that a question names; None where that is not clear.

    ``context`` are words of what the file is called. Of several keys that fit, the one with most
    words of the question, then the outermost, is meant.
    """
    if _NO_VALUE.match(question) or negations(tokens_of(question)):
        return None
    if len(settings) >= MOST_SETTINGS:
        return None  # some of which are not known
    is_same = cache(_is_same)  # keys have the same words again and again
    asked = [word for word in table_words(question) if word not in STOP_WORDS]
    known = {*context, *_name_of_file(text, settings, asked)}
    is_person = _PERSON.match(question) is not None
    hits = [
        (score, -len(setting.path), setting)
        for setting in settings
        if (score := _score(setting, asked, known, text, is_person=is_person, is_same=is_same))
        and _may_answer(question, text, setting)
    ]
    if not hits:
        return None
    best = max(hit[:2] for hit in hits)
    fitting = [setting for *rank, setting in hits if tuple(rank) == best]
    spans = [_trimmed(text, setting) for setting in fitting]
    if len({text[start:end] for start, end in spans}) > 1:
        return None
    return spans[0]


def asks_count(question: str) -> bool:
    """Return whether a question asks how many there are of something."""
    return _COUNT.match(question) is not None


def shares_words(question: str, text: str) -> bool:
    """Return whether a text has a word of a question, or the question has none but of asking."""
    asked = [w for w in table_words(question) if w not in STOP_WORDS and w not in _ASKING]
    said = set(table_words(text))
    return not asked or any(_is_same(word, other) for word in asked for other in said)


def _name_of_file(text: str, settings: Sequence[Setting], asked: Sequence[str]) -> list[str]:
    """Return the words of what a file is of, if it says so and a question has all of them."""
    for setting in settings:
        is_outer = len(setting.path) <= 2 and setting.item < 0  # noqa: PLR2004  "project.name"
        if is_outer and setting.path[-1].lower() == "name":
            words = table_words(text[setting.start : setting.end])
            return words if set(words) <= set(asked) else []
    return []


def _never(word: str, other_word: str) -> float:  # noqa: ARG001  a similarity, as of meaning
    return 0.0


def _is_same(word: str, key_word: str) -> bool:
    """Return whether a word of a question is one of a key.

    Of two words of which one begins with the other, only long ones are the same.
    """
    return any(
        similar(word, form, _never) >= SYNONYM
        and (same_word(word, form) or not _begins(word, form) or len(min(word, form)) >= _LONG)
        for form in {key_word, key_word.removesuffix("s")} - {""}
    )


def _begins(word: str, other_word: str) -> bool:
    return word.startswith(other_word) or other_word.startswith(word)


def _score(
    setting: Setting,
    asked: Sequence[str],
    known: Collection[str],
    text: str,
    *,
    is_person: bool,
    is_same: Callable[[str, str], bool],
) -> int:
    """Return how many words of a question a setting's keys have; 0 where it is another one."""
    is_name = is_person and setting.path[-1].lower() == "name" and len(setting.path) > 1
    leaf = table_words(setting.path[-2 if is_name else -1])
    needed = [word for word in leaf if word not in _OPTIONAL | UNITS | STOP_WORDS] or leaf
    whole = {word for word in asked if len(leaf) == 1 and word in _parts_of(leaf[0], asked)}
    named = bool(whole) or all(any(is_same(word, part) for word in asked) for part in needed)
    if not leaf or not named:
        return 0
    keys = {word for key in setting.path for word in table_words(key)}
    keys |= {word for name in setting.item_names for word in table_words(name)}
    explained = {word for word in asked if any(is_same(word, key) for key in keys)} | whole
    rest = set(asked) - explained - _ASKING - set(known)
    if rest & _LEAST and _AT_LEAST.match(text[setting.start : setting.end]):
        rest -= _LEAST
    is_named_alone = bool(explained - _ASKING) or len(leaf) == 1
    return len(explained) if not rest and is_named_alone else 0


def _parts_of(key: str, asked: Sequence[str]) -> tuple[str, ...]:
    """Return the two words of a question that a key is made of, shortened or not: "minversion"."""
    for at in range(_SHORTEST_PART, len(key) - _SHORTEST_PART + 1):
        firsts = [word for word in asked if word.startswith(key[:at])]
        seconds = [word for word in asked if word.startswith(key[at:]) and word not in firsts]
        if firsts and seconds:
            return firsts[0], seconds[0]
    return ()


def _may_answer(question: str, text: str, setting: Setting) -> bool:
    """Return whether a value is of the kind asked for: settings below a key are no one value."""
    start, end = _trimmed(text, setting)
    value = text[start:end]
    longest = _LONGEST_COUNTED if asks_count(question) else LONGEST_VALUE
    if _NOTHING.fullmatch(value) or end - start > longest:
        return False
    if setting.block and value[0] not in "[-" and not asks_count(question):
        holds_one = value[0] == "{" and value.count(":") + value.count("=") == 1
        if not (holds_one or _SEVERAL.match(question)):
            return False
    if setting.block and _HOW.match(question):  # which is of a number, or counts
        return asks_count(question) and count_items(text, start, end) > 0
    if asks_count(question):
        return _AMOUNT.fullmatch(value) is not None
    return all(kind.search(value) for asks, kind in _KINDS if asks.match(question))


def _trimmed(text: str, setting: Setting) -> tuple[int, int]:
    """Return the place of a value without white space around it."""
    value = text[setting.start : setting.end]
    start = setting.start + len(value) - len(value.lstrip())
    return start, max(start, setting.start + len(value.rstrip()))
