"""Which tokens may come next: an interface, and the filter that allows only verbatim spans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

_Places = list[tuple[int, int]]  # a sequence and how many of its tokens a span has reached


class TokenFilter(Protocol):
    """Decides before each token which ones are allowed."""

    def mask(self, written: Sequence[int]) -> Tensor | None:
        """Return which tokens [V] may follow those written so far, or ``None`` for all."""


class VerbatimFilter:
    """Allows only spans of the given token sequences, one after the other.

    A span may end, and another or nothing follow it, once it has ``shortest`` tokens or has
    reached the end of its sequence.
    """

    def __init__(
        self, sequences: Sequence[Sequence[int]], vocab: int, end: int, *, shortest: int = 6
    ) -> None:
        self._vocab, self._end, self._shortest = vocab, end, shortest
        self._sequences = [list(s) for s in sequences]
        self._first: dict[int, _Places] = {}
        for number, sequence in enumerate(self._sequences):
            for at, token in enumerate(sequence):
                self._first.setdefault(token, []).append((number, at + 1))

    def mask(self, written: Sequence[int]) -> Tensor | None:
        """Allow what continues the span that ``written`` ends in, or a new one where it may end."""
        allowed = torch.zeros(self._vocab, dtype=torch.bool)
        places, length = self._open_span(written)
        allowed[list(self._followers(places))] = True
        if self._may_end(places, length):
            allowed[list(self._first)] = True
            allowed[self._end] = bool(written) or not self._first
        return allowed

    def _open_span(self, written: Sequence[int]) -> tuple[_Places, int]:
        """Return the places of the span that ``written`` ends in, and its length.

        A span is never cut short where it could go on.
        """
        places: _Places = []
        length = 0
        for token in written:
            longer = [(n, at + 1) for n, at in places if self._sequences[n][at : at + 1] == [token]]
            places, length = (longer, length + 1) if longer else (self._first.get(token, []), 1)
        return places, length

    def _followers(self, places: _Places) -> set[int]:
        return {token for n, at in places for token in self._sequences[n][at : at + 1]}

    def _may_end(self, places: _Places, length: int) -> bool:
        at_an_end = any(at == len(self._sequences[n]) for n, at in places)
        return length == 0 or length >= self._shortest or at_an_end or not places
