"""How alike the meanings of two words are, by the token embeddings of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


class WordSimilarity:
    """Cosine similarity of words, each the mean embedding of its tokens.

    The mean of all embeddings is taken off first: it is most of what any two of them share.
    """

    def __init__(self, embedding: Tensor, encode: Callable[[str], Sequence[int]]) -> None:
        """Take embeddings [V, E] and the function from a word to its token ids."""
        self._embedding, self._encode = embedding, encode
        self._mean = embedding.detach().mean(dim=0, dtype=torch.float32)
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
                mean = self._embedding.detach()[ids].float().mean(dim=0) - self._mean
                vector = F.normalize(mean, dim=0)
            self._vectors[word] = vector
        return self._vectors[word]
