"""Cells of an HTML table that span several columns or rows, written where they apply.

A name above several columns is repeated above each, so that a second row of names goes with it; a
short cell beside several rows is repeated in each, so that each can be read alone. Knows nothing of
the page around a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_MOST_COLUMNS = 40  # that a cell may span, and a row may have with repeated cells
_LONGEST_REPEATED = 60  # characters; a longer cell is text, which nobody reads twice


@dataclass(frozen=True)
class Span:
    """How many columns and rows a cell spans, and whether it is a name of them."""

    columns: int = 1
    rows: int = 1
    is_header: bool = False


def span_of(tag: str, attributes: dict[str, str | None]) -> Span:
    """Return what the attributes of a cell say of its size; 1 for what is no number."""
    sizes = []
    for name in ("colspan", "rowspan"):
        text = (attributes.get(name) or "").strip()
        is_size = text.isdecimal() and len(text) <= 4  # noqa: PLR2004
        sizes.append(max(1, int(text)) if is_size else 1)
    return Span(min(sizes[0], _MOST_COLUMNS), sizes[1], tag == "th")


class RowSpans:
    """The cells of rows above that go on in the rows below, by column."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[str, int]] = {}  # text and rows left

    def laid_out(self, texts: Sequence[str], spans: Sequence[Span]) -> list[str]:
        """Return the texts of a row's cells, one for each column."""
        row: list[str] = []
        starting: dict[int, tuple[str, int]] = {}
        spanning = len(self._open) + sum(span.columns for span in spans)
        for text, span in zip(texts, spans, strict=True):
            self._go_on(row)
            is_short = len(text) <= _LONGEST_REPEATED
            # A cell across the whole table is a line of text.
            width = span.columns if spanning > span.columns and len(row) < _MOST_COLUMNS else 1
            for number in range(width):
                if span.rows > 1 and is_short and len(starting) < _MOST_COLUMNS:
                    starting[len(row)] = (text, span.rows - 1)
                row.append(text if number == 0 or (span.is_header and is_short) else "")
        self._go_on(row)
        self._open.update(starting)
        return row

    def _go_on(self, row: list[str]) -> None:
        """Add the cells of rows above that stand in the next columns."""
        while len(row) in self._open:
            text, left = self._open.pop(len(row))
            if left > 1:
                self._open[len(row)] = (text, left - 1)
            row.append(text)
