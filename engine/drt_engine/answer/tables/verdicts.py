"""Questions of yes or no about one row of a table: "Is the lathe in service?".

The row is named, and so is a column of yes and no, or of numbers where the question asks for "any".
Knows nothing of models and libraries.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from drt_engine.answer.tables.conditions import negations, tokens_of
from drt_engine.answer.tables.lookup import best_cell
from drt_engine.answer.tables.periods import periods_fit
from drt_engine.answer.tables.row_match import named_row
from drt_engine.answer.tables.table_question import cell_of, name_cell, parse
from drt_engine.answer.tables.values import Table
from drt_engine.answer.tables.wording import SYNONYM, Similarity, name_words, similar, table_words
from drt_engine.text.table_rows import Cell, TableRow
from drt_engine.text.words import STOP_WORDS, word_set

_YES_NO = re.compile(
    r"(?i)\W*(?:is|are|was|were|does|do|did|has|have|had|can|may|will)\b(?!.*\bor\b)"
)
_ANY = re.compile(r"(?i)\b(?:any|ever)\b")
# What a question of yes or no may say besides: light verbs.
_LEAST_NAMED = 0.6  # of the words of a column's name
_LIGHT = word_set("still get gets got given already ever currently now yet available allowed any")


@dataclass(frozen=True)
class TableVerdict:
    """Yes or no, the cell that says so, and its row."""

    is_yes: bool
    cell: Cell
    row: TableRow


def verdict_of(
    question: str, table: Table, similarity: Similarity, *, context: Collection[str] = ()
) -> TableVerdict | None:
    """Return what a row's cell says of a question of yes or no; None where it is not clear.

    ``context`` are words of what the table is called.
    """
    if not _YES_NO.match(question) or negations(tokens_of(question)):
        return None
    return _of_row(question, table, similarity) or _of_value(question, table, similarity, context)


def _of_value(
    question: str, table: Table, similarity: Similarity, context: Collection[str]
) -> TableVerdict | None:
    """Return whether the one row that a question names has the value that it names, too.

    "Is Uppsala in Sweden?": every other word has to belong to the table.
    """
    asked = parse(question, table, similarity, context)
    if asked is None or asked.degrees or asked.scope.tests or len(asked.scope.values) != 2:  # noqa: PLR2004
        return None
    texts = asked.scope.values
    (column,) = texts.keys() - {table.name_column} if table.name_column in texts else ("",)
    if not column or any(len(values) != 1 for values in texts.values()):
        return None
    names = [row for row in table.rows if name_cell(row, table).text in texts[table.name_column]]
    cell = cell_of(names[0], column) if len(names) == 1 else None
    return TableVerdict(cell.text in texts[column], cell, names[0]) if cell else None


def _of_row(question: str, table: Table, similarity: Similarity) -> TableVerdict | None:
    """Return what a cell of yes or no, or of a number, says of the row that a question names."""
    match = named_row(question, table.rows, similarity)
    if match is None or match.row.cells[0] not in match.cells:
        return None
    remaining = [
        word
        for word in table_words(question)
        if word not in match.words and word not in STOP_WORDS and word not in _LIGHT
    ]
    candidates = [cell for cell in match.row.cells[1:] if _truth(cell, question, table) is not None]
    candidates = periods_fit(question, candidates)
    cell = candidates[0] if len(candidates) == 1 else None
    cell = cell or best_cell(question, remaining, candidates, similarity)
    if cell is None or not _is_named(cell, remaining, question, similarity):
        return None
    is_yes = _truth(cell, question, table)
    return None if is_yes is None else TableVerdict(is_yes, cell, match.row)


def _truth(cell: Cell, question: str, table: Table) -> bool | None:
    """Return what a cell of a column of yes and no says, or whether there are any of a number."""
    truth = table.truth(cell)
    if truth is not None:
        return truth
    value = table.value(cell)
    if _ANY.search(question) and not math.isnan(value):
        return value > 0
    return None


def _is_named(cell: Cell, remaining: Sequence[str], question: str, similarity: Similarity) -> bool:
    """Return whether a question names a cell's column, and nothing else that has a name."""
    names = [
        word for word in name_words(cell.column) if word not in STOP_WORDS and not word.isdigit()
    ]
    explained = {
        word for word in remaining if any(similar(word, n, similarity) >= SYNONYM for n in names)
    }
    matched = [n for n in names if any(similar(w, n, similarity) >= SYNONYM for w in explained)]
    # "Bug fixes" is enough of "Vulnerability & Bug Fixes", one word of two is not.
    covered = len(matched) == len(names) or (
        len(matched) > 1 and len(matched) >= _LEAST_NAMED * len(names)
    )
    written = re.findall(r"[^\W_]+", question)[1:]
    others = {word.lower() for word in written if word[0].isupper()} & set(remaining) - explained
    unexplained = [word for word in remaining if word not in explained and not word.isdigit()]
    return bool(names) and covered and not others and len(unexplained) <= 1
