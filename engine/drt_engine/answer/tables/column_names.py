"""Answers "Which columns are there?" with the line that names them. Knows nothing of models."""

from __future__ import annotations

import re
from collections.abc import Collection

from drt_engine.answer.tables.values import Table
from drt_engine.answer.tables.wording import table_words
from drt_engine.text.sentences import Span
from drt_engine.text.words import STOP_WORDS, word_set

_ASKS = re.compile(
    r"(?i)\W*(?:(?:what|which|list|name|names|give|show)\b.*\b(?:columns?|fields?)"
    r"|(?:columns?|fields?) of\b)"
)
_ASKING = word_set(
    """
    what which list name names named called give show column columns field fields are there does do
    have has had contain contains table file csv data dataset sheet spreadsheet document line lines
    row rows each every record records mean means stand stands two three four five six seven eight
    nine ten header headers exist available
    """
)
_ABOVE = 2_000  # characters above the first row in which the line of names stands


def asks_for_columns(question: str, context: Collection[str] = ()) -> bool:
    """Return whether a question asks for the names of a table's columns, and for nothing else.

    ``context`` are words of what the table is called.
    """
    if not _ASKS.match(question):
        return False
    return not set(table_words(question)) - STOP_WORDS - _ASKING - set(context)


def names_of_columns(text: str, table: Table) -> Span:
    """Return the line above a table that has all names of its columns, or its fullest row."""
    row = max(table.rows, key=lambda row: len(row.cells))
    low = max(0, table.rows[0].start - _ABOVE)
    end = text.rfind("\n", low, table.rows[0].start)
    while end > low:
        start = text.rfind("\n", low, end) + 1 or low
        if all(cell.column in text[start:end] for cell in row.cells):
            return start, end
        end = start - 1
    return text.rfind("\n", 0, row.start) + 1, row.end
