"""What a decoding step reads: chunk memory as it is stored, and as one chunk's tokens read it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_WIDE = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


@dataclass(frozen=True)
class ChunkRecords:
    """Chunk memory as it is stored: ``keys``, ``values`` [P, S, Hk, D], ``mask`` [P, S].

    ``mask`` is true for tokens that exist; what else memory holds never matters. int8 numbers come
    with ``key_scales`` and ``value_scales`` [P, S, Hk], by which they are multiplied.
    """

    keys: Tensor
    values: Tensor
    mask: Tensor
    key_scales: Tensor | None = None
    value_scales: Tensor | None = None

    def gather(self, index: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        """Return keys, values [.., R, S, Hk, D] and mask [.., R, S] of chunks ``index`` [.., R].

        Tokens that do not exist have keys and values of zeros.
        """
        mask = self.mask[index]
        keys = _dequantise(self.keys, self.key_scales, index, dtype)
        values = _dequantise(self.values, self.value_scales, index, dtype)
        absent = ~mask[..., None, None]
        return keys.masked_fill(absent, 0.0), values.masked_fill(absent, 0.0), mask


@dataclass(frozen=True)
class DecodeMemory:
    """What the tokens of one chunk read, made by ``decode_memory`` for ``gca_decode``.

    For the kernel it is the ``records`` themselves. For matrix products it is ``keys`` [B * Hk, D,
    R * (S + 1)], scaled, ``values`` [B * Hk, R * (S + 1), D], weighted by their probability, and
    ``bias`` [B * Hk, 1, R * (S + 1)], which hides what does not exist.
    """

    backend: str
    records: ChunkRecords
    index: Tensor
    probabilities: Tensor
    off_by_one: bool
    keys: Tensor | None = None
    values: Tensor | None = None
    bias: Tensor | None = None


def _dequantise(stored: Tensor, scales: Tensor | None, index: Tensor, dtype: torch.dtype) -> Tensor:
    numbers = stored[index].to(dtype)  # [.., R, S, Hk, D]
    return numbers if scales is None else numbers * scales[index][..., None].to(dtype)


def check_records(records: ChunkRecords, index: Tensor, probabilities: Tensor) -> None:
    """Raise ``ValueError`` unless the tensors of one ``decode_memory`` call fit together."""
    keys = records.keys
    if keys.dim() != 4 or keys.shape != records.values.shape:
        raise ValueError(
            f"keys {tuple(keys.shape)} and values {tuple(records.values.shape)} must both be "
            "[P, S, Hk, D]"
        )
    if records.mask.shape != keys.shape[:2]:
        raise ValueError(
            f"mask is {tuple(records.mask.shape)}, expected [P, S] = {tuple(keys.shape[:2])}"
        )
    scales = (records.key_scales, records.value_scales)
    if keys.dtype == torch.int8:
        if any(t is None or t.shape != keys.shape[:3] for t in scales):
            raise ValueError(f"int8 records need scales of shape {tuple(keys.shape[:3])}")
    elif keys.dtype not in _WIDE or any(t is not None for t in scales):
        raise ValueError(f"records are {keys.dtype}, expected int8 with scales, or one of {_WIDE}")
    if index.dim() != 2 or index.shape != probabilities.shape:
        raise ValueError(
            f"index {tuple(index.shape)} and probabilities {tuple(probabilities.shape)} "
            "must both be [B, R]"
        )
