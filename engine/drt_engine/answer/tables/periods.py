"""Columns of one thing in several periods: ``deaths_85_99`` and ``deaths_00_14``.

Knows nothing of models and libraries.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from drt_engine.answer.tables.wording import table_words
from drt_engine.text.table_rows import Cell
from drt_engine.text.words import word_set

_EARLIER, _LATER = word_set("earlier former older first"), word_set("later latter recent second")
_SPAN_OF_YEARS = re.compile(r"(?<!\d)(?P<first>\d\d|\d{4})\D(?P<last>\d\d|\d{4})(?!\d)")
_BEFORE_YEAR = re.compile(r"(?i)\b(?P<side>before|until|after|since) (?P<year>\d{4})\b")


def periods_fit(question: str, cells: Sequence[Cell]) -> list[Cell]:
    """Return cells without those whose column is of another period than the question asks for.

    Of ``deaths_85_99`` and ``deaths_00_14``, the first is the earlier one, and before 2000.
    """
    spans = {cell.column: span for cell in cells if (span := _years(cell.column))}
    words = set(table_words(question))
    wants_earlier, wants_later = bool(words & _EARLIER), bool(words & _LATER)
    match = _BEFORE_YEAR.search(question)
    allowed = set(spans.values())
    if match is not None:
        year, is_before = int(match["year"]), match["side"].lower() in ("before", "until")
        allowed = {s for s in allowed if (s[1] <= year if is_before else s[0] >= year)}
    elif len(allowed) == 2 and wants_earlier != wants_later:  # noqa: PLR2004
        allowed = {min(allowed) if wants_earlier else max(allowed)}
    if not allowed:
        return list(cells)
    return [cell for cell in cells if spans.get(cell.column) in (None, *allowed)]


def _years(column: str) -> tuple[int, int] | None:
    """Return the first and the last year that a column's name has: "85_99" is 1985 to 1999."""
    match = _SPAN_OF_YEARS.search(column)
    if match is None:
        return None
    years = [
        int(text) if len(text) > 2 else int(text) + (1900 if int(text) > 50 else 2000)  # noqa: PLR2004
        for text in match.groups()
    ]
    return (years[0], years[1]) if years[0] < years[1] else None
