"""A decoding step by its definition: records made whole, then the reference of whole sequences."""

from __future__ import annotations

import torch
from torch import Tensor

from drt_kernels.decode.memory import DecodeMemory
from drt_kernels.gca.reference import gca_reference
from drt_kernels.shapes import Retrieval


def decode_reference(query: Tensor, memory: DecodeMemory) -> Tensor:
    """Attend with ``query`` [B, T, H, D] -> [B, T, H, D]; fp32 inside, double for double."""
    wide = query.dtype if query.dtype == torch.float64 else torch.float32
    # A chunk of probability 0 is not read: its index may be anything.
    index = memory.index.masked_fill(memory.probabilities == 0, 0)
    keys, values, mask = memory.records.gather(index, wide)  # [B, R, S, Hk, D]
    is_read = (memory.probabilities != 0)[..., None, None, None]
    # A pool of B * R chunks, of which row b reads R in a sequence of one chunk.
    places = torch.arange(index.numel(), device=index.device).view(index.shape)
    retrieval = Retrieval(mask.flatten(0, 1), places[:, None], memory.probabilities[:, None])
    return gca_reference(
        query[:, None],
        keys.masked_fill(~is_read, 0.0).flatten(0, 1),
        values.masked_fill(~is_read, 0.0).flatten(0, 1),
        retrieval,
        off_by_one=memory.off_by_one,
    )[:, 0]
