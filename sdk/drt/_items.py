"""Cuts quoted text into its paragraphs and items, each of which is shown on lines of its own."""

import re
from itertools import pairwise

_MARK = (
    r"(?:[-*+\u00b7\u2022\u2013\u2023\u2219\u25a0\u25aa\u25cf\u25e6]|o(?=\s\s)"
    r"|\(?(?:\d{1,3}|[A-Za-z]|[ivx]{2,5})[.)])\s"
)
# Where a paragraph, an item of a list or another row of a table begins.
_BREAKS = re.compile(
    rf"\n[^\S\n]*\n\s*|\n\s*(?={_MARK})|(?<= \| )[^\S\n]*\n|\n(?=[^\n|]{{1,400}} \| )"
)
_ITEM = re.compile(rf"\s*{_MARK}\s*")


def item_spans(text: str) -> list[tuple[int, int]]:
    """Return the characters of each paragraph, item and row of a text, in order; none is empty.

    Prose is one, whatever its lines.
    """
    breaks = [(0, 0), *(match.span() for match in _BREAKS.finditer(text)), (len(text),) * 2]
    spans = [(start[1], end[0]) for start, end in pairwise(breaks)]
    return [(start, end) for start, end in spans if text[start:end].strip()]


def split_items(text: str) -> list[str]:
    """Return the paragraphs, items and rows of a text, each as it is written."""
    return [text[start:end] for start, end in item_spans(text)]


def mark_of(item: str) -> str:
    """Return the bullet or number that an item begins with, and the space around it."""
    match = _ITEM.match(item)
    return match[0] if match else ""


def find_words(text: str, words: str) -> int:
    """Return where words stand in a text, whole ones before parts of longer ones; -1 for nowhere.

    The "1" of "A-20931, 1 piece" is the second.
    """
    whole = re.search(rf"(?<![\w-]){re.escape(words)}(?![\w-])", text) if words else None
    return text.find(words) if whole is None else whole.start()
