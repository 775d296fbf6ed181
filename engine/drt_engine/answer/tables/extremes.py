"""Rows by the order of a column: the highest, the three cheapest, which of two has more.

Knows nothing of models and libraries.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import islice, pairwise

from drt_engine.answer.tables.conditions import cells_in, negations, tokens_of
from drt_engine.answer.tables.dimensions import Degree, degrees_of
from drt_engine.answer.tables.table_question import (
    LEAST,
    NUMBERS,
    ORDINALS,
    UNITS,
    TableQuestion,
    TableTotal,
    cell_of,
    joined,
    name_cell,
    rows_of,
    written,
)
from drt_engine.answer.tables.values import Table, is_amount
from drt_engine.answer.tables.wording import (
    best_column_name,
    column_score,
    name_similarity,
    name_words,
    same_word,
    table_words,
)
from drt_engine.text.table_rows import TableRow
from drt_engine.text.words import STOP_WORDS, stem, word_set

_MOST_ROWS = 10  # "the three highest": more than that is the table itself
_HIGH, _LOW = word_set("max maximum high highest"), word_set("min minimum low lowest")
_OF_AMOUNTS = word_set("most highest greatest maximum peak top fewest least lowest minimum")
_MOST_TIED = 3  # rows that share the first place
_OR = re.compile(r"(?i),? or ")
_WHETHER = re.compile(r"(?i)\W*(?:does|do|did|has|have|had|is|are|was|were) (?P<options>.+)")
_LONGEST_OPTION = 5  # words


def compare(question: str, table: Table) -> TableTotal | None:
    """Return the row of two that has more, or less, of a column; None where it is not clear.

    "Which had more claims, Acorn or Delta?" Its cells are the compared ones, the winner's first.
    """
    if negations(tokens_of(question)):
        return None
    totals = (_compared(*options, table) for options in _two_options(question))
    return next(filter(None, totals), None)


def _compared(before: str, first: str, second: str, table: Table) -> TableTotal | None:
    """Return which of the rows ``first`` and ``second`` has more of what is asked ``before``."""
    option_names = (first, second)
    degrees, degree_words = degrees_of(table_words(before))
    rows_named = [_row_named(name, table) for name in option_names]
    pair = [row for row in rows_named if row is not None]
    if not degrees or len(pair) < 2 or pair[0] is pair[1]:
        return None
    column_words = [w for w in table_words(before) if w not in STOP_WORDS | degree_words]
    column = _column_of(degrees, column_words, table)
    if column is None:
        return None
    name, is_much = column
    cells = [next((cell for cell in row.cells if cell.column == name), None) for row in pair]
    compared = [cell for cell in cells if cell is not None]
    values = [table.value(cell) for cell in compared]
    if len(values) < 2 or any(map(math.isnan, values)) or values[0] == values[1]:
        return None
    winner = 0 if (values[0] > values[1]) == is_much else 1
    answer, loser = name_cell(pair[winner], table), name_cell(pair[1 - winner], table)
    winning, losing = compared[winner], compared[1 - winner]
    text = f"{answer.text}: {winning.text} ({loser.text}: {losing.text})"
    return TableTotal(text, (answer, winning, losing))


def _two_options(question: str) -> Iterator[tuple[str, str, str]]:
    """Yield what is before two options of a question, and both: behind a comma, or as one word.

    By the last "or" alone: one expression for all of it takes the cube of the question's length.
    """
    text = " ".join(question.split()).removesuffix("?").rstrip()
    *_, last = [None, *_OR.finditer(text)]
    if last is None or set(text[last.end() :]) & set(",:?"):
        return
    for marks in (",:", " ,:"):
        first_at = max(text.rfind(mark, 0, last.start()) for mark in marks) + 1
        before, first, second = text[:first_at], text[first_at : last.start()], text[last.end() :]
        if before and first and second:
            yield before, first, second
    # "Does Maine or Vermont have higher premiums?": where the second ends, only the rows tell.
    if match := _WHETHER.match(text, 0, last.start()):
        behind = text[last.end() :].split()
        for count in range(1, min(_LONGEST_OPTION, len(behind) - 1) + 1):
            yield " ".join(behind[count:]), match["options"], " ".join(behind[:count])


def extreme(question: TableQuestion) -> TableTotal | None:
    """Return the rows with the highest or lowest values; None for a tie that leaves some out.

    The few rows that share the first place are all of them the answer.
    """
    table, nouns = question.table, question.nouns
    words = [
        word
        for word in question.words
        if not any(name_similarity(word, name) >= LEAST for name in nouns)
        or any(same_word(word, n) for name in table.ordered for n in name_words(name))
    ]
    found = _column_of(question.degrees, words, table, context=question.context)
    if found is None:
        return None
    name, is_much = found
    if table.has_unclear_numbers(name):
        return None
    cells = [(table.value(cell), cell, row) for cell, row in cells_in(question.scope, table, name)]
    cells = [entry for entry in cells if not math.isnan(entry[0])]
    cells.sort(key=lambda entry: -entry[0] if is_much else entry[0])
    count, place = _how_many(question), _place(question)
    if place is None or (place > 1 and count > 1):
        return None
    first, stop = place - 1, place - 1 + count
    if not cells or count > _MOST_ROWS or stop > len(cells):
        return None
    values = [value for value, _, _ in cells]
    if stop == 1 and values.count(values[0]) <= _MOST_TIED:
        stop = count = values.count(values[0])
    if values[stop - 1 : stop + 1].count(values[stop - 1]) > 1 or values[first] in values[:first]:
        return None
    best = cells[first:stop]
    is_amount_asked = question.tokens[0].word in ("what", "how") and not _is_of_row(question)
    if count == 1 and not nouns and is_amount_asked:
        return TableTotal(best[0][1].text, (best[0][1], name_cell(best[0][2], table)))
    column = question.answer_column(name)
    names = [cell_of(row, column) or name_cell(row, table) for _, _, row in best]
    basis = [
        cell for pair in zip(names, (entry[1] for entry in best), strict=True) for cell in pair
    ]
    return TableTotal(joined(names), tuple(basis))


def _is_of_row(question: TableQuestion) -> bool:
    """Return whether a superlative is of a row and no amount: the longest film, the highest rain.

    It is an adjective before what the rows are called, and not before what it measures.
    """
    words = [token.word for token in question.tokens]
    measured = frozenset().union(*(degree.columns for degree in question.degrees))
    return not _OF_AMOUNTS & set(words) and any(
        before.endswith("est")
        and word not in measured
        and any(same_word(word, n) for n in question.context)
        for before, word in pairwise(words)
    )


def _column_of(
    degrees: Sequence[Degree],
    words: Sequence[str],
    table: Table,
    *,
    context: Collection[str] = (),
) -> tuple[str, bool] | None:
    """Return the column that a comparison is about, and whether its high values are wanted.

    Words of the question decide, with those of the degree where they fit several; without any, the
    dimension that the degree is of.
    """
    if words:
        fitting = [word for word in words if not _is_unit(word, table)] or list(words)
        names = [n for n in table.ordered if n != table.name_column] or list(table.ordered)
        name = best_column_name(fitting, names)
        if name is None and degrees:
            extreme = "highest" if degrees[0].is_much else "lowest"
            name = best_column_name([extreme, *fitting], names)
        if name is not None and column_score(fitting, name) >= LEAST:
            return _direction(name, degrees, context)
    candidates: dict[str, bool] = {}
    for degree in degrees:
        for name in table.ordered:
            parts = set(name_words(name))
            if parts & degree.columns:
                candidates.setdefault(name, degree.is_much)
            elif parts & degree.opposites:
                candidates.setdefault(name, not degree.is_much)
    if len(candidates) > 1:  # the hottest is of the column of what was highest
        ends = _HIGH if degrees[0].is_much else _LOW
        named = {name for name in candidates if ends & set(name_words(name))}
        candidates = {n: m for n, m in candidates.items() if n in named or len(named) != 1}
    if len(candidates) != 1 or words:
        return None
    return next(iter(candidates.items()))


def _is_unit(word: str, table: Table) -> bool:
    """Return whether a word is a unit, and of no column's name itself."""
    return word in UNITS and not any(word in name_words(name) for name in table.columns)


