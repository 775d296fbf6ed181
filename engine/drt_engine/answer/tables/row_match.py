"""Which one row of a table a question names, by the words that its cells have.

Names that differ are no match: "the red candle" is no indigo candle, and the medium tent no medium
sleeping bag. Knows nothing of models and libraries.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from drt_engine.answer.tables.wording import (
    SYNONYM,
    Similarity,
    name_similarity,
    stem,
    table_words,
)
from drt_engine.text.table_rows import Cell, TableRow
from drt_engine.text.words import STOP_WORDS, word_set

_LEAST_ROW = 0.5  # of the weight of a word that one row alone has: below it no row is named
_MOST_NAME_WORDS = 3  # of a cell that names something; of a longer one, a word says little
_LEAST_COVERAGE = 0.45  # of a cell's weighted words that the question must have
_OTHER_FORM = 0.9  # of the weight of a word whose form the question has
# Words that order rows, and name none that has other words, too.
_RANKS = word_set(
    "first second third fourth fifth last latest earliest oldest newest youngest biggest largest"
    " smallest highest lowest best worst top most least final"
)
_WRITTEN = re.compile(r"[^\W_]+")  # a word as the question has it
_DATE = re.compile(r"\b(?:\d{1,4}(?:-\d\d?-|/\d\d?/)\d{1,4}|\d\d?:\d\d(?::\d\d)?)\b")
_NUMBER = re.compile(r"\W*\d[\d.,]* ?%?")


@dataclass(frozen=True)
class RowMatch:
    """A row with the weight of the question's words in it; ``words`` of the question it has.

    ``is_whole`` says that all words of a cell are among them.
    """

    score: float
    row: TableRow
    words: frozenset[str]
    cells: tuple[Cell, ...]
    is_whole: bool = False


def named_row(
    question: str,
    rows: Sequence[TableRow],
    similarity: Similarity,
    context: Collection[str] = (),
) -> RowMatch | None:
    """Return the one row that a question names; None where there is none, or several.

    ``context`` are words of what the table is called, which name no row: "Debian 7" is "7".
    """
    asked_words = question_words(question)
    if len(rows) < 2 or not asked_words:
        return None
    matches = _match_rows(asked_words, rows)
    if matches[0].score <= _LEAST_ROW * math.log1p(len(rows)):
        return None  # the question names no row
    if (
        len(matches) > 1
        and matches[1].score >= matches[0].score
        and (matches[1].is_whole or not matches[0].is_whole)
    ):
        return None  # two rows fit equally well; "Torino" alone is not "Torino (estate)"
    match = matches[0]
    if match.words <= _RANKS and not any(
        set(table_words(cell.text)) <= _RANKS for cell in match.cells
    ):
        return None  # "founded first" is no FirstEnergy
    remaining = [word for word in asked_words if word not in match.words]
    is_another = (
        _has_another_date(question, match)
        or _names_another_row(question, match, rows, context)
        or _has_value_of_others(match, question, rows, similarity)
        or _names_more_than(match, question, remaining, similarity)
    )
    return None if is_another else match


def question_words(question: str) -> list[str]:
    """Return the content words; a stop word that is written as a name ("May") is one of them."""
    words = [word for word in table_words(question) if word not in STOP_WORDS]
    written = _WRITTEN.findall(question)
    names = (word.lower() for word in written[1:] if len(word) > 1 and word[0].isupper())
    return words + [name for name in dict.fromkeys(names) if name in STOP_WORDS]


def _match_rows(question_words: Sequence[str], rows: Sequence[TableRow]) -> list[RowMatch]:
    """Return all rows, best first; words weigh by how few rows have them."""
    cell_words = [[frozenset(table_words(cell.text)) for cell in row.cells] for row in rows]
    row_counts = Counter(word for cells in cell_words for word in frozenset[str]().union(*cells))
    weights = {word: math.log1p(len(rows) / count) for word, count in row_counts.items()}
    asked_words = frozenset(question_words)
    asked_stems = {stem(word): word for word in asked_words}
    matches = [
        _match_row(row, cells, asked_words, asked_stems, weights, len(rows))
        for row, cells in zip(rows, cell_words, strict=True)
    ]
    return sorted(matches, key=lambda match: (-match.score, not match.is_whole))


def _match_row(
    row: TableRow,
    cell_words: Sequence[frozenset[str]],
    asked_words: frozenset[str],
    asked_stems: Mapping[str, str],
    weights: dict[str, float],
    num_rows: int,
) -> RowMatch:
    score = 0.0
    matched_words: set[str] = set()
    matched_cells: list[Cell] = []
    named: set[str] = set()  # words of the row's name that the question has
    is_whole = False
    for cell, words in zip(row.cells, cell_words, strict=True):
        words = words - STOP_WORDS or words
        hits = {
            word
            for word in words
            if word in asked_words
            or (len(word) > 3 and word.isalpha() and stem(word) in asked_stems)
        }
        if not hits:
            continue
        if hits <= named:
            continue  # an address that has the name in it
        total = sum(weights[word] for word in words)
        weight = sum(_weight(word, asked_words, asked_stems, weights) for word in hits)
        coverage = weight / total
        if _NUMBER.fullmatch(cell.text) and coverage < 1:
            continue
        # A rare word names its row even where its cell has many more words.
        if coverage < _LEAST_COVERAGE and weight < 0.8 * math.log1p(num_rows):
            continue
        short_number = len(cell.text) < 3 and _NUMBER.fullmatch(cell.text)
        score += weight * min(1.0, coverage + 0.3) * (0.6 if short_number else 1.0)
        stems = {stem(word) for word in hits}
        matched_words |= {word for word in asked_words if word in hits or stem(word) in stems}
        matched_cells.append(cell)
        is_whole = is_whole or (len(hits) > 1 and hits == words)
        if cell is row.cells[0]:
            named = hits
    return RowMatch(score, row, frozenset(matched_words), tuple(matched_cells), is_whole)


def _weight(
    word: str,
    asked_words: frozenset[str],
    asked_stems: Mapping[str, str],
    weights: dict[str, float],
) -> float:
    """Return the weight of a word in a row: less where it is another form of one in the table.

    "Alien" is no more the row "Aliens" than "Alien".
    """
    if word in asked_words or (asked := asked_stems[stem(word)]) not in weights:
        return weights[word]
    return _OTHER_FORM * min(weights[word], weights[asked])


def _has_another_date(question: str, match: RowMatch) -> bool:
    """Return whether a question has a date or a time, and the row another one and not that."""
    dates = set(_DATE.findall(question))
    in_row = {date for cell in match.row.cells for date in _DATE.findall(cell.text)}
    forms = {re.sub(r"\d", "", date) for date in dates}
    alike = {date for date in in_row if re.sub(r"\d", "", date) in forms}
    return bool(alike) and not dates & alike


def _names_another_row(
    question: str, match: RowMatch, rows: Sequence[TableRow], context: Collection[str]
) -> bool:
    """Return whether the question names more than the matched row has.

    "Delta Foods" is not the row of "Delta Media". A word beside a matched one is part of its
    name where it begins with a capital letter or is in the same columns of other rows.
    """
    columns = {cell.column for cell in match.cells}
    in_row = {*context} | {
        word for cell in match.row.cells for word in table_words(f"{cell.column} {cell.text}")
    }
    in_columns = {
        word
        for row in rows
        for cell in row.cells
        if cell.column in columns
        for word in table_words(cell.text)
    }
    written = _WRITTEN.findall(question)
    for first, second in pairwise(written):
        for word, neighbour in ((first, second), (second, first)):
            lower = word.lower()
            if neighbour.lower() not in match.words or lower in STOP_WORDS or lower in in_row:
                continue
            if lower in in_columns or (word[0].isupper() and word is not written[0]):
                return True
    return False


def _has_value_of_others(
    match: RowMatch, question: str, rows: Sequence[TableRow], similarity: Similarity
) -> bool:
    """Return whether a word beside one of the row's is in short cells of other rows alone.

    "The medium tent" is no medium sleeping bag. What a column is called explains a word.
    """
    in_row = {stem(word) for cell in match.row.cells for word in table_words(cell.text)}
    columns = {cell.column for other in rows for cell in other.cells}
    beside = {
        word.lower()
        for first, second in pairwise(_WRITTEN.findall(question))
        for word, neighbour in ((first, second), (second, first))
        if neighbour.lower() in match.words and word.lower() not in STOP_WORDS
    }
    open_stems = {
        stem(word)
        for word in beside
        if len(word) > 2  # noqa: PLR2004
        and stem(word) not in in_row
        and not any(name_similarity(word, name, similarity) >= SYNONYM for name in columns)
    }
    return bool(open_stems) and any(
        stem(word) in open_stems
        for other in rows
        for cell in other.cells
        if len(words := table_words(cell.text)) <= _MOST_NAME_WORDS
        for word in words
    )


def _names_more_than(
    match: RowMatch, question: str, remaining: Sequence[str], similarity: Similarity
) -> bool:
    """Return whether a part of a row's name has a word beside it that nothing explains.

    "The red candle" is no indigo candle, whatever other candles there are.
    """
    matched_stems = {stem(word) for word in match.words}
    names = [
        {stem(word) for word in table_words(cell.text) if word not in STOP_WORDS}
        for cell in match.cells
        if cell is match.row.cells[0] or len(table_words(cell.text)) <= _MOST_NAME_WORDS
    ]
    name_stems = {word for name in names if not name <= matched_stems for word in name}
    if not name_stems:
        return False
    open_words = {
        word
        for word in remaining
        if not any(
            name_similarity(word, cell.column, similarity) >= SYNONYM for cell in match.row.cells
        )
    }
    # A word in front of the name, or behind a name that begins with a capital letter.
    return any(
        (first.lower() in open_words and stem(second.lower()) in name_stems)
        or (
            second.lower() in open_words
            and second[0].isupper()
            and stem(first.lower()) in name_stems
        )
        for first, second in pairwise(_WRITTEN.findall(question))
    )
