"""Words of questions and of column names, and how alike they are.

Knows nothing of models: similarity of meaning is a function that the caller gives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import product

from drt_engine.answer.tables.synonyms import are_contrasts, are_synonyms, whole_word

# Similarity of two lower-case words, at most 1.
Similarity = Callable[[str, str], float]

LEAST_COLUMN, LEAST_LEAD = 0.5, 0.08  # score of the best column, and its lead over the next
SAME_WORD = 0.9  # similarity from which two words name the same
SYNONYM = 0.75  # similarity of two words for one column, below that of the same word
_INFLECTED = 0.97  # similarity of a word and the same one with another ending
_WORD = re.compile(r"\d+(?:[.,]\d+)+|[^\W_]+")
_CAMEL = re.compile(r"([a-z])([A-Z])")
_UNIT = re.compile(
    r"[(\[][^)\]]{0,60}[)\]]|\bin (?:[kcm]?m|miles|feet|inches|kg|[mk]?g|%|percent)\Z"
)
_HYPHEN = re.compile(r"(?i)\be-(?=mail)")
_SHORT_PLURAL = re.compile(r"[a-z]{2}[^sxzh]es")  # "names", which is no "nam"
_DOUBLED = re.compile(r"[a-z]{2}([bdgmnprt])\1\Z")  # "dropped" is of "drop", but "added" of "add"
_LONG_ENOUGH = 4  # letters before an "e" that may be an ending: "state", but not "rate"
_YEAR_DIGITS = 4
_AGENT = re.compile(r"(?:er|or|eur|ent)\Z")


def table_words(text: str) -> list[str]:
    """Return the lower-case words and numbers of a question, a column name or a cell.

    ``incidentsTotal_85`` gives "incidents", "total", "85".
    """
    return _WORD.findall(_HYPHEN.sub("e", _CAMEL.sub(r"\1 \2", text)).lower())


def stem(word: str) -> str:
    """Return a word without its commonest English endings, for comparing two words.

    The last "e" of what is long enough is no part of it: "earthquake" and "earthquakes" are one.
    """
    if _SHORT_PLURAL.fullmatch(word):
        return word[:-1]
    for ending in ("ing", "ies", "es", "s", "ed", "y", "e"):
        least = _LONG_ENOUGH if ending == "e" else 3
        if word.endswith(ending) and len(word) - len(ending) >= least:
            bare = word[: -len(ending)]
            return bare[:-1] if ending in ("ing", "ed") and _DOUBLED.search(bare) else bare
    return word


def is_heading_number(word: str) -> bool:
    """Return whether a word is a number that a heading may tell a table by; years are of rows."""
    return word.isdigit() and len(word) < _YEAR_DIGITS


def name_words(column: str) -> list[str]:
    """Return the words of a column's name, without a unit in brackets behind it."""
    return table_words(_UNIT.sub(" ", column)) or table_words(column)


def same_word(word: str, other_word: str) -> bool:
    """Return whether two lower-case words are the same, whatever their endings."""
    if word == other_word or f"{min(word, other_word)}s" == max(word, other_word):
        return True
    return (
        len(word) > 3 and len(other_word) > 3 and word.isalpha() and stem(word) == stem(other_word)
    )


def best_column_name(
    words: Sequence[str], names: Sequence[str], similarity: Similarity
) -> str | None:
    """Return the column that some words name, None where that is not clear."""
    scores = sorted(
        ((column_score(words, name, similarity), name) for name in names),
        key=lambda pair: -pair[0],
    )
    if not scores or not words or scores[0][0] < LEAST_COLUMN:
        return None
    if len(scores) > 1 and scores[0][0] - scores[1][0] < LEAST_LEAD:
        return None
    return scores[0][1]


def column_score(words: Sequence[str], name: str, similarity: Similarity) -> float:
    """Return how well some words fit the name of a column.

    The mean similarity of the words to the name, and half of the converse.
    """
    names = name_words(name)
    if not names or not words:
        return 0.0
    forward = sum(name_similarity(w, name, similarity) for w in words)
    is_whole = len(names) > 1 and "".join(names) in words
    backward = sum(
        1.0 if is_whole else max(similar(w, n, similarity) for w in words) for n in names
    )
    return forward / len(words) + 0.5 * backward / len(names)


def name_similarity(word: str, name: str, similarity: Similarity) -> float:
    """Return the similarity of a word to the nearest word of a column's name."""
    names = name_words(name)
    if len(names) > 1 and word == "".join(names):
        return 1.0  # "gdpPercap", as the column has it
    return max((similar(word, name_word, similarity) for name_word in names), default=0.0)


def _are_agent_and_verb(word: str, other_word: str) -> bool:
    """Return whether one word is who does what the other says: "supervises", "supervisor"."""
    return any(
        _AGENT.search(agent) is not None
        and len(root := _AGENT.sub("", agent)) >= 3  # noqa: PLR2004
        and root in (stem(verb), stem(verb).removesuffix("e"), verb.removesuffix("e"))
        for agent, verb in ((word, other_word), (other_word, word))
    )


def similar(word: str, other_word: str, similarity: Similarity) -> float:
    """Similarity of two words: 1 for the same stem, that of their numbers, else by meaning."""
    word, other_word = whole_word(word), whole_word(other_word)
    if word == other_word:
        return 1.0
    if stem(word) == stem(other_word):
        return _INFLECTED
    forms = product({word, stem(word)}, {other_word, stem(other_word)})
    if any(are_synonyms(form, other_form) for form, other_form in forms):
        return SYNONYM
    if _are_agent_and_verb(word, other_word):
        return SAME_WORD
    if are_contrasts(word, other_word):
        return 0.0
    short, long = sorted((word, other_word), key=len)
    if word[0].isdigit() or other_word[0].isdigit():
        # "85" in a column's name is 1985 in a question.
        years = short.isdigit() and long.isdigit() and len(short) == 2 and len(long) == 4
        return SAME_WORD if years and long.endswith(short) else 0.0
    if len(short) >= 4 and long.startswith(short):
        return SAME_WORD
    return max(0.0, similarity(word, other_word))
