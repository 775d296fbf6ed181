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
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from drt_engine.answer.tables.conditions import negations, tokens_of
from drt_engine.answer.tables.dimensions import degrees_of, measures
from drt_engine.answer.tables.wording import (
    LEAST_COLUMN,
    LEAST_LEAD,
    SAME_WORD,
    SYNONYM,
    Similarity,
    column_score,
    name_similarity,
    name_words,
    stem,
    table_words,
)
from drt_engine.text.table_rows import Cell, TableRow
from drt_engine.text.words import STOP_WORDS

_LEAST_ROW = 0.5  # of the weight of a word that one row alone has: below it no row is named
_LEAST_TEXT = 4  # words of a cell of text
_LEAST_COVERAGE = 0.45  # of a cell's weighted words that the question must have
_WRITTEN = re.compile(r"[^\W_]+")  # a word as the question has it
# "Did Lumen pay in 2010?" and "Why did it?" want a judgement or a reason, not a cell.
_NO_CELL = re.compile(
    r"(?i)\W*(?:did|do|does|is|are|was|were|has|have|had|can|may|must|should|why"
    r"|how (?:to|come|do|does|did|can|could|should|would|is|are|was|were|has|have|had))\b"
)
_NUMBER = re.compile(r"\W*\d[\d.,]* ?%?")
_RANGE = re.compile(r"\d\s*(?:\.{2,3}|\u2026)\s*\d")  # of identifiers, which is no amount
_DATE = re.compile(r"\b(?:1[5-9]|20)\d\d\b|\d[-/]\d")
# "Which carrier had 76 incidents?", "Who has 12 wins?"
_WHICH_ROW = re.compile(
    r"(?i)\W*(?:who|(?:which|what)\s+\w+)\s+(?:had|has|have|with|is|was|won|got)\b"
)
_NUMERIC = re.compile(
    r"(?i)\bhow (?:many|much|old|tall|high|large|big|heavy|long|far|wide|deep|thick|fast)\b"
)
_PERSONAL = re.compile(r"(?i)\W*(?:who|whom|whose)\b")
# What a kind of question expects of a cell: pattern, for numbers, for dates, for other text.
_EXPECTED = (
    (re.compile(r"(?i)\b(?:when|date|year|since|birthday)\b"), -0.1, 0.15, -0.3),
    (_NUMERIC, 0.12, -0.2, -0.2),
    (re.compile(r"(?i)\b(?:who|whom|where)\b"), -0.2, -0.2, 0.08),
)


@dataclass(frozen=True)
class TableAnswer:
    """The cell that answers a question, and its row, of which the question has some ``words``."""

    cell: Cell
    row: TableRow
    words: int = 0


@dataclass(frozen=True)
class _RowMatch:
    """A row with the weight of the question's words in it; ``words`` of the question it has."""

    score: float
    row: TableRow
    words: frozenset[str]
    cells: tuple[Cell, ...]


def look_up(question: str, rows: Sequence[TableRow], similarity: Similarity) -> TableAnswer | None:
    """Return the cell that ``question`` asks for, None unless one row and column clearly fit."""
    question_words = _question_words(question)
    if len(rows) < 2 or not question_words or _NO_CELL.match(question):
        return None
    if negations(tokens_of(question)):
        return None  # "not in Hull" has the words of the rows that are not meant
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
    is_named = match.row.cells[0] in match.cells
    degrees, _ = degrees_of(question_words)
    if not is_named and any(degree.is_superlative for degree in degrees):
        return None  # "the highest in Hull" may be one of many
    if not is_named:
        # The row is named by a value ("Which member has 133 wins?"): the column of that value
        # explains its own words, and what is asked for is another column or the row itself.
        remaining = [
            word
            for word in remaining
            if not any(
                name_similarity(word, name, similarity) >= SAME_WORD for name in matched_columns
            )
        ]
        if not remaining:
            return TableAnswer(match.row.cells[0], match.row, len(match.words))
    candidates = [cell for cell in match.row.cells if cell.column not in matched_columns]
    cell = _best_cell(question, remaining, candidates, similarity) or _measure(
        remaining, candidates
    )
    if cell is not None and not _may_answer(question, cell):
        return None
    if cell is None and _asks_for_row(question, match, matched_columns, similarity):
        cell = match.row.cells[0]
    if cell is None and is_named:
        cell = _text_about(remaining, match.row, question_words)
    return None if cell is None else TableAnswer(cell, match.row, len(match.words))


