"""How alike the meanings of two words are, by the token embeddings of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Reading all embeddings takes longer than everything else here together: once for each table.
_MEANS: WeakKeyDictionary[nn.Embedding, Tensor] = WeakKeyDictionary()


class WordSimilarity:
    """Cosine similarity of words, each the mean embedding of its tokens.

    The mean of all embeddings is taken off first: it is most of what any two of them share.
    """

    def __init__(self, embedding: nn.Embedding, encode: Callable[[str], Sequence[int]]) -> None:
        """Take the embeddings of tokens and the function from a word to its token ids."""
        self._weight, self._encode = embedding.weight.detach(), encode  # [V, E]
        if embedding not in _MEANS:
            _MEANS[embedding] = self._weight.mean(dim=0, dtype=torch.float32)
        self._mean = _MEANS[embedding]
        self._vectors: dict[str, Tensor | None] = {}

    def __call__(self, word: str, other: str) -> float:
        """Return the similarity of two words, -1 to 1; 0 where one has no token."""
        left, right = self._vector(word), self._vector(other)
        return 0.0 if left is None or right is None else float(left @ right)

    def _vector(self, word: str) -> Tensor | None:
        if word not in self._vectors:
            ids = list(self._encode(word))
            vector = None
            if ids:
                mean = self._weight[ids].float().mean(dim=0) - self._mean
                vector = F.normalize(mean, dim=0)
            self._vectors[word] = vector
        return self._vectors[word]
