"""Answers over several rows of a table: which of two has more, how many there are, their total.

Computes nothing unless every word of the question belongs to a column, to a value or to asking:
"How many firms are in mining?" is counted, "How many firms closed in mining?" is not. Knows nothing
of models and libraries.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from drt_engine.answer.tables.lookup import (
    Similarity,
    best_column,
    name_similarity,
    number_of,
    stem,
    table_words,
)
from drt_engine.text.table_rows import Cell, TableRow
from drt_engine.text.words import STOP_WORDS, word_set

_LEAST = 0.7  # similarity of a word to a column's name
_OR = re.compile(r"(?i)(?P<before>.*[,:\s])(?P<first>[^,:]+?),?\s+or\s+(?P<second>[^,:?]+)\??\s*\Z")
_MORE = re.compile(r"(?i)\b(?:more|higher|larger|bigger|greater|later|longer|heavier|younger)\b")
_LESS = re.compile(r"(?i)\b(?:fewer|less|lower|smaller|earlier|shorter|lighter|older)\b")
_COUNT = re.compile(r"(?i)\W*how many\b|\W*(?:the )?number of\b|\W*count\b")
_SUM = re.compile(r"(?i)\b(?:sum|total|altogether|combined)\b")
_MEAN = re.compile(r"(?i)\b(?:average|mean)\b")
_ASKING = word_set(
    """
    how many much number count total sum average mean altogether combined overall all list listed
    table file data rows row entries entry records record lines items what which had has
    """
)
_ISO_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)\Z")


@dataclass(frozen=True)
class TableTotal:
    """The text of an answer over several rows, and the cells that it rests on."""

    text: str
    cells: tuple[Cell, ...]


def compare(question: str, rows: Sequence[TableRow], similarity: Similarity) -> TableTotal | None:
    """Return the row of two that has more, or less, of a column; None where it is not clear.

    "Which had more claims, Acorn or Delta?" Its cells are the compared ones, the winner's first.
    """
    match = _OR.match(question)
    more, less = _MORE.search(question), _LESS.search(question)
    if match is None or bool(more) == bool(less):
        return None
    rows_named = [_row_named(match[option], rows) for option in ("first", "second")]
    pair = [row for row in rows_named if row is not None]
    if len(pair) < 2 or pair[0] is pair[1]:
        return None
    comparative = (more or less or match)[0].lower()
    asked = [word for word in table_words(match["before"]) if word not in STOP_WORDS]
    asked = [word for word in asked if word != comparative]
    cells = [best_column(asked, row.cells[1:], similarity) for row in pair]
    compared = [cell for cell in cells if cell is not None]
    if len(compared) < 2 or compared[0].column != compared[1].column:
        return None
    values = [_value(cell.text) for cell in compared]
    if any(map(math.isnan, values)) or values[0] == values[1]:
        return None
    winner = 0 if (values[0] > values[1]) == bool(more) else 1
    name = pair[winner].cells[0]
    return TableTotal(name.text, (name, compared[winner], compared[1 - winner]))


def total(question: str, rows: Sequence[TableRow], similarity: Similarity) -> TableTotal | None:
    """Return a count of rows, or the sum or mean of a column; None where it is not clear."""
    asked = {word for word in table_words(question) if word not in STOP_WORDS} - _ASKING
    if len(rows) < 2 or len({row.cells[0].column for row in rows}) > 1:  # more than one table
        return None
    if _SUM.search(question) or _MEAN.search(question):
        return _computed(question, asked, rows, similarity)
    return _counted(asked, rows, similarity) if _COUNT.match(question) else None


def _counted(
    asked: set[str], rows: Sequence[TableRow], similarity: Similarity
) -> TableTotal | None:
    """Return how many rows there are, or how many have one value in one column."""
    row_name = rows[0].cells[0].column
    left = {word for word in asked if name_similarity(word, row_name, similarity) < _LEAST}
    if left == asked:
        return None  # what is counted are not the rows
    if not left:
        return TableTotal(str(len(rows)), tuple(row.cells[0] for row in rows))
    columns = {cell.column for row in rows for cell in row.cells[1:]}
    counts = []
    for column in columns:
        value_words = {word for word in left if name_similarity(word, column, similarity) < _LEAST}
        cells = [cell for row in rows for cell in row.cells if cell.column == column]
        hits = [cell for cell in cells if value_words and set(_content(cell.text)) == value_words]
        if hits:
            counts.append(hits)
    return TableTotal(str(len(counts[0])), tuple(counts[0])) if len(counts) == 1 else None


def _computed(
    question: str, asked: set[str], rows: Sequence[TableRow], similarity: Similarity
) -> TableTotal | None:
    """Return the sum or the mean of the one column of numbers that all words are of."""
    row_name = rows[0].cells[0].column
    words = [word for word in asked if name_similarity(word, row_name, similarity) < _LEAST]
    fitting = [
        column
        for column in dict.fromkeys(cell.column for cell in rows[0].cells[1:])
        if words and all(name_similarity(word, column, similarity) >= _LEAST for word in words)
    ]
    if len(fitting) != 1:
        return None
    cells = [cell for row in rows for cell in row.cells if cell.column == fitting[0]]
    values = [number_of(cell.text) for cell in cells]
    if any(map(math.isnan, values)) or any(_ISO_DATE.match(cell.text) for cell in cells):
        return None
    result = math.fsum(values) / (len(values) if _MEAN.search(question) else 1)
    return TableTotal(f"{result:,.10g}".replace(",", ""), tuple(cells))


def _row_named(words: str, rows: Sequence[TableRow]) -> TableRow | None:
    """Return the one row whose first cell has all of some words; None without or with several."""
    stems = {stem(word) for word in table_words(words) if word not in STOP_WORDS}
    named = [
        row for row in rows if stems and stems <= {stem(w) for w in table_words(row.cells[0].text)}
    ]
    return named[0] if len(named) == 1 else None


def _content(text: str) -> list[str]:
    return [word for word in table_words(text) if word not in STOP_WORDS]


def _value(text: str) -> float:
    """Return a number, or a date as the number that its digits are; ``nan`` for other text."""
    if _ISO_DATE.match(text):
        return float(text.replace("-", ""))
    return number_of(text)
