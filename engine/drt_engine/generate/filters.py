"""Which tokens may come next: an interface, and the filter that only lets verbatim spans of some texts continue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor


class TokenFilter(Protocol):
    """Decides before each token which ones are allowed."""

    def mask(self, written: Sequence[int]) -> Tensor | None:
        """Tokens written so far -> allowed tokens [V], or ``None`` for all."""


class VerbatimFilter:
    """Allows a token only if it continues a span of the given token sequences, at least ``shortest`` tokens long.

    A span may end, and another begin, only after a token of ``stops`` or after ``shortest`` tokens of the span.
    """

    def __init__(self, sequences: Sequence[Sequence[int]], vocab: int, end: int, *, shortest: int = 6) -> None:
        self._vocab, self._end, self._shortest = vocab, end, shortest
        self._sequences = [list(s) for s in sequences]

    def mask(self, written: Sequence[int]) -> Tensor | None:
        """Allow what follows any occurrence of the longest tail of ``written`` that stands in the sequences."""
        allowed = torch.zeros(self._vocab, dtype=torch.bool)
        follow, length = self._followers(written)
        allowed[list(follow)] = True
        if length == 0 or length >= self._shortest or not follow:
            allowed[self._end] = bool(written)
            if not follow or not written:
                allowed[list({t for s in self._sequences for t in s})] = True
        return allowed

    def _followers(self, written: Sequence[int]) -> tuple[set[int], int]:
        for length in range(min(len(written), 24), 0, -1):
            tail = list(written[-length:])
            found = {
                s[i + length]
                for s in self._sequences
                for i in range(len(s) - length)
                if s[i : i + length] == tail
            }
            if found:
                return found, length
        return set(), 0
