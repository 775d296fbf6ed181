"""A table that a text is."""

from __future__ import annotations

from drt_engine.answer.tables.values import Table, tables_of
from drt_engine.text.table_rows import table_rows


def table(text: str) -> Table:
    """The only table of a text."""
    (only,) = tables_of(table_rows(text))
    return only
