"""What a document that is one table is about: its size and its columns."""

from __future__ import annotations

from drt_engine.text.table_rows import table_rows

_LEAST_SHARE = 0.8  # of the lines that are rows
_LEAST_ROWS = 3


def describe_table(text: str, budget: int) -> tuple[str, int, int] | None:
    """Return a sentence of at most ``budget`` words on a table, and the span of its first row.

    None where the text is not one table, or the sentence would be too long without any column.
    """
    rows = table_rows(text)
    lines = sum(bool(line.strip()) for line in text.split("\n"))
    if len(rows) < _LEAST_ROWS or len(rows) < _LEAST_SHARE * lines:
        return None
    columns = list(dict.fromkeys(cell.column for row in rows for cell in row.cells))
    opening = f"A table of {len(rows):,} rows with {len(columns)} columns:"
    left = budget - len(opening.split())
    names: list[str] = []
    for name in columns:
        left -= len(name.split())
        if left < 0:
            break
        names.append(name)
    if not names:
        return None
    ending = "." if len(names) == len(columns) else ", ..."
    return f"{opening} {', '.join(names)}{ending}", rows[0].start, rows[0].end
