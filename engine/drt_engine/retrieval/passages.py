"""Passages: retrieved chunks with some tokens of their neighbours, and where each token stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from drt_engine.blocks.lookup import STRUCK, UNITS, headers_of, tree_between
from drt_engine.store import ChunkRow
from drt_engine.store.types import TokenBatch
from drt_engine.store.view import LibraryView
from drt_engine.text.sentences import Span

# What is read in front of parts of a unit, from which character on.
Headers = tuple[tuple[int, str], ...]
_LONGEST_UNIT = 4000  # characters of a unit whose headers are looked up


class Part(NamedTuple):
    """What the reader pass reads of a window at a time: its slots [U], and the headers in them."""

    mask: Tensor
    headers: Headers = ()


@dataclass(frozen=True)
class TokenWindow:
    """The tokens of a chunk with ``margin`` tokens of each neighbour, in U slots.

    ``token_ids`` [U]; ``token_numbers`` [U] count the document's tokens, -1 where a slot
    holds none; ``starts``, ``ends`` [U] are characters of the document. ``text`` is that of the
    chunk and of the neighbours whose tokens it has; it begins at the character ``text_start``.
    ``units`` [U] tells records, rows and notes of the block tree apart: tokens of one number are
    read together, and no quote has tokens of two; None where the window has no such borders.
    ``headers`` are those of the units: names of columns, or what a note is about.
    """

    row: ChunkRow
    token_ids: Tensor
    token_numbers: Tensor
    starts: Tensor
    ends: Tensor
    text: str
    text_start: int
    units: Tensor | None = field(default=None, kw_only=True)
    headers: Mapping[int, Headers] = field(default_factory=dict, kw_only=True)

    @property
    def mask(self) -> Tensor:
        """Which slots hold a token, [U]."""
        return self.token_numbers >= 0

    def parts(self) -> list[Part]:
        """Return the parts that are read alone: all of the window, or each record or row."""
        if self.units is None:
            return [Part(self.mask, next(iter(self.headers.values()), ()))]
        units = self.units[self.mask].unique().tolist()
        return [Part(self.mask & (self.units == u), self.headers.get(u, ())) for u in units]


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
        windows.append(with_units(store, _window(parts, tokens, margin)))
    return windows


def with_units(store: LibraryView, window: TokenWindow) -> TokenWindow:
    """Return a window with its units, without those that the chunk only touches.

    A unit that is wholly in the margin is its own chunk's to be read with. What is struck out is
    left out.
    """
    row, mask = window.row, window.mask
    if not mask.any():
        return window
    low, high = int(window.starts[mask].min()), int(window.ends[mask].max())
    tree = tree_between(store, row.document_id, low, high)
    for struck in (node for node in tree if node.kind == STRUCK):
        outside = (window.ends <= struck.start) | (window.starts >= struck.end)
        if (outside & mask).any():
            numbers = window.token_numbers.masked_fill(~outside, -1)
            window = replace(window, token_numbers=numbers)
            mask = window.mask
    nodes = [node for node in tree if node.kind in UNITS]
    if not nodes:
        return window
    # A token's unit is the node that its first character is in, else the gap before a node.
    places = torch.where(mask, window.starts, torch.full_like(window.starts, -1))
    begins = torch.tensor([node.start for node in nodes])
    ends = torch.tensor([node.end for node in nodes])
    number = torch.searchsorted(begins, places, right=True) - 1  # of the last node before it
    is_inside = (number >= 0) & (places < ends[number.clamp(min=0)])
    units = torch.where(is_inside, begins[number.clamp(min=0)], -1 - number)
    headers = {
        node.start: headers_of(store.text(row.document_id, node.start, node.end), node)
        for node in nodes
        if node.header and node.end - node.start <= _LONGEST_UNIT
    }
    numbers = units[mask].unique()
    if len(numbers) < 2:
        return replace(window, headers={n: headers[n] for n in numbers.tolist() if n in headers})
    is_own = mask & (window.starts >= row.start) & (window.starts < row.start + len(row.text))
    mask_of_units = mask & torch.isin(units, units[is_own])
    kept_numbers = window.token_numbers.masked_fill(~mask_of_units, -1)
    return replace(window, units=units, token_numbers=kept_numbers, headers=headers)


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
