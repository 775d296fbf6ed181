"""Shape letters of the project, and the argument checks that every implementation shares.

``B`` batch, ``T`` tokens (of one chunk, for GCA), ``C`` chunks, ``S`` tokens per chunk memory,
``R`` retrieved chunks (the paper's K), ``H`` query heads, ``Hk`` key/value heads, ``D`` head size,
``E`` model width, ``V`` vocabulary, ``P`` chunks in a pool.
"""

from __future__ import annotations

from torch import Tensor


def check_gca(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    mask: Tensor,
    index: Tensor,
    probabilities: Tensor,
) -> None:
    """Raise ``ValueError`` unless the shapes of one ``gca`` call fit together."""
    if query.dim() != 5:
        raise ValueError(f"query has {query.dim()} dimensions, expected 5: [B, C, T, H, D]")
    if keys.dim() != 4 or keys.shape != values.shape:
        raise ValueError(
            f"keys {tuple(keys.shape)} and values {tuple(values.shape)} must both be [P, S, Hk, D]"
        )
    batch, chunks, _, heads, size = query.shape
    if keys.shape[3] != size:
        raise ValueError(f"head size of the keys is {keys.shape[3]}, of the query {size}")
    if heads % keys.shape[2]:
        raise ValueError(f"{heads} query heads cannot share {keys.shape[2]} key/value heads")
    if mask.shape != keys.shape[:2]:
        raise ValueError(f"mask is {tuple(mask.shape)}, expected [P, S] = {tuple(keys.shape[:2])}")
    if index.shape != probabilities.shape or index.shape[:2] != (batch, chunks):
        raise ValueError(
            f"index {tuple(index.shape)} and probabilities {tuple(probabilities.shape)} "
            f"must both be [B, C, R] with B, C = {batch}, {chunks}"
        )
