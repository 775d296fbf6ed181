"""A question of a table with the roles of its words: columns, values, degrees, and asking.

Where a word has no role, the question says more than the table can. Knows nothing of models and
libraries.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from drt_engine.answer.tables.conditions import DATES, Scope, Token, scope_of, tokens_of
from drt_engine.answer.tables.dimensions import Degree, degrees_of
from drt_engine.answer.tables.values import Table
from drt_engine.answer.tables.wording import (
    ASKING,
    name_similarity,
    name_words,
    same_word,
    table_words,
)
from drt_engine.text.table_rows import Cell, TableRow
from drt_engine.text.words import STOP_WORDS, word_set

LEAST = 0.7  # similarity of a word to a column's name
SUM = re.compile(r"(?i)\b(?:sum|total|altogether|together|combined|in all)\b")
MEAN = re.compile(r"(?i)\b(?:average|mean|avg)\b")
_WHICH = re.compile(
    r"(?i)\W*(?:in |at |to |for |on )?(?:which|what)\s+(?P<nouns>.*?)\s+"
    r"(?:is|are|was|were|has|have|had|does|do|did|with|in|on|of|that|who|can|may)\b"
)
_ANYTHING = word_set("place one thing item option")
_COUNTED = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_RANKS = (
    *("first", "second", "third", "fourth", "fifth"),
    *("sixth", "seventh", "eighth", "ninth", "tenth"),
)
NUMBERS = {word: number for number, word in enumerate(_COUNTED, 1)}
ORDINALS = {word: number for number, word in enumerate(_RANKS, 1)}
_BEFORE_COUNTS = word_set("which what the top first last name list show give")
UNITS = word_set(
    """
    m km cm mm metre metres meter meters kilometre kilometres kilometer kilometers miles mile feet
    foot inch inches kg kilo kilos kilogram kilograms gram grams tons tonnes ton litres liters hour
    hours minute minutes second seconds day days week weeks month months years euro euros eur
    dollar dollars usd pound pounds gbp percent degree degrees celsius fahrenheit million billion
    points
    """
)


@dataclass(frozen=True)
class TableTotal:
    """The text of an answer over several rows, and the cells that it rests on."""

    text: str
    cells: tuple[Cell, ...]


def joined(cells: Sequence[Cell]) -> str:
    """Return the texts of cells as one."""
    separator = "; " if any("," in cell.text for cell in cells) else ", "
    return separator.join(cell.text for cell in cells)


def written(number: float) -> str:
    """Return a number as an answer has it: 2235, 15.8."""
    return f"{number:,.10g}".replace(",", "")


@dataclass(frozen=True)
class TableQuestion:
    """A question of a table: its scope, and the words that the scope does not take.

    ``words`` are of columns, without those of ``degrees``; ``numbers`` are the places of tokens
    that say how many are wanted.
    """

    text: str
    tokens: tuple[Token, ...]
    table: Table
    scope: Scope
    words: tuple[str, ...]
    degrees: tuple[Degree, ...]
    context: frozenset[str] = frozenset()

    @property
    def is_superlative(self) -> bool:
        return any(degree.is_superlative for degree in self.degrees)

    @property
    def is_difference(self) -> bool:
        return any(token.word == "difference" for token in self.tokens)

    @property
    def nouns(self) -> list[str]:
        """The columns of text or keys that the words name, in the order of the words."""
        table = self.table
        columns = [n for n in table.columns if n not in table.ordered or n == table.name_column]
        columns = list(dict.fromkeys([*columns, next(iter(table.columns))]))
        named = []
        for word in self.words:
            scores = [(name_similarity(word, name), name) for name in columns]
            best = max(scores, key=lambda pair: pair[0])
            amount = max((name_similarity(word, name) for name in table.ordered), default=0)
            if best[0] >= LEAST and best[0] >= amount and best[1] not in named:
                named.append(best[1])
        return named

    def _is_of(self, word: str, name: str, least: float) -> bool:
        return name_similarity(word, name) >= least

    def answer_column(self, measured: str | None = None) -> str:
        """Return the column of what is asked for: "which street tree" is answered by trees.

        ``measured`` is the column by which rows are ordered.
        """
        nouns = self.nouns
        match = _WHICH.match(self.text)
        question_nouns = table_words(match["nouns"]) if match else []
        columns: list[str] = list(nouns)
        if len(question_nouns) == 1 and self.tokens[1].word in ("which", "what"):  # "in which year"
            columns += self.table.columns
        for word in reversed(question_nouns):
            for name in columns:
                if word in self.words and name_similarity(word, name) >= LEAST:
                    return name
        # Not one that only tells the rows ("directed by Lee"), or that the measured one explains.
        further_columns = [
            name
            for name in nouns
            if len(self.scope.values.get(name, "")) != 1
            and not (measured and self._are_named_alike(name, measured))
        ]
        return (further_columns or [self.table.name_column])[0]

    def _are_named_alike(self, name: str, other_name: str) -> bool:
        """Return whether all words that name a column name the other one as well."""
        return all(
            self._is_of(word, other_name, LEAST)
            for word in self.words
            if self._is_of(word, name, LEAST)
        )


def parse(question: str, table: Table, context: Collection[str]) -> TableQuestion | None:
    """Return a question with the roles of its words; None where a word has none."""
    tokens = tokens_of(question)
    scope = scope_of(tokens, table)
    if not scope.is_clear:
        return None
    free = [token.word for number, token in enumerate(tokens) if number not in scope.taken]
    column_words = {word for name in table.columns for word in name_words(name)}
    degrees, degree_words = degrees_of(free, column_words)
    if not degrees and _is_by_date(free, table):
        degrees = [DATES._replace(is_much=free[-1] == "last", is_superlative=True)]
        degree_words = {free[-1]} if free[-1] == "last" else set()
    free = [word for word in free if word not in degree_words]
    written = {token.word for token in tokens if token.written.isupper()}  # "US" is no "us"
    content = [w for w in free if w not in STOP_WORDS or (w in written and w in column_words)]
    ranks = ORDINALS.keys() | {"one", "won", "last", "winner", "finished", "top"}
    counts = _row_counts(tokens, scope, degree_words)
    # "Which place has the most": what the rows are, whatever they are.
    anything = tokens[1].word if degrees and len(tokens) > 1 and tokens[1].word in _ANYTHING else ""
    words: list[str] = []
    for word in content:
        # A word of asking names a column that is written so, none that is like it ("country").
        is_column = word in column_words or (
            word not in ASKING and any(name_similarity(word, n) >= LEAST for n in table.columns)
        )
        if is_column:
            words.append(word)
        elif not (
            word in ASKING
            or word in UNITS
            or word in ranks
            or word in counts
            or word == anything
            or any(is_in_context(word, context_word) for context_word in context)
        ):
            return None
    # "mean" asks for a mean, unless the table has a column of that name.
    for pattern in (SUM, MEAN):
        if pattern.search(question):
            words = [word for word in words if not pattern.fullmatch(word)]
    return TableQuestion(
        question,
        tuple(tokens),
        table,
        scope,
        tuple(words),
        tuple(degrees),
        frozenset(context),
    )


def _is_by_date(words: Sequence[str], table: Table) -> bool:
    """Return whether words ask for the first or last by a column of dates: "Who joined first?"."""
    return words[-1:] in (["first"], ["last"]) and any(
        set(name_words(name)) & DATES.columns and name_similarity(word, name) >= LEAST
        for name in table.ordered
        for word in words[:-1]
        if word not in STOP_WORDS
    )


def is_in_context(word: str, known: str) -> bool:
    """Return whether a word of what a table is called is this one: "rain" is in "rainfall"."""
    return same_word(word, known) or (len(word) > 3 and known.startswith(word))  # noqa: PLR2004


def _row_counts(tokens: Sequence[Token], scope: Scope, degree_words: set[str]) -> set[str]:
    """Return the numbers that say how many rows are wanted: "top 5", "which two", "three highest".

    Any other number that the scope does not take restricts rows in a way that is not understood.
    """
    words = [token.word for token in tokens]
    counts = set()
    for number, word in enumerate(words):
        if number in scope.taken or not (word in NUMBERS or word.isdigit()):
            continue
        before, after = words[:number][-1:], words[number + 1 : number + 2]
        if set(before) & (_BEFORE_COUNTS | degree_words) or set(after) & degree_words:
            counts.add(word)
    return counts


def rows_of(question: TableQuestion) -> list[TableRow]:
    """Return the rows that a question is about."""
    return [row for row in question.table.rows if question.scope.has(row)]


def cell_of(row: TableRow, column: str) -> Cell | None:
    """Return the cell of a column, None where it is empty."""
    return next((cell for cell in row.cells if cell.column == column), None)


def name_cell(row: TableRow, table: Table) -> Cell:
    """Return the cell that names a row."""
    return cell_of(row, table.name_column) or row.cells[0]
