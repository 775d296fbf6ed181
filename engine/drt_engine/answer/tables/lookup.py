"""Answers a question for a cell of a table: the row by its words, the column by their meaning.

A question such as "Where is the head office of Lumen Energy?" names a row word for word and its
column by a word of like meaning ("headquarters"), which the word embeddings of the model tell.
Decides only where one row and one column are clearly best; all else is left to the reader. Knows
nothing of models and libraries: similarity of words is a function that the caller gives.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from drt_engine.answer.tables.conditions import negations, tokens_of
from drt_engine.answer.tables.dimensions import degrees_of, measures
from drt_engine.answer.tables.periods import periods_fit
from drt_engine.answer.tables.row_match import RowMatch, named_row, question_words
from drt_engine.answer.tables.values import is_price
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
from drt_engine.text.words import STOP_WORDS, word_set

_LEAST_TEXT = 4  # words of a cell of text
_LONGEST_VALUE, _LEAST_OF_VALUE = 12, 0.25  # words of a cell, and the part of them that names it
# "Did Lumen pay in 2010?" and "Why did it?" want a judgement or a reason, not a cell.
_NO_CELL = re.compile(
    r"(?i)\W*(?:did|do|does|is|are|was|were|has|have|had|can|may|must|should|why"
    r"|how (?:to|come|do|does|did|can|could|should|would|is|are|was|were|has|have|had))\b"
)
_NUMBER = re.compile(r"\W*\d[\d.,]* ?%?")
_RANGE = re.compile(r"\d\s*(?:\.{2,3}|\u2026)\s*\d")  # of identifiers, which is no amount
_OF_SEVERAL = re.compile(
    r"(?i)\band\b.{0,300}\b(?:together|altogether|combined|in (?:total|all))\b|\bboth\b"
)
_OR = re.compile(r"(?i)\bor\b")
_DATE = re.compile(r"\b(?:1[5-9]|20)\d\d\b|\d[-/]\d")
# "Which carrier had 76 incidents?", "Who has 12 wins?"
_WHICH_ROW = re.compile(
    r"(?i)\W*(?:who|(?:which|what)\s+\w+)\s+(?:had|has|have|with|is|was|won|got)\b"
)
_NUMERIC = re.compile(
    r"(?i)\bhow (?:many|much|old|tall|high|large|big|heavy|long|far|wide|deep|thick|fast)\b"
)
_MEASURE_OF = re.compile(
    r"(?i)\b(area|size|height|length|width|depth|weight|mass|age|speed|distance|duration|volume"
    r"|temperature|population) of\b"
)
_HOW_MANY = re.compile(r"(?i)\W*how many\b")
_HOW_MUCH = re.compile(r"(?i)\bhow much (?:is|are|was|were|do|does|did)\b|\b(?:price|costs?)\b")
_LIGHT = word_set("much take takes")  # of asking
_PRICES = word_set("price prices cost costs fee fare rent charge")
_PLACES = word_set(
    "room office place location venue city town country address site hall building seat desk"
)
_STAYING = word_set(
    "held located situated sit sits found kept stored live lives based stand stands happen happens"
    " take takes work works meet meets"
)
_GOALS, _GOING = word_set("to destination"), word_set("go goes lead leads run runs")
_WHEN = re.compile(r"(?i)\W*when\b")
_PERSONAL = re.compile(r"(?i)\W*(?:who|whom|whose)\b")
# What a kind of question expects of a cell: pattern, for numbers, for dates, for other text.
_EXPECTED = (
    (re.compile(r"(?i)\b(?:when|date|year|since|birthday)\b"), -0.1, 0.15, -0.3),
    (_NUMERIC, 0.12, -0.2, -0.2),
    (re.compile(r"(?i)\bletters?\b"), -0.6, -0.6, 0.1),
    (re.compile(r"(?i)\b(?:who|whom|where)\b"), -0.2, -0.2, 0.08),
)


@dataclass(frozen=True)
class TableAnswer:
    """The cell that answers a question, and its row, of which the question has some ``words``."""

    cell: Cell
    row: TableRow
    words: int = 0


def look_up(
    question: str,
    rows: Sequence[TableRow],
    similarity: Similarity,
    *,
    context: Collection[str] = (),
) -> TableAnswer | None:
    """Return the cell that ``question`` asks for, None unless one row and column clearly fit.

    ``context`` are words of what the table is called.
    """
    asked_words = question_words(question)
    if len(rows) < 2 or not asked_words or _NO_CELL.match(question):
        return None
    if negations(tokens_of(question)):
        return None  # "not in Hull" has the words of the rows that are not meant
    degrees, _ = degrees_of(asked_words)
    if _OF_SEVERAL.search(question) or _is_of_two(question):
        return None  # one cell is no sum
    match = named_row(question, rows, similarity, context)
    if match is None:
        return None
    remaining = [word for word in asked_words if word not in match.words]
    if _has_other_number(remaining, match.row):
        return None
    matched_columns = {cell.column for cell in match.cells}
    is_named = match.row.cells[0] in match.cells
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
            if _is_prose(match):
                return None
            return TableAnswer(match.row.cells[0], match.row, len(match.words))
    candidates = [cell for cell in match.row.cells if cell.column not in matched_columns]
    # What a question calls the row names no other column: "line 14".
    others = [
        word
        for word in remaining
        if word not in _LIGHT
        and not any(name_similarity(word, n, similarity) >= SAME_WORD for n in matched_columns)
    ]
    if _WHEN.match(question) and any(_DATE.search(cell.text) for cell in candidates):
        # A number of days beside dates is no time.
        candidates = [cell for cell in candidates if not _is_number_alone(cell)]
    if _PERSONAL.match(question):
        candidates = [cell for cell in candidates if _may_answer(question, cell)]
    elif (place := _place(question, others, candidates)) is not None:
        return TableAnswer(place, match.row, len(match.words))
    cell = (
        best_cell(question, remaining, candidates, similarity)
        or _measure(others, candidates)
        or _price(question, others, candidates)
    )
    if cell is not None and (not _may_answer(question, cell) or _is_date_of(question, cell)):
        return None
    if cell is not None and not _is_counted(question, cell):
        return None
    if cell is None and _asks_for_row(question, match, matched_columns, similarity):
        cell = match.row.cells[0]
    if cell is None and is_named:
        cell = _text_about(remaining, match.row, asked_words)
    return None if cell is None else TableAnswer(cell, match.row, len(match.words))


def _is_of_two(question: str) -> bool:
    """Return whether a question asks which of two has more: one of them is no answer."""
    return _OR.search(question) is not None and bool(degrees_of(table_words(question))[0])


def _has_other_number(remaining: Sequence[str], row: TableRow) -> bool:
    """Return whether a question has a number behind a name that a cell has another one behind.

    The row of "CRC 128" is none of "CRC 64".
    """
    numbers = {word for word in remaining if word.isdigit()}
    others = [word for word in remaining if not word.isdigit()]
    cells = [table_words(cell.text) for cell in row.cells if cell.text[:1].isalpha()]
    return bool(numbers) and any(
        words[0] in others and words[1].isdigit() and words[1] not in numbers
        for words in cells
        if len(words) > 1
    )


def _is_prose(match: RowMatch) -> bool:
    """Return whether the words that name a row are few of those of its cell, a text."""
    longest = max(len(table_words(cell.text)) for cell in match.cells)
    return longest > _LONGEST_VALUE and len(match.words) < _LEAST_OF_VALUE * longest


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


def _measure(remaining: Sequence[str], candidates: Sequence[Cell]) -> Cell | None:
    """Return the one cell that measures what an adjective alone asks for: "How tall is it?"."""
    fitting = [
        cell
        for cell in candidates
        if len(remaining) == 1 and any(measures(w, remaining[0]) for w in name_words(cell.column))
    ]
    return fitting[0] if len(fitting) == 1 else None


def _price(question: str, remaining: Sequence[str], candidates: Sequence[Cell]) -> Cell | None:
    """Return the one price of a row, where a question asks for that and names no column."""
    if not _HOW_MUCH.search(question) or set(remaining) - _PRICES:
        return None
    named = [cell for cell in candidates if set(name_words(cell.column)) & _PRICES]
    fitting = named or [cell for cell in candidates if is_price(cell.text)]
    return fitting[0] if len(fitting) == 1 else None


def _place(question: str, remaining: Sequence[str], candidates: Sequence[Cell]) -> Cell | None:
    """Return the one place of a row, where a question asks where that is or goes."""
    if not re.match(r"(?i)\W*where\b", question):
        return None
    for verbs, names in ((_STAYING, _PLACES), (_GOING, _GOALS)):
        fitting = [cell for cell in candidates if set(name_words(cell.column)) & names]
        if not set(remaining) - verbs and len(fitting) == 1:
            return fitting[0]
    return None


def _is_date_of(question: str, cell: Cell) -> bool:
    """Return whether a question asks which of some things has what, and a cell is their date."""
    match = _WHICH_ROW.match(question)
    nouns = table_words(match[0])[1:2] if match else []
    return (
        bool(nouns)
        and stem(nouns[0]) in map(stem, name_words(cell.column))
        and bool(_DATE.search(cell.text) and nouns[0] not in ("year", "date", "day"))
    )


def _is_counted(question: str, cell: Cell) -> bool:
    """Return whether a column is called what a question counts: tornadoes are no hurricanes."""
    if not _HOW_MANY.match(question):
        return True
    words = [word for word in table_words(question) if word not in STOP_WORDS]
    return any(name_similarity(word, cell.column, _unlike) >= SYNONYM for word in words)


def _unlike(_: str, __: str) -> float:
    return 0.0


def _is_number_alone(cell: Cell) -> bool:
    return _NUMBER.fullmatch(cell.text) is not None and _DATE.search(cell.text) is None


def _may_answer(question: str, cell: Cell) -> bool:
    """Return whether a cell is what a question asks for: no person or place is a number."""
    if _PERSONAL.match(question):
        return re.search(r"[^\W\d_]{2}", cell.text) is not None and not _DATE.search(cell.text)
    if re.match(r"(?i)\W*where\b", question):
        return not (_NUMBER.fullmatch(cell.text) or _DATE.search(cell.text))
    has_number = re.search(r"\d", cell.text) is not None and not _RANGE.search(cell.text)
    measure = _MEASURE_OF.search(question)
    if measure and not has_number and measure[1].lower() not in name_words(cell.column):
        return False  # the area of a country is not its region
    return has_number or not _NUMERIC.search(question)


def _asks_for_row(
    question: str, match: RowMatch, matched_columns: Collection[str], similarity: Similarity
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


def best_cell(
    question: str, remaining: Sequence[str], cells: Sequence[Cell], similarity: Similarity
) -> Cell | None:
    """Return the cell whose column the remaining words name, None where it is not clear."""
    cells = periods_fit(question, cells)
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
