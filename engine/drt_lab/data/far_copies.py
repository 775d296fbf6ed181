"""Far copies and shared trigrams: what of a stream could be copied, and from which chunk.

Counted from token ids alone, without a model: a measure of reading from far away, labels for a
retriever, and the choice of an oracle that knows the next chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

_N = 3  # tokens of context by which a place is known again
_EQUAL_SHARE = 0.5  # of the best chunk's share from which a chunk is labelled, too


def far_copies(ids: Sequence[int] | np.ndarray, *, window: int, chunk: int) -> Tensor:
    """Return which tokens of a stream repeat what stands beyond the window, [T], bool.

    Such a token's three preceding tokens stood together before, followed by the same token, more
    than ``window + chunk`` tokens back, where only retrieval reaches; and they did not stand,
    followed by anything, among the last ``window`` tokens.
    """
    tokens = np.asarray(ids, dtype=np.int64)
    places = np.arange(_N, len(tokens))
    out = torch.zeros(len(tokens), dtype=torch.bool)
    if len(places) == 0:
        return out
    contexts = _n_grams(tokens, _N)[:-1]  # [T - 3], of the tokens before each place
    first, _ = _first_and_previous(_pairs(contexts, tokens[_N:]))
    _, previous = _first_and_previous(contexts)
    numbers = np.arange(len(places))
    is_far = numbers - first > window + chunk
    is_near = (previous >= 0) & (numbers - previous <= window)
    out[_N:] = torch.from_numpy(is_far & ~is_near)
    return out


class SharedTrigrams:
    """How much the next chunk of each chunk of a stream shares with the chunks before it.

    A trigram that stands in n of the C chunks counts ``log(1 + C / n)`` (its inverse document
    frequency), once for each pair of chunks. The last chunk shares nothing: what follows it is not
    known.
    """

    def __init__(self, ids: Sequence[int] | np.ndarray, chunk: int) -> None:
        tokens = np.asarray(ids, dtype=np.int64)
        self.chunks = -(-len(tokens) // chunk)
        trigrams = _n_grams(tokens, _N)
        place = np.arange(len(trigrams))
        inside = place % chunk <= chunk - _N  # across no border
        pairs = np.unique(_pairs(trigrams[inside], place[inside] // chunk), return_index=True)[1]
        codes, owners = trigrams[inside][pairs], (place[inside] // chunk)[pairs]
        order = np.lexsort((owners, codes))
        codes, owners = codes[order], owners[order]
        borders = np.flatnonzero(np.diff(codes)) + 1
        # Of each chunk, the trigrams that stand elsewhere, too: their chunks in order, and weight.
        self._of_chunk: list[list[tuple[np.ndarray, float]]] = [[] for _ in range(self.chunks)]
        for start, stop in pairwise([0, *borders.tolist(), len(codes)]):
            if stop - start > 1:
                sharers = owners[start:stop]
                weight = float(np.log1p(self.chunks / len(sharers)))
                for owner in sharers[1:].tolist():  # nothing before the first has it
                    self._of_chunk[owner].append((sharers, weight))

    def row(self, chunk: int, count: int) -> np.ndarray:
        """Return the shares [P] of chunks 0..P-1 with the one that follows ``chunk``."""
        shares = np.zeros(count)
        if chunk + 1 < self.chunks:
            for sharers, weight in self._of_chunk[chunk + 1]:
                shares[sharers[: np.searchsorted(sharers, count)]] += weight
        return shares

    def ranking(self, group: int, rows: Tensor, count: int) -> Tensor:  # noqa: ARG002
        """Rank chunks by their shares, the later of equal ones first; a ``Ranking``, [Q, P]."""
        shares = torch.from_numpy(np.stack([self.row(row, count) for row in rows.tolist()]))
        latest = torch.arange(count, dtype=shares.dtype) / max(1, count) * 1e-6
        return (shares + latest).to(rows.device)

    def labels(self) -> Tensor:
        """Return which earlier chunks the chunk after each should be read from, [C, C], bool.

        Those that share at least half of what the best chunk does, if any shares a trigram.
        """
        labels = torch.zeros(self.chunks, self.chunks, dtype=torch.bool)
        for row in range(1, self.chunks - 1):
            shares = self.row(row, row)  # a chunk retrieves among those before it
            if shares.max() > 0:
                labels[row, :row] = torch.from_numpy(shares >= _EQUAL_SHARE * shares.max())
        return labels


def _n_grams(tokens: np.ndarray, n: int) -> np.ndarray:
    """Return a number for each n tokens in a row, the same for the same tokens."""
    numbers = tokens
    for length in range(1, n):
        numbers = _pairs(numbers[: len(tokens) - length], tokens[length:])
    return numbers


def _pairs(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return a number for each pair, the same for the same pairs, below the number of pairs."""
    if not len(first):
        return np.zeros(0, dtype=np.int64)
    # Numbers are made small first, so that no product overflows.
    codes = np.unique(first, return_inverse=True)[1].astype(np.int64)
    return np.unique(codes * (int(second.max()) + 1) + second, return_inverse=True)[1]


def _first_and_previous(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each place where its code stands first, and last before it, -1 for nowhere."""
    order = np.argsort(codes, kind="stable")
    same = np.zeros(len(codes), dtype=bool)
    same[1:] = codes[order][1:] == codes[order][:-1]
    previous = np.full(len(codes), -1)
    previous[order[1:]] = np.where(same[1:], order[:-1], -1)
    first = np.unique(codes, return_index=True, return_inverse=True)
    return first[1][first[2]], previous