def _text_about(remaining: Sequence[str], row: TableRow, question_words: list[str]) -> Cell | None:
    """Return the one cell of text in a row named in full that has a word asked for.

    "Which kernel does x86-64-gnu need?" asks for the notes of that row, which no column names.
    """
    if not frozenset(table_words(row.cells[0].text)) <= frozenset(question_words):
        return None
    texts = [cell for cell in row.cells[1:] if len(table_words(cell.text)) >= _LEAST_TEXT]
    stems = {stem(word) for word in remaining}
    about = [cell for cell in texts if stems & {stem(word) for word in table_words(cell.text)}]
    return about[0] if len(about) == 1 else None


def _question_words(question: str) -> list[str]:
    """Return the content words; a stop word that is written as a name ("May") is one of them."""
    words = [word for word in table_words(question) if word not in STOP_WORDS]
    written = _WRITTEN.findall(question)
    names = (word.lower() for word in written[1:] if len(word) > 1 and word[0].isupper())
    return words + [name for name in dict.fromkeys(names) if name in STOP_WORDS]


def _measure(remaining: Sequence[str], candidates: Sequence[Cell]) -> Cell | None:
    """Return the one cell that measures what an adjective alone asks for: "How tall is it?"."""
    fitting = [
        cell
        for cell in candidates
        if len(remaining) == 1 and any(measures(w, remaining[0]) for w in name_words(cell.column))
    ]
    return fitting[0] if len(fitting) == 1 else None


def _may_answer(question: str, cell: Cell) -> bool:
    """Return whether a cell is what a question asks for: no person or place is a number."""
    if _PERSONAL.match(question):
        return re.search(r"[^\W\d_]{2}", cell.text) is not None and not _DATE.search(cell.text)
    if re.match(r"(?i)\W*where\b", question):
        return not (_NUMBER.fullmatch(cell.text) or _DATE.search(cell.text))
    has_number = re.search(r"\d", cell.text) is not None and not _RANGE.search(cell.text)
    return has_number or not _NUMERIC.search(question)


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
        name_similarity(word, name, similarity) >= SYNONYM
        for word in words_before_value[1:]
        for name in matched_columns
        if word not in STOP_WORDS
    )


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


def _best_cell(
    question: str, remaining: Sequence[str], cells: Sequence[Cell], similarity: Similarity
) -> Cell | None:
    """Return the cell whose column the remaining words name, None where it is not clear."""
    scores = sorted(
        ((_column_score(question, remaining, cell, similarity), cell) for cell in cells),
        key=lambda pair: -pair[0],
    )
    if not scores or not remaining or scores[0][0] < LEAST_COLUMN:
        return None
    if len(scores) > 1 and scores[0][0] - scores[1][0] < LEAST_LEAD:
        return None
    return scores[0][1]


def _column_score(
    question: str, remaining: Sequence[str], cell: Cell, similarity: Similarity
) -> float:
    """Return how well a column fits the remaining words, and its cell the kind of question.

    A little counts for a number, a date or a name where the question expects one.
    """
    score = column_score(remaining, cell.column, similarity)
    if not score:
        return score
    for pattern, number, date, text_score in _EXPECTED:
        if pattern.search(question):
            is_date = bool(_DATE.search(cell.text))
            score += date if is_date else number if _NUMBER.fullmatch(cell.text) else text_score
    return score
