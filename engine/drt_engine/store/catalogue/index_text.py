"""What the full-text index holds of a chunk: its text, and the words just before and after it.

A sentence that a border cuts is then found as a whole in both chunks. Knows nothing of SQL.
"""

from __future__ import annotations

from drt_engine.store.catalogue.row_checksums import unpack_text

WORDS = 16
_LONGEST = 400  # characters of a margin, where words never end


def indexed_text(before: str, text: str, after: str) -> str:
    """Return a chunk's text with the index words of the chunks before and after it."""
    first, *words = before.rsplit(None, WORDS) or [""]
    tail = before[len(first) :] if len(words) == WORDS else before
    *words, remaining = after.split(None, WORDS) or [""]
    head = after[: len(after) - len(remaining)] if len(words) == WORDS else after
    return tail[-_LONGEST:] + text + head[:_LONGEST]


def indexed(before: bytes | None, text: bytes, after: bytes | None) -> str:
    """Return ``indexed_text`` of packed texts, None where there is no such chunk; CorruptStore."""
    tail, head = ("" if packed is None else unpack_text(packed) for packed in (before, after))
    return indexed_text(tail, unpack_text(text), head)