def _direction(
    name: str, degrees: Sequence[Degree], context: Collection[str]
) -> tuple[str, bool] | None:
    """Return a column with whether its high values are wanted; None where that cannot be told.

    What the table is called says so where its columns are months or years.
    """
    parts = {*name_words(name), *context}
    for degree in degrees:
        if parts & degree.columns or not degree.columns:
            return name, degree.is_much
        if parts & degree.opposites:
            return name, not degree.is_much
    return None


def _how_many(question: TableQuestion) -> int:
    """Return how many rows a superlative asks for: "the three highest", "top 5"."""
    for number, token in enumerate(question.tokens):
        if number in question.scope.taken:
            continue
        if token.word in NUMBERS and token.word != "one":
            return NUMBERS[token.word]
        if token.word.isdigit():
            return int(token.word)
    return 1


def _place(question: TableQuestion) -> int | None:
    """Return the place that a superlative asks for, 1 without one: "the second highest"."""
    ordinals = {
        ORDINALS[token.word]
        for number, token in enumerate(question.tokens)
        if token.word in ORDINALS and number not in question.scope.taken
    }
    return None if len(ordinals) > 1 else next(iter(ordinals), 1)


def difference(question: TableQuestion) -> TableTotal | None:
    """Return how much more one row has than another, both named in the question."""
    table = question.table
    keys = [name for name, texts in question.scope.values.items() if len(texts) == 2]
    if len(keys) != 1 or not (question.degrees or question.is_difference):
        return None
    rows = rows_of(question)
    if len(rows) != 2:
        return None
    degrees = list(question.degrees) or [Degree(True, False)]
    column = _column_of(degrees, question.words, table)
    cells = [] if column is None else [cell_of(row, column[0]) for row in rows]
    compared = [cell for cell in cells if cell is not None and is_amount(cell.text)]
    if len(compared) != 2:
        return None
    values = [table.value(cell) for cell in compared]
    return TableTotal(written(abs(values[0] - values[1])), tuple(compared))


def _row_named(words: str, table: Table) -> TableRow | None:
    """Return the one row whose name has all of some words, or of several the one with no more."""
    option_words = table_words(words)
    stems = {stem(word) for word in option_words if word not in STOP_WORDS} or set(
        option_words[-1:]
    )
    # Behind a rank or a number, the second column names the row, or a later one of text.
    for name in dict.fromkeys([*islice(table.columns, 2), table.name_column]):
        cells = [(cell, row) for cell, row in table.columns[name] if stems]
        named = [
            (table_words(cell.text), row)
            for cell, row in cells
            if stems <= {stem(word) for word in table_words(cell.text)}
        ]
        exact = [row for words_of_name, row in named if words_of_name == option_words]
        if len(named) == 1 or len(exact) == 1:
            return exact[0] if exact else named[0][1]
    return None
