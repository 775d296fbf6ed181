"""Passages: retrieved chunks with some tokens of their neighbours, and where each token stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from drt_engine.store import ChunkRow
from drt_engine.store.types import TokenBatch
from drt_engine.store.view import LibraryView
from drt_engine.text.sentences import Span


@dataclass(frozen=True)
class TokenWindow:
    """The tokens of a chunk with ``margin`` tokens of each neighbour, in U slots.

    ``token_ids`` [U]; ``token_numbers`` [U] count the document's tokens, -1 where a slot
    holds none; ``starts``, ``ends`` [U] are characters of the document. ``text`` is that of the
    chunk and of the neighbours whose tokens it has; it begins at the character ``text_start``.
    """

    row: ChunkRow
    token_ids: Tensor
    token_numbers: Tensor
    starts: Tensor
    ends: Tensor
    text: str
    text_start: int

    @property
    def mask(self) -> Tensor:
        """Which slots hold a token, [U]."""
        return self.token_numbers >= 0


@dataclass(frozen=True)
class Passage(TokenWindow):
    """A retrieved chunk of a library with its window and its retrieval probability.

    ``score`` is the sum of ``landmark``, ``lexical`` and ``late``; ``by`` says which candidates it
    was among.
    """

    score: float
    probability: float
    by: Literal["landmark", "lexical", "both"]
    landmark: float = 0.0
    lexical: float = 0.0
    late: float = 0.0


def read_windows(store: LibraryView, chunk_ids: Sequence[int], margin: int) -> list[TokenWindow]:
    """Read the windows of chunks, with ``margin`` tokens of each neighbour (0: without them)."""
    neighbours: dict[int, tuple[int | None, int | None]] = dict.fromkeys(chunk_ids, (None, None))
    if margin:
        neighbours = store.neighbours_of(chunk_ids)
    around = {n for pair in neighbours.values() for n in pair if n is not None}
    order = [*chunk_ids, *sorted(around.difference(chunk_ids))]
    tokens = store.read_tokens(order)
    rows = {row.id: (number, row) for number, row in enumerate(store.chunk_rows(order))}
    windows = []
    for chunk_id in chunk_ids:
        before, after = neighbours[chunk_id]
        parts = [None if c is None else rows[c] for c in (before, chunk_id, after)]
        windows.append(_window(parts, tokens, margin))
    return windows


def within(window: TokenWindow, spans: Mapping[str, Sequence[Span]]) -> TokenWindow:
    """Return a window whose tokens outside of its document's ``spans`` (characters) are left out.

    Where none is inside, as of a chunk that a section's border touches, it stays as it is.
    """
    inside = torch.zeros(len(window.starts), dtype=torch.bool)
    for start, end in spans.get(window.row.document_id, ()):
        inside |= (window.starts >= start) & (window.ends <= end)
    if not (inside & window.mask).any():
        return window
    return replace(window, token_numbers=window.token_numbers.masked_fill(~inside, -1))


def _window(
    parts: Sequence[tuple[int, ChunkRow] | None], tokens: TokenBatch, margin: int
) -> TokenWindow:
    """Cut one window out of the previous, the own and the next chunk, rows of ``tokens``."""
    size = tokens.ids.shape[1]
    length = size + 2 * margin
    token_ids = torch.zeros(length, dtype=torch.long)
    numbers, starts, ends = (torch.full((length,), -1) for _ in range(3))
    assert parts[1] is not None
    own = parts[1][1]
    for part, shift in zip(parts, (-size, 0, size), strict=True):
        if part is None:
            continue
        at, row = part
        first = max(0, -shift - margin)  # of the chunk's tokens, that in the window
        last = min(int(tokens.lengths[at]), length - shift - margin)
        if first >= last:
            continue
        slots = slice(first, last)
        places = slice(first + shift + margin, last + shift + margin)
        token_ids[places] = tokens.ids[at, slots]
        numbers[places] = torch.arange(first, last) + (own.ordinal * size + shift)
        starts[places] = tokens.starts[at, slots].long() + row.start
        ends[places] = tokens.ends[at, slots].long() + row.start
    chunk_rows = [part[1] for part in parts if part is not None]
    text = "".join(row.text for row in chunk_rows)
    return TokenWindow(own, token_ids, numbers, starts, ends, text, chunk_rows[0].start)
