"""Answers a question for a cell of a table: the row by its words, the column by their meaning.

A question such as "Where is the head office of Lumen Energy?" names a row word for word and its
column by a word of like meaning ("headquarters"), which the word embeddings of the model tell.
Decides only where one row and one column are clearly best; all else is left to the reader. Knows
nothing of models and libraries: similarity of words is a function that the caller gives.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from drt_engine.answer.tables.synonyms import are_synonyms
from drt_engine.text.table_rows import Cell, TableRow
from drt_engine.text.words import STOP_WORDS

# Similarity of two lower-case words, at most 1.
Similarity = Callable[[str, str], float]

_LEAST_ROW = 0.5  # of the weight of a word that one row alone has: below it no row is named
_LEAST_COVERAGE = 0.45  # of a cell's weighted words that the question must have
_LEAST_COLUMN, _LEAST_LEAD = 0.5, 0.08  # score of the best column, and its lead over the next
_LEAST_MEANING = 0.25  # similarity from which a word may mean another
_SAME_WORD = 0.9  # similarity from which two words name the same
_SYNONYM = 0.75  # similarity of two words for one column, below that of the same word
_WORD = re.compile(r"\d+(?:[.,]\d+)+|[^\W_]+")
_WRITTEN = re.compile(r"[^\W_]+")  # a word as the question has it
_CAMEL = re.compile(r"([a-z])([A-Z])")
# "Did Lumen pay in 2010?" and "Why did it?" want a judgement or a reason, not a cell.
_NO_CELL = re.compile(
    r"(?i)\W*(?:did|do|does|is|are|was|were|has|have|had|can|may|must|should|why"
    r"|how (?!many|much|old|high|large|big|heavy|long|far))\b"
)
_NUMBER = re.compile(r"\W*\d[\d.,]* ?%?")
_DATE = re.compile(r"\b(?:1[5-9]|20)\d\d\b|\d[-/]\d")
# "Which carrier had 76 incidents?", "Who has 12 wins?"
_WHICH_ROW = re.compile(
    r"(?i)\W*(?:who|(?:which|what)\s+\w+)\s+(?:had|has|have|with|is|was|won|got)\b"
)
_MOST = re.compile(r"(?i)\b(?:most|highest|largest|biggest|greatest|maximum|longest|heaviest)\b")
_LEAST = re.compile(r"(?i)\b(?:fewest|least|lowest|smallest|minimum|shortest|lightest)\b")
# What a kind of question expects of a cell: pattern, for numbers, for dates, for other text.
_EXPECTED = (
    (re.compile(r"(?i)\b(?:when|date|year|since|birthday)\b"), -0.1, 0.15, -0.3),
    (re.compile(r"(?i)\bhow (?:many|much|old|high|large|big|heavy|long)\b"), 0.12, -0.2, -0.2),
    (re.compile(r"(?i)\b(?:who|whom|where)\b"), -0.2, -0.2, 0.08),
)


@dataclass(frozen=True)
class TableAnswer:
    """The cell that answers a question, and its row."""

    cell: Cell
    row: TableRow


@dataclass(frozen=True)
class _RowMatch:
    """A row with the weight of the question's words in it; ``words`` of the question it has."""

    score: float
    row: TableRow
    words: frozenset[str]
    cells: tuple[Cell, ...]


def look_up(question: str, rows: Sequence[TableRow], similarity: Similarity) -> TableAnswer | None:
    """Return the cell that ``question`` asks for, None unless one row and column clearly fit."""
    question_words = [word for word in table_words(question) if word not in STOP_WORDS]
    if len(rows) < 2 or not question_words or _NO_CELL.match(question):
        return None
    if _MOST.search(question) or _LEAST.search(question):
        return _extreme(question, question_words, rows, similarity)
    matches = _match_rows(question_words, rows)
    if matches[0].score <= _LEAST_ROW * math.log1p(len(rows)):
        return None  # the question names no row
    if len(matches) > 1 and matches[1].score >= matches[0].score:
        return None  # two rows fit equally well
    match = matches[0]
    remaining = [word for word in question_words if word not in match.words]
    matched_columns = {cell.column for cell in match.cells}
    if _names_another_row(question, match, rows):
        return None
    if match.row.cells[0] not in match.cells:
        # The row is named by a value ("Which member has 133 wins?"): the column of that value
        # explains its own words, and what is asked for is another column or the row itself.
        remaining = [
            word
            for word in remaining
            if not any(
                name_similarity(word, name, similarity) >= _SAME_WORD for name in matched_columns
            )
        ]
        if not remaining:
            return TableAnswer(match.row.cells[0], match.row)
    candidates = [cell for cell in match.row.cells if cell.column not in matched_columns]
    cell = _best_cell(question, remaining, candidates, similarity)
    if cell is None and _asks_for_row(question, match, matched_columns, similarity):
        cell = match.row.cells[0]
    return None if cell is None else TableAnswer(cell, match.row)


