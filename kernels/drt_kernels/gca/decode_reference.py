"""A decoding step of grouped cross-attention by its definition: records made whole, then the
reference of the whole-sequence form.
"""

from __future__ import annotations

import torch
from torch import Tensor

from drt_kernels.gca.decode import DecodeMemory
from drt_kernels.gca.reference import gca_reference


def decode_reference(query: Tensor, memory: DecodeMemory) -> Tensor:
    """``query`` [B, T, H, D] -> [B, T, H, D], fp32 inside, double for double."""
    wide = query.dtype if query.dtype == torch.float64 else torch.float32
    index = memory.index.masked_fill(memory.probabilities == 0, 0)
    keys, values, mask = memory.records.chosen(index, wide)
    places = torch.arange(index.numel(), device=index.device).view(index.shape)
    read = (memory.probabilities != 0)[..., None, None, None]
    return gca_reference(
        query[:, None],
        keys.masked_fill(~read, 0.0).flatten(0, 1),
        values.masked_fill(~read, 0.0).flatten(0, 1),
        mask=mask.flatten(0, 1),
        index=places[:, None],
        probabilities=memory.probabilities[:, None],
        off_by_one=memory.off_by_one,
    )[:, 0]
