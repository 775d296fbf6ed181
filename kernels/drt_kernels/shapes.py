"""Shape letters of the project, and the argument checks that every implementation shares.

``B`` batch, ``T`` tokens (of one chunk, for GCA), ``C`` chunks, ``S`` tokens per chunk memory,
``R`` retrieved chunks (the paper's K), ``H`` query heads, ``Hk`` key/value heads, ``D`` head size,
``E`` model width, ``V`` vocabulary, ``P`` chunks in a pool.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

TRITON_HEAD_SIZES = range(16, 129, 16)
TRITON_TYPES = (torch.bfloat16, torch.float16, torch.float32)
TRITON_CAPABILITY = (8, 0)


@dataclass(frozen=True)
class Retrieval:
    """What query chunks retrieved from a pool of chunks.

    ``mask`` [P, S], true for tokens of the pool that exist; ``index`` [B, C, R] int64 into the
    pool; ``probabilities`` [B, C, R]. Within the Triton kernels B and C are one dimension, N.
    """

    mask: Tensor
    index: Tensor
    probabilities: Tensor


def check_gca(query: Tensor, keys: Tensor, values: Tensor, retrieval: Retrieval) -> None:
    """Raise ``ValueError`` unless the shapes of one ``gca`` call fit together."""
    mask, index, probabilities = retrieval.mask, retrieval.index, retrieval.probabilities
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


def check_index_range(index: Tensor, pool: int) -> None:
    """Raise ``ValueError`` for an index outside a pool of ``pool`` chunks.

    Only on a CPU: on a GPU the look would make the host wait.
    """
    if index.device.type != "cpu" or not index.numel():
        return
    lowest, highest = (int(x) for x in index.aminmax())
    if lowest < 0 or highest >= pool:
        raise ValueError(f"index runs from {lowest} to {highest}, expected 0 to {pool - 1}")


def triton_limit(query: Tensor) -> str | None:
    """Return what the Triton kernels cannot do with ``query`` [.., D]; ``None`` if nothing."""
    if query.shape[-1] not in TRITON_HEAD_SIZES:
        return f"head size {query.shape[-1]} is not one of {[*TRITON_HEAD_SIZES]}"
    if query.dtype not in TRITON_TYPES:
        return f"{query.dtype} is not one of {', '.join(map(str, TRITON_TYPES))}"
    if query.is_cuda:
        capability = torch.cuda.get_device_capability(query.device)
        if capability < TRITON_CAPABILITY:
            return f"compute capability {capability} of the GPU is below {TRITON_CAPABILITY}"
    return None
