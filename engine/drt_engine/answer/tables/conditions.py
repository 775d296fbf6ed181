"""Which rows of a table a question is about: "open invoices", "taller than 20 m", "in May".

A value of a cell that the question has word for word restricts its column, a number behind "more
than" or "before" the column that is compared. Knows nothing of models and libraries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from drt_engine.answer.tables.dimensions import Degree, degrees_of
from drt_engine.answer.tables.values import Table, comparable, is_amount, truth_of
from drt_engine.answer.tables.wording import (
    ASKING,
    best_column_name,
    name_similarity,
    same_word,
    table_words,
)
from drt_engine.text.table_rows import Cell, TableRow
from drt_engine.text.words import STOP_WORDS, stem, word_set

_LEAST = 0.7  # similarity of a word to the name of the column that it means
_LONGEST_VALUE = 8  # words; longer cells are prose
_LEAST_DATE = 10_000_000  # the number that the digits of a date are
_SHORT = 2  # letters; such a value has to be written as in the cell
_WORD = re.compile(r"\d{4}-\d\d-\d\d|\d+(?:[.,:]\d+)*|[^\W_]+")
_NUMBER = re.compile(r"\d[\d.,:]*|\d{4}-\d\d-\d\d")
_YEARS = frozenset(map(str, range(1500, 2100)))
_ABOVE = word_set("over above exceeding after since")
_BELOW = word_set("under below before until")
_DATED = word_set("before after since until")
_NEGATIONS = word_set("not no never without except excluding neither nor none cannot lack lacks")
DATES = Degree(True, False, degrees_of(["later"])[0][0].columns | word_set("age"))


@dataclass(frozen=True)
class Token:
    """A word of a question: ``word`` in lower case, as it is ``written``."""

    word: str
    written: str


@dataclass
class Scope:
    """The rows that a question is about.

    ``values`` are the values asked for by column; ``tests`` restrict columns by a comparison;
    ``taken`` are the numbers of the question's tokens that say so.
    """

    values: dict[str, set[str]] = field(default_factory=dict)
    tests: dict[str, Callable[[Cell], bool]] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)
    is_clear: bool = True

    def __bool__(self) -> bool:
        return bool(self.values or self.tests)

    def has(self, row: TableRow) -> bool:
        """Return whether a row is one of them."""
        cells = {cell.column: cell for cell in row.cells}
        return all(
            (cells[name].text if name in cells else "") in texts
            for name, texts in self.values.items()
        ) and all(name in cells and test(cells[name]) for name, test in self.tests.items())


def tokens_of(question: str) -> list[Token]:
    """Return the words and numbers of a question in order."""
    text = re.sub(r"['\u2019]s\b", "", question)
    return [Token(match[0].lower(), match[0]) for match in _WORD.finditer(text)]


def scope_of(tokens: Sequence[Token], table: Table) -> Scope:
    """Return the rows that a question restricts itself to.

    Unclear where a word fits two columns, where a negation is of no column of yes and no, and where
    one of several columns is enough ("or"). Without any restriction the scope is false, and has
    every row.
    """
    scope = Scope()
    _compare(tokens, table, scope)
    _match_values(tokens, table, scope)
    _match_names(tokens, table, scope)
    _match_truths(tokens, table, scope)
    column_words = {word for name in table.columns for word in table_words(name)}
    open_negations = {n for n in negations(tokens) if tokens[n].word not in column_words}
    is_either = any(t.word == "or" and n not in scope.taken for n, t in enumerate(tokens))
    if open_negations - scope.taken or (is_either and len({*scope.values, *scope.tests}) > 1):
        scope.is_clear = False
    return scope


def negations(tokens: Sequence[Token]) -> set[int]:
    """Return the numbers of the tokens that turn a meaning around: "not", "other than", "don't"."""
    places = set()
    words = [token.word for token in tokens]
    for at, word in enumerate(words):
        following = words[at + 1 : at + 2]
        if word == "no" and following and following[0][0].isdigit():
            continue  # "invoice no. 12"
        is_contraction = word == "t" and at > 0 and words[at - 1].endswith("n")
        is_exclusion = (word in ("other", "rather") and following == ["than"]) or (
            word == "out" and following == ["of"]
        )
        if word in _NEGATIONS or is_contraction or is_exclusion:
            places.add(at)
    return places


def _match_values(tokens: Sequence[Token], table: Table, scope: Scope) -> None:
    """Restrict columns to the values that the question has word for word, the longest first."""
    question_words = [token.word for token in tokens]
    first_words = {stem(word) for word in question_words}
    matches: dict[tuple[int, int], list[tuple[str, str]]] = {}
    for name, cells in table.columns.items():
        for value in {cell.text for cell, _ in cells}:
            value_words = _WORD.findall(value.lower())
            if not 0 < len(value_words) <= _LONGEST_VALUE:
                continue
            if stem(value_words[0]) not in first_words or truth_of(value) is not None:
                continue
            span = _phrase(tokens, value_words, value)
            if span and _is_value(tokens, span, value, name=name, table=table):
                matches.setdefault(span, []).append((name, value))
    for span in sorted(matches, key=lambda span: span[0] - span[1]):
        places = set(range(*span))
        if places & scope.taken:
            continue
        fitting = matches[span]
        names = {name for name, _ in fitting}
        if len(names) > 1:
            named = {name for name in names if _is_named(tokens, name, places)}
            names = named or names & {table.name_column}
        if len(names) != 1:
            scope.is_clear = False
            continue
        (name,) = names
        values = {v for n, v in fitting if n == name}
        if name in table.ordered and table.has_unclear_numbers(name):
            scope.is_clear = False  # "1999 (1869)" may be 1999, too
        scope.values.setdefault(name, set()).update(values)
        scope.taken |= places


def _phrase(tokens: Sequence[Token], words: Sequence[str], value: str) -> tuple[int, int] | None:
    """Return where some words are in the question, one behind the other; None if nowhere."""
    for at in range(len(tokens) - len(words) + 1):
        part = tokens[at : at + len(words)]
        if not all(same_word(t.word, w) for t, w in zip(part, words, strict=True)):
            continue
        letters = value.strip()
        is_short = len(letters) <= _SHORT or (
            len(words) == 1 and not (STOP_WORDS | ASKING).isdisjoint((words[0], part[0].word))
        )
        if is_short and not letters.isdigit() and (at == 0 or part[0].written != letters):
            continue
        return at, at + len(words)
    return None


def _is_value(
    tokens: Sequence[Token], span: tuple[int, int], value: str, *, name: str, table: Table
) -> bool:
    """Return whether words are a value: a number has to be a row's name or beside its column's."""
    if not _NUMBER.fullmatch(value.strip()) or name == next(iter(table.columns)):
        return True
    if value.strip() in _YEARS and "year" in table_words(name):
        return True
    return _is_named(tokens, name, set(range(*span)))


def _is_named(tokens: Sequence[Token], name: str, places: Collection[int]) -> bool:
    return any(
        same_word(token.word, word)
        for number, token in enumerate(tokens)
        if number not in places
        for word in table_words(name)
    )


def _match_names(tokens: Sequence[Token], table: Table, scope: Scope) -> None:
    """Restrict the column in which a capitalised word is part of one value alone."""
    for number, token in enumerate(tokens):
        if number == 0 or number in scope.taken or not token.written[0].isupper():
            continue
        if token.word in STOP_WORDS:
            continue
        hits = {
            (name, cell.text)
            for name, cells in table.columns.items()
            for cell, _ in cells
            if token.word in table_words(cell.text)
        }
        if len(hits) == 1:
            ((name, value),) = hits
            scope.values.setdefault(name, set()).add(value)
            scope.taken.add(number)


def _match_truths(tokens: Sequence[Token], table: Table, scope: Scope) -> None:
    """Restrict columns of yes and no that the question names: "huts with a winter room"."""
    for name in table.boolean:
        places = [
            next((n for n, token in enumerate(tokens) if same_word(token.word, word)), None)
            for word in _truth_words(name)
        ]
        if not places or None in places:
            continue
        numbers = {place for place in places if place is not None}
        negating = negations(tokens) & set(range(min(numbers) - 3, min(numbers)))
        is_true = not negating
        cells = table.columns[name]
        scope.values[name] = {cell.text for cell, _ in cells if table.truth(cell) is is_true}
        scope.taken |= numbers | negating


def _truth_words(name: str) -> list[str]:
    """Return the words of a column's name that a question has to have: "In service" needs one."""
    words = table_words(name)
    return [word for word in words if word not in STOP_WORDS] or words


