"""Answers over several rows of a table: how many, their total, their names, the highest.

Computes nothing unless every word of the question belongs to a column, to a value, to what the
document is called or to asking: "How many firms are in mining?" is counted, "How many firms closed
in mining?" is not. Knows nothing of models and libraries.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection

from drt_engine.answer.tables.conditions import cells_in
from drt_engine.answer.tables.extremes import difference, extreme
from drt_engine.answer.tables.table_question import (
    LEAST,
    MEAN,
    SUM,
    TableQuestion,
    TableTotal,
    is_in_context,
    joined,
    parse,
    rows_of,
    written,
)
from drt_engine.answer.tables.values import Table, is_amount
from drt_engine.answer.tables.wording import (
    best_column_name,
    name_similarity,
    table_words,
)
from drt_engine.text.table_rows import Cell
from drt_engine.text.words import STOP_WORDS, word_set

_LONGEST_LIST = 25  # names; a longer list is the table itself
_ROWS = word_set("row rows entry entries record records line lines")
_COUNT = re.compile(r"(?i)\W*(?:how many|(?:what is )?the number of|number of|count(?: of)?)\b")
_LISTING = word_set("which what who whose list name show")


def total(question: str, table: Table, *, context: Collection[str] = ()) -> TableTotal | None:
    """Return what is computed over rows; None where it is not clear.

    A count, a sum or a mean, the rows with the highest or lowest values, a difference of two rows,
    or the names of several rows. ``context`` are words of what the document is called.
    """
    if len(table.rows) < 2:
        return None
    parsed = parse(question, table, context)
    if parsed is None:
        return None
    words = table_words(question)
    asks_list = _LISTING & {*words[:1]} or words[1:2] == ["which"]  # "in which"
    steps: list[Callable[[TableQuestion], TableTotal | None]] = [
        *([difference] if {"how", "difference"} & {*words} else []),
        *([_computed] if SUM.search(question) or MEAN.search(question) else []),
        *([_counted] if _COUNT.match(question) else []),
        *([extreme] if parsed.is_superlative else []),
        *([_listed] if asks_list and not parsed.degrees else []),
    ]
    return next(filter(None, (step(parsed) for step in steps)), None)


def _counted(question: TableQuestion) -> TableTotal | None:
    """Return how many rows there are, or how many different values where a column repeats them."""
    if question.degrees or not _is_of_rows(question):
        return None
    if question.table.name_column in question.scope.values:
        return None  # rows that are named need no counting
    if not _are_used(question):
        return None
    rows = rows_of(question)
    is_row = _ROWS & {token.word for token in question.tokens}
    # A column of one value, "rated G", tells the rows and is not what is counted.
    nouns = [name for name in question.nouns if len(question.scope.values.get(name, "")) != 1]
    name = nouns[0] if nouns and not is_row else question.table.name_column
    cells = [cell for row in rows for cell in row.cells if cell.column == name]
    names_rows = name in (question.table.name_column, next(iter(question.table.columns)))
    is_group = bool(nouns) and question.table.groups_rows(name)
    if (is_group or not names_rows) and len({cell.text for cell in cells}) < len(cells):
        first: dict[str, Cell] = {}
        for cell in cells:
            first.setdefault(cell.text, cell)
        return TableTotal(str(len(first)), tuple(first.values()))
    # An empty cell takes no part, but its row counts.
    basis = [next((c for c in row.cells if c.column == name), row.cells[0]) for row in rows]
    if not basis:  # a count of none rests on all rows
        basis = [row.cells[0] for row in question.table.rows]
        return TableTotal("0", tuple(basis)) if question.scope.tests else None
    return TableTotal(str(len(rows)), tuple(basis))


def _are_used(question: TableQuestion) -> bool:
    """Return whether each word that names a column says what is counted, or restricts it.

    Firms "founded in Texas" are not those that have their office there.
    """
    scope = question.scope
    columns = {*question.nouns, *scope.values, *scope.tests, question.table.name_column}
    return all(
        any(name_similarity(word, name) >= LEAST for name in columns) for word in question.words
    )


def _is_of_rows(question: TableQuestion) -> bool:
    """Return whether what is counted are rows: the first noun behind "how many" names them."""
    match = _COUNT.match(question.text)
    assert match is not None
    behind = [w for w in table_words(question.text[match.end() :]) if w not in STOP_WORDS]
    if not behind:
        return False
    if behind[0] in _ROWS or any(
        is_in_context(behind[0], context_word) for context_word in question.context
    ):
        return True  # "how many rows", or what the table is called
    table = question.table
    texts = [n for n in table.columns if n not in table.ordered or n == table.name_column]
    texts.append(next(iter(table.columns)))
    amounts = [n for n in table.ordered if n not in texts]
    for noun in behind[:2]:  # the second in "how many street trees"
        best_amount = max((name_similarity(noun, n) for n in amounts), default=0.0)
        best_text = max(name_similarity(noun, n) for n in texts)
        if max(best_text, best_amount) >= LEAST:
            return best_text >= best_amount
    return False


def _computed(question: TableQuestion) -> TableTotal | None:
    """Return the sum or the mean of the one column of numbers that the words name."""
    name = _amount_column(question)
    if name is None:
        return None
    cells = [cell for cell, _ in cells_in(question.scope, question.table, name)]
    values = [question.table.value(cell) for cell in cells]
    if not cells or not all(is_amount(cell.text) for cell in cells):
        return None
    is_mean = bool(MEAN.search(question.text))
    if len(cells) < 2 or (question.degrees and not is_mean):
        return None
    result = math.fsum(values) / (len(values) if is_mean else 1)
    return TableTotal(written(result), tuple(cells))


def _amount_column(question: TableQuestion) -> str | None:
    """Return the column of numbers that the words name which name no column of text."""
    names = [name for name in question.table.ordered if name != question.table.name_column]
    nouns = question.nouns
    words = [
        word
        for word in question.words
        if max((name_similarity(word, n) for n in names), default=0.0)
        >= max((name_similarity(word, n) for n in nouns), default=LEAST)
    ]
    return best_column_name(words, names)


def _listed(question: TableQuestion) -> TableTotal | None:
    """Return the names of the rows that a question restricts itself to, or what it asks of them."""
    table, nouns = question.table, question.nouns
    keys = {table.name_column, next(iter(table.columns)), *question.scope.values}
    if not question.scope or (question.words and not nouns) or len(set(nouns[1:]) - keys) > 0:
        return None
    first_word = question.tokens[0].word
    is_person = first_word == "who"
    column = question.answer_column()
    if not nouns and not is_person and first_word not in ("which", "list"):
        return None
    values = question.scope.values
    if set(values) == {column} or len(values.get(column, "")) == 1:
        return None  # the question names what it would be answered with
    cells = cells_in(question.scope, table, column)
    first: dict[str, Cell] = {}
    for cell, _ in cells:
        first.setdefault(cell.text, cell)
    if is_person and not all(any(map(str.isalpha, text)) for text in first):
        return None  # a number is nobody
    computes = SUM.search(question.text) or MEAN.search(question.text) or question.is_difference
    if computes and any(map(is_amount, first)):
        return None  # numbers, some of which are missing, are no sum
    if not 0 < len(first) <= _LONGEST_LIST or len(rows_of(question)) == len(table.rows):
        return None
    return TableTotal(joined(list(first.values())), tuple(first.values()))