def _asks_for_row(
    question: str, match: _RowMatch, matched_columns: Collection[str], similarity: Similarity
) -> bool:
    """Return whether a value names the row and the question gives its column: "had 76 wins".

    What it asks for is then the row, whatever it calls that: "Which carrier had 76 incidents?".
    """
    if not _WHICH_ROW.match(question) or match.row.cells[0] in match.cells:
        return False
    words_before_value = [word for word in table_words(question) if word not in match.words]
    return len(matched_columns) == 1 and any(
        name_similarity(word, name, similarity) >= _SYNONYM
        for word in words_before_value[1:]
        for name in matched_columns
        if word not in STOP_WORDS
    )


def table_words(text: str) -> list[str]:
    """Return the lower-case words and numbers of a question, a column name or a cell.

    ``incidentsTotal_85`` gives "incidents", "total", "85".
    """
    return _WORD.findall(_CAMEL.sub(r"\1 \2", text).lower())


def stem(word: str) -> str:
    """Return a word without its commonest English endings, for comparing two words."""
    for ending in ("ing", "ies", "es", "s", "ed", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def _match_rows(question_words: Sequence[str], rows: Sequence[TableRow]) -> list[_RowMatch]:
    """Return all rows, best first; words weigh by how few rows have them."""
    cell_words = [[frozenset(table_words(cell.text)) for cell in row.cells] for row in rows]
    row_counts = Counter(word for cells in cell_words for word in frozenset[str]().union(*cells))
    weights = {word: math.log1p(len(rows) / count) for word, count in row_counts.items()}
    asked_words = frozenset(question_words)
    asked_stems = {stem(word) for word in asked_words}
    matches = [
        _match_row(row, cells, asked_words, asked_stems, weights, len(rows))
        for row, cells in zip(rows, cell_words, strict=True)
    ]
    return sorted(matches, key=lambda match: -match.score)


def _match_row(
    row: TableRow,
    cell_words: Sequence[frozenset[str]],
    asked_words: frozenset[str],
    asked_stems: set[str],
    weights: dict[str, float],
    num_rows: int,
) -> _RowMatch:
    score = 0.0
    matched_words: set[str] = set()
    matched_cells: list[Cell] = []
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
        total = sum(weights[word] for word in words)
        weight = sum(weights[word] for word in hits)
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
    return _RowMatch(score, row, frozenset(matched_words), tuple(matched_cells))


def _names_another_row(question: str, match: _RowMatch, rows: Sequence[TableRow]) -> bool:
    """Return whether the question names more than the matched row has.

    "Delta Foods" is not the row of "Delta Media". A word beside a matched one is part of its
    name where it begins with a capital letter or is in the same columns of other rows.
    """
    columns = {cell.column for cell in match.cells}
    in_row = {
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


def best_column(words: Sequence[str], cells: Sequence[Cell], similarity: Similarity) -> Cell | None:
    """Return the cell whose column some words name, None where that is not clear."""
    return _best_cell("", words, cells, similarity)


def _best_cell(
    question: str, remaining: Sequence[str], cells: Sequence[Cell], similarity: Similarity
) -> Cell | None:
    """Return the cell whose column the remaining words name, None where it is not clear."""
    scores = sorted(
        ((_column_score(question, remaining, cell, similarity), cell) for cell in cells),
        key=lambda pair: -pair[0],
    )
    if not scores or not remaining or scores[0][0] < _LEAST_COLUMN:
        return None
    if len(scores) > 1 and scores[0][0] - scores[1][0] < _LEAST_LEAD:
        return None
    return scores[0][1]


def _column_score(
    question: str, remaining: Sequence[str], cell: Cell, similarity: Similarity
) -> float:
    """Return how well a column fits the remaining words, and its cell the kind of question.

    Mean similarity of the words to the column's name, half of the converse, and a little for a
    number, a date or a name where the question expects one.
    """
    names = table_words(cell.column)
    if not names or not remaining:
        return 0.0
    forward = sum(max(_similar(w, n, similarity) for n in names) for w in remaining)
    backward = sum(max(_similar(w, n, similarity) for w in remaining) for n in names)
    score = forward / len(remaining) + 0.5 * backward / len(names)
    for pattern, number, date, text_score in _EXPECTED:
        if pattern.search(question):
            is_date = bool(_DATE.search(cell.text))
            score += date if is_date else number if _NUMBER.fullmatch(cell.text) else text_score
    return score


def _extreme(
    question: str, question_words: Sequence[str], rows: Sequence[TableRow], similarity: Similarity
) -> TableAnswer | None:
    """Return the first cell of the row with the highest or lowest value of the named column.

    None for both, for a tie, and where a word is neither of the column nor of what rows are called:
    it may ask for some of the rows only.
    """
    wants_most, wants_least = _MOST.search(question), _LEAST.search(question)
    if bool(wants_most) == bool(wants_least):
        return None
    extreme = (wants_most or wants_least or question_words)[0].lower()
    query_words = [word for word in question_words if word != extreme]
    numbers = [cell for cell in rows[0].cells[1:] if _all_numbers(cell.column, rows)]
    # The word for the rows themselves ("which company") names no column of numbers.
    remaining = [
        word
        for word in query_words
        if name_similarity(word, rows[0].cells[0].column, similarity)
        < max((name_similarity(word, cell.column, similarity) for cell in numbers), default=0.0)
    ]
    cell = _best_cell("", remaining, numbers, similarity)
    if cell is None or any(
        max(
            name_similarity(word, name, similarity)
            for name in (cell.column, rows[0].cells[0].column)
        )
        < _LEAST_MEANING
        for word in query_words
    ):
        return None
    values = [
        (number_of(value.text), row)
        for row in rows
        for value in row.cells
        if value.column == cell.column
    ]
    best = (max if wants_most else min)(value for value, _ in values)
    holders = [row for value, row in values if value == best]
    return TableAnswer(holders[0].cells[0], holders[0]) if len(holders) == 1 else None


def number_of(text: str) -> float:
    """Return the number in a cell, ``nan`` where there is none: "$1,234.5" is 1234.5."""
    match = re.search(r"-?(?:\d[\d,]*)?\.?\d+", text)
    return float(match[0].replace(",", "")) if match else math.nan


def _all_numbers(column: str, rows: Sequence[TableRow]) -> bool:
    cells = [cell for row in rows for cell in row.cells if cell.column == column]
    return all(_NUMBER.fullmatch(cell.text) for cell in cells)


def name_similarity(word: str, name: str, similarity: Similarity) -> float:
    """Return the similarity of a word to the nearest word of a column's name."""
    return max(
        (_similar(word, name_word, similarity) for name_word in table_words(name)), default=0.0
    )


def _similar(word: str, other_word: str, similarity: Similarity) -> float:
    """Similarity of two words: 1 for the same stem, that of their numbers, else by meaning."""
    if word == other_word or stem(word) == stem(other_word):
        return 1.0
    if are_synonyms(word, other_word) or are_synonyms(stem(word), stem(other_word)):
        return _SYNONYM
    short, long = sorted((word, other_word), key=len)
    if word[0].isdigit() or other_word[0].isdigit():
        # "85" in a column's name is 1985 in a question.
        years = short.isdigit() and long.isdigit() and len(short) == 2 and len(long) == 4
        return _SAME_WORD if years and long.endswith(short) else 0.0
    if len(short) >= 4 and long.startswith(short):
        return _SAME_WORD
    return max(0.0, similarity(word, other_word))