@dataclass(frozen=True)
class _Limit:
    """A number to compare with, from the tokens ``places``; ``degree`` tells of what, if known."""

    places: set[int]
    number: float
    is_above: bool
    is_included: bool
    degrees: tuple[Degree, ...]


def _compare(tokens: Sequence[Token], table: Table, scope: Scope) -> None:
    limit = _limit(tokens)
    if limit is None or _is_of_name(limit, tokens, table):
        return
    words = [
        token.word
        for number, token in enumerate(tokens)
        if number not in limit.places and token.word not in STOP_WORDS
    ]
    name = _compared_column(limit, words, table)
    if name is None:
        scope.is_clear = False
        return
    number, is_above, is_included = limit.number, limit.is_above, limit.is_included
    # A year, against the numbers that the digits of dates are.
    if _holds_dates(table, name) and number < 10_000:
        number = number * 10_000 + (1231 if is_above != is_included else 0)

    def passes(value: float) -> bool:
        above = value > number if is_above else value < number
        return above or (is_included and value == number)

    def test(cell: Cell) -> bool:
        return passes(table.value(cell))

    if table.has_unclear_numbers(name):
        scope.is_clear = False
    scope.tests[name] = test
    scope.taken |= limit.places


def _is_of_name(limit: _Limit, tokens: Sequence[Token], table: Table) -> bool:
    """Return whether the words of a limit are a column's: "since" of "member since"."""
    limit_words = {tokens[place].word for place in limit.places}
    return any(
        limit_words & set(names)
        and any(token.word in names for token in tokens[: min(limit.places)])
        for names in (table_words(name) for name in table.columns)
    )


