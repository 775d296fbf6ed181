"""Words of questions and of column names, and how alike they are."""

from __future__ import annotations

import re
from collections.abc import Sequence

from drt_engine.text.words import stem, word_set

LEAST_COLUMN, LEAST_LEAD = 0.5, 0.08  # score of the best column, and its lead over the next
SAME_WORD = 0.9  # similarity from which two words name the same
_INFLECTED = 0.97  # similarity of a word and the same one with another ending
_WORD = re.compile(r"\d+(?:[.,]\d+)+|[^\W_]+")
_CAMEL = re.compile(r"([a-z])([A-Z])")
_UNIT = re.compile(
    r"[(\[][^)\]]{0,60}[)\]]|\bin (?:[kcm]?m|miles|feet|inches|kg|[mk]?g|%|percent)\Z"
)
_HYPHEN = re.compile(r"(?i)\be-(?=mail)")
# Words of asking, light verbs and units, which restrict nothing.
ASKING = word_set(
    """
    how many much number count total sum average mean avg altogether together combined overall all
    list listed table file data rows row entries entry records record lines items what which had has
    have name names show tell give different distinct every per each still difference got get
    gets give gives work works working come comes came take takes took go goes going run runs serve
    serves cost costs make makes made use used leave leaves fall fell year whole according based
    belong belongs exist currently ones one live lives lived both need needs
    kind kinds type types sort sorts
    """
)
_SHORTEST_PART = 4  # letters of a word that another one begins with


def table_words(text: str) -> list[str]:
    """Return the lower-case words and numbers of a question, a column name or a cell.

    ``incidentsTotal_85`` gives "incidents", "total", "85".
    """
    return _WORD.findall(_HYPHEN.sub("e", _CAMEL.sub(r"\1 \2", text)).lower())


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


def best_column_name(words: Sequence[str], names: Sequence[str]) -> str | None:
    """Return the column that some words name, None where that is not clear."""
    scores = sorted(
        ((column_score(words, name), name) for name in names),
        key=lambda pair: -pair[0],
    )
    if not scores or not words or scores[0][0] < LEAST_COLUMN:
        return None
    if len(scores) > 1 and scores[0][0] - scores[1][0] < LEAST_LEAD:
        return None
    return scores[0][1]


def column_score(words: Sequence[str], name: str) -> float:
    """Return how well some words fit the name of a column.

    The mean similarity of the words to the name, and half of the converse.
    """
    names = name_words(name)
    if not names or not words:
        return 0.0
    forward = sum(name_similarity(w, name) for w in words)
    is_whole = len(names) > 1 and "".join(names) in words
    backward = sum(1.0 if is_whole else max(similar(w, n) for w in words) for n in names)
    return forward / len(words) + 0.5 * backward / len(names)


def name_similarity(word: str, name: str) -> float:
    """Return the similarity of a word to the nearest word of a column's name."""
    names = name_words(name)
    if len(names) > 1 and word == "".join(names):
        return 1.0  # "gdpPercap", as the column has it
    return max((similar(word, name_word) for name_word in names), default=0.0)


def similar(word: str, other_word: str) -> float:
    """Return the similarity of two words: 1 for the same, less for another form of it."""
    if word == other_word:
        return 1.0
    if stem(word) == stem(other_word):
        return _INFLECTED
    short, long = sorted((word, other_word), key=len)
    return SAME_WORD if len(short) >= _SHORTEST_PART and long.startswith(short) else 0.0
