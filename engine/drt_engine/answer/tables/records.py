"""Whole rows as quotes: no answer where the row is named and has no column of what is asked.

Knows nothing of models and libraries.
"""

from __future__ import annotations

import re

from drt_engine.answer.tables.table_question import ASKING, UNITS
from drt_engine.answer.tables.wording import (
    SYNONYM,
    content_stems,
    name_similarity,
    stem,
    table_words,
)
from drt_engine.text.table_rows import TableRow, table_rows
from drt_engine.text.words import STOP_WORDS

_FEWEST_CELLS = 3
_PERSONAL = re.compile(r"(?i)\W*(?:who|whom|whose|where)\b")
_NAMES = 2  # cells at the beginning of a row that may name it by one word


def lacks_column(question: str, quote: str, row: TableRow | None = None) -> bool:
    """Return whether a quote is a row that the question names, and has nothing else of it.

    "Who is chief executive of 3M?" is not answered by the row of 3M, whose columns are others.
    ``row`` is the one that is quoted, where the names of its columns are not in the quote.
    """
    rows = [row] if row is not None else table_rows(quote.strip())
    if len(rows) != 1 or "\n" in quote.strip() or len(rows[0].cells) < _FEWEST_CELLS:
        return False
    cells = rows[0].cells
    asked = [word for word in table_words(question) if word not in STOP_WORDS]
    stems = {stem(word) for word in asked}
    names = [
        words
        for number, cell in enumerate(cells)
        if (words := content_stems(cell.text))
        and words <= stems
        and (number < _NAMES or len(words) > 1)
    ]
    rest = [
        word
        for word in asked
        if not any(stem(word) in name for name in names) and word not in ASKING | UNITS
    ]
    if names and not rest and _PERSONAL.match(question):  # "Who makes it?", of numbers alone
        others = [cell.text for cell in cells if not content_stems(cell.text) & stems]
        return not any(re.search(r"[^\W\d_]{2}", text) for text in others)
    return bool(names and rest) and not any(
        stem(word) in content_stems(cell.text)
        or name_similarity(word, cell.column, _unlike) >= SYNONYM
        for word in rest
        for cell in cells
    )


def _unlike(_: str, __: str) -> float:
    return 0.0