def _holds_dates(table: Table, name: str) -> bool:
    return all(
        table.value(cell) > _LEAST_DATE and not is_amount(cell.text)
        for cell, _ in table.columns[name]
    )


def _limit(tokens: Sequence[Token]) -> _Limit | None:
    """Return the limit that a question gives: "more than 20", "at least 5", "before 1950"."""
    limit = _plain_limit([token.word for token in tokens])
    if limit is None:
        return None
    before = min(limit.places) - 1
    if before >= 0 and tokens[before].word in ("no", "not"):  # "no more than 20" has 20
        return replace(
            limit,
            places=limit.places | {before},
            is_above=not limit.is_above,
            is_included=not limit.is_included,
        )
    return limit


def _plain_limit(words: Sequence[str]) -> _Limit | None:
    """Return the limit that words give, without a negation before it."""
    for at, word in enumerate(words):
        if not _NUMBER.fullmatch(word):
            continue
        number = comparable(word)
        before = words[max(0, at - 3) : at]
        after = words[at + 1 : at + 3]
        if before[-2:] in (["at", "least"], ["at", "most"]):
            return _Limit({at - 2, at - 1, at}, number, before[-1] == "least", True, ())
        if after in (["or", "more"], ["or", "less"], ["or", "fewer"]):
            return _Limit({at, at + 1, at + 2}, number, after[1] == "more", True, ())
        if before[-1:] == ["than"]:
            degrees, degree_words = degrees_of(before[:-1])
            if degrees:
                places = {n for n in range(max(0, at - 3), at) if words[n] in degree_words}
                return _Limit(
                    places | {at - 1, at}, number, degrees[0].is_much, False, tuple(degrees)
                )
        if before[-1:] and before[-1] in _ABOVE | _BELOW:
            is_above, is_dated = before[-1] in _ABOVE, before[-1] in _DATED
            included = before[-1] in ("since", "until")
            degrees = [DATES._replace(is_much=is_above)] if is_dated else []
            return _Limit({at - 1, at}, number, is_above, included, tuple(degrees))
    return None


def _compared_column(limit: _Limit, words: Sequence[str], table: Table) -> str | None:
    """Return the column that a limit is for: named by the question, or by what is compared."""
    if limit.number > _LEAST_DATE:  # a day is compared with the only column of days
        dated = [name for name in table.ordered if _holds_dates(table, name)]
        if len(dated) == 1:
            return dated[0]
    names = [
        name
        for name in table.ordered
        if any(name_similarity(word, name) >= _LEAST for word in words)
    ]
    if len(names) > 1 and any("date" in degree.columns for degree in limit.degrees):
        names = [name for name in names if _holds_dates(table, name)] or names
    if len(names) > 1:
        fitting = [
            word for word in words if any(name_similarity(word, name) >= _LEAST for name in names)
        ]
        best = best_column_name(fitting, names)
        names = [best] if best else names
    if not names:
        dimension = frozenset().union(*(d.columns | d.opposites for d in limit.degrees))
        names = [name for name in table.ordered if dimension & set(table_words(name))]
    return names[0] if len(names) == 1 else None


def cells_in(scope: Scope, table: Table, name: str) -> list[tuple[Cell, TableRow]]:
    """Return the cells of a column in the rows of a scope."""
    return [(cell, row) for cell, row in table.columns[name] if scope.has(row)]
