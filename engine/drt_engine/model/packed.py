"""Matrices that take less space in a file than in memory, where they are unpacked.

A large reader has matrices of four bits or fewer: integer codes, and a scale for each group of a
row, chosen for the least squared error. It computes with them unpacked, so that its answers are the
same on every processor. Everything else is exact: matrices in bf16 may have their first and their
last bytes apart, since those are alike and an archive stores them in a quarter less.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

GROUP = 64  # numbers of a row that share a scale
_CLIPPED = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75)  # what the largest number is cut to, in parts of it
_LEAST = 1 << 16  # numbers of a matrix from which on it is packed
_ZERO = 8  # the code of 0
_CODES, _SCALES = ".codes", ".scales"
HIGH, LOW = ".high", ".low"
_BYTES = {torch.uint8}
# The two numbers of each byte of codes, in fp32, as one number of eight bytes that can be copied.
_PAIRS = np.array([(byte & 15, byte >> 4) for byte in range(256)], np.float32) - _ZERO
_PAIRS_AS_ONE = _PAIRS.view(np.float64)[:, 0]
_BLOCK = 1 << 16  # bytes of codes that are unpacked at a time: their numbers stay in the cache


def pack(matrix: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Return the codes of [N, K], two to a byte, [N, K / 2], and scales [N, K / GROUP] in fp16.

    K is a multiple of ``GROUP``; ``bits``, at most 4, says how many codes are used. Fewer take as
    much space, but less of it in an archive.
    """
    rows, columns = matrix.shape
    groups = matrix.detach().float().cpu().view(rows, columns // GROUP, GROUP)
    largest = groups.abs().amax(dim=-1, keepdim=True)
    high = 2 ** (bits - 1) - 1
    codes = torch.zeros_like(groups)
    scales, errors = torch.zeros_like(largest), torch.full_like(largest, float("inf"))
    for part in _CLIPPED:
        scale = (part * largest / high).half().float()
        tried = (groups / scale.clamp(min=1e-8)).round_().clamp_(-high, high)
        error = (tried * scale - groups).square().sum(dim=-1, keepdim=True)
        better = error < errors
        codes = torch.where(better, tried, codes)
        scales, errors = torch.where(better, scale, scales), torch.where(better, error, errors)
    numbers = (codes + _ZERO).to(torch.uint8).view(rows, columns)
    return numbers[:, 0::2] | numbers[:, 1::2] << 4, scales[..., 0].half()


def unpack(codes: Tensor, scales: Tensor) -> Tensor:
    """Return the matrix [N, K] of what ``pack`` returned, in fp32.

    Raises ``ValueError`` for types and shapes that do not belong together.
    """
    if codes.dtype != torch.uint8 or codes.dim() != 2 or scales.dim() != 2:
        raise ValueError(f"codes are {codes.dtype} {list(codes.shape)}, expected two to a byte")
    if (len(scales), scales.shape[1] * GROUP) != (len(codes), codes.shape[1] * 2):
        raise ValueError(f"codes {list(codes.shape)} do not belong to scales {list(scales.shape)}")
    # A look-up and a product in place, block by block: a fifth of the time of whole matrices, each
    # of whose steps would fill new memory.
    matrix = torch.empty(len(codes), codes.shape[1] * 2)
    pairs, numbers = matrix.numpy().view(np.float64), matrix.view(len(scales), -1, GROUP)
    factors = scales[..., None].float()
    rows = max(1, _BLOCK // codes.shape[1])
    for at in range(0, len(codes), rows):
        block = slice(at, at + rows)
        # any mode but the default writes without a copy; no byte is beyond the table
        np.take(_PAIRS_AS_ONE, codes[block].numpy(), out=pairs[block], mode="clip")
        numbers[block].mul_(factors[block])
    return matrix


def packed(tensors: Mapping[str, Tensor], bits: Mapping[str, int]) -> dict[str, Tensor]:
    """Return tensors with large matrices packed, under their names and an ending; others in fp16.

    ``bits``: by how a name begins, the last that fits.
    """
    out: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        fitting = [number for start, number in bits.items() if name.startswith(start)]
        is_large = tensor.dim() == 2 and tensor.numel() >= _LEAST and tensor.shape[1] % GROUP == 0
        if fitting and is_large:
            out[name + _CODES], out[name + _SCALES] = pack(tensor, fitting[-1])
        else:
            out[name] = tensor.detach().cpu().half()
    return out


def split(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors with the bytes of large bf16 matrices apart, under two endings."""
    out: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.dtype == torch.bfloat16 and tensor.dim() == 2 and tensor.numel() >= _LEAST:
            low, high = tensor.contiguous().view(torch.uint8).unflatten(1, (-1, 2)).unbind(dim=-1)
            out[name + HIGH], out[name + LOW] = high.contiguous(), low.contiguous()
        else:
            out[name] = tensor
    return out


def joined(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what ``split`` was given; ``ValueError`` names a matrix of which a part is missing."""
    out: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if name.endswith(HIGH):
            full_name = name.removesuffix(HIGH)
            low = tensors.get(full_name + LOW)
            if low is None or low.shape != tensor.shape or {low.dtype, tensor.dtype} != _BYTES:
                raise ValueError(f"{full_name} lacks its low bytes")
            out[full_name] = torch.stack([low, tensor], dim=-1).view(torch.bfloat16)[..., 0]
        elif not (name.endswith(LOW) and name.removesuffix(LOW) + HIGH in tensors):
            out[name] = tensor
    return out


def unpacked(tensors: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """Return the tensors of ``packed`` in ``dtype``; ``ValueError`` names one that is broken."""
    out: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if name.endswith(_SCALES):
            continue
        if not name.endswith(_CODES):
            out[name] = tensor.to(dtype)
            continue
        full_name = name.removesuffix(_CODES)
        scales = tensors.get(full_name + _SCALES)
        if scales is None:
            raise ValueError(f"{full_name} has codes and no scales")
        try:
            out[full_name] = unpack(tensor, scales).to(dtype)
        except ValueError as error:
            raise ValueError(f"{full_name}: {error}") from error
    return out
