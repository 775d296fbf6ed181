"""Numbers that are quoted from a table: no answer where something else was asked for.

"What is the radio's password?" is not answered by the 1,240 of the row "Radio operator". Knows
nothing of models and libraries.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from drt_engine.answer.tables.dimensions import measures
from drt_engine.answer.tables.synonyms import are_synonyms
from drt_engine.answer.tables.table_question import UNITS
from drt_engine.answer.tables.wording import (
    SYNONYM,
    Similarity,
    content_stems,
    name_words,
    similar,
    table_words,
)
from drt_engine.text.table_rows import Cell, TableRow
from drt_engine.text.words import STOP_WORDS, word_set

# Similarity of two words that may name the same column: "income" and "pay" have 0.33, "password"
# and "pay" 0.05, "phone" and "month" 0.12.
_LEAST = 0.3
_PLAIN_NUMBER = re.compile(
    r"[-+\u2212$\u20ac\u00a3]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:[.,]\d+)?) ?%?"
)
_CONTRACTION = re.compile(r"(?i)\b(what|who|how|where|when|it|that|there|he|she)['\u2019]s\b")
_OWNED = re.compile(r"['\u2019]s? ")  # "the radio's password", "the members' names"
_ASKS = r"(?:(?:what|which) (?:is|are|was|were)|(?:tell|give) me|show) "
_OF = re.compile(
    rf"(?i)(?:{_ASKS}|(?!(?:what|which|who|whom|whose|where|when|why|how)\b))(?:the )?"
    r"(?P<asked>\w[\w-]*(?: \w[\w-]*){0,3}?) (?:of|for) "
)
_HOW = re.compile(r"(?i)how (?P<adjective>old|tall|heavy|deep|wide|thick)\b")
_PERSONAL = re.compile(r"(?i)(?:who|whom|whose|where)\b")
_PER = re.compile(r"(?i)\b(?:an?|per|each|every)\s+\w+|/.*")
_END = re.compile(
    r"(?i)[?.!,;]|\b(?:in|on|at|by|from|with|during|under|per|according|when|after|before|for|to"
    r"|and|or)\b"
)
_LONGEST_ASKED = 4  # words; more are no name of a column
# Whatever their column is called, these are numbers.
_NUMBERS = word_set(
    """
    number numbers amount amounts value values figure figures total sum count quantity rate level
    result results score share percentage percent default maximum minimum max min limit average mean
    median code id key index data entry row column cell answer setting size measure respective
    exact actual current overall
    """
)
_DATED = word_set("year born birth founded built date since established created")


def is_of_other_attribute(
    question: str,
    cells: Sequence[Cell],
    row: TableRow,
    similarity: Similarity,
    *,
    context: Collection[str] = (),
    lead: Collection[str] = (),
) -> bool:
    """Return whether all quoted ``cells`` of a ``row`` are numbers, and a question asks for more.

    What it asks for has to be like a word of their columns or of the ``context``, what the table is
    called, or one of the row's or of the ``lead``, the text above the table.
    """
    is_of_numbers = bool(cells) and all(map(_is_plain_number, cells))
    if not is_of_numbers or any(_is_unnamed(cell) for cell in cells):
        return False
    question = _plain(question)
    columns = {word for cell in cells for word in name_words(cell.column)}
    if _PERSONAL.match(question):
        return True
    if how := _HOW.match(question):
        adjective = how["adjective"].lower()
        units = {word for c in cells for word in table_words(_PER.sub(" ", c.column))} & UNITS
        dated = (columns | {*context}) & _DATED if adjective == "old" else ()
        is_measured = any(
            measures(word, adjective) or are_synonyms(word, adjective)
            for word in (*columns, *context)
        )
        return not (units or dated or is_measured)
    asked = _asked_words(question)
    if not asked - _NUMBERS:
        return False
    exact = content_stems(" ".join((*lead, *(cell.text for cell in row.cells))))
    known = {*columns, *context} - STOP_WORDS
    return not any(
        content_stems(word) & exact
        or any(similar(word, other, similarity) >= _LEAST for other in known)
        or any(similar(word, other, _unlike) >= SYNONYM for other in lead)
        for word in asked - _NUMBERS
    )


def asks_for_attribute(question: str) -> bool:
    """Return whether a question asks for something of something: "the radio's password"."""
    question = _plain(question)
    of_somebody = _PERSONAL.match(question) or _HOW.match(question)
    return bool(of_somebody or _asked_words(question) - _NUMBERS)


def _plain(question: str) -> str:
    """Return a question from its first word on, with single spaces and without contractions."""
    text = " ".join(question.split()).lstrip("\"'([{\u201c\u2018-*>#. ")
    return _CONTRACTION.sub(r"\1 is", text)


def _asked_words(question: str) -> frozenset[str]:
    """Return the words for what is asked of somebody or something, in a plain question."""
    asked = ""
    if match := _OF.match(question):
        asked = match["asked"]
    elif owned := list(_OWNED.finditer(question)):
        asked = _END.split(question[owned[-1].end() :], maxsplit=1)[0]
        asked = asked.partition(" of ")[0]
    words = [word for word in table_words(asked) if word not in STOP_WORDS]
    return frozenset(words if len(words) <= _LONGEST_ASKED else ())


def _is_plain_number(cell: Cell) -> bool:
    return _PLAIN_NUMBER.fullmatch(cell.text.strip()) is not None


def _is_unnamed(cell: Cell) -> bool:
    """Return whether no word says what a cell is: its table may have no names of columns."""
    return not any(character.isalpha() for character in cell.column)


def _unlike(_: str, __: str) -> float:
    return 0.0
