"""Matrices that take less space in a file than in memory, where they are unpacked.

A large reader has matrices of four bits or fewer: integer codes, and a scale for each group of a
row, chosen for the least squared error; a decoder's have a range for each group, its least number
and the step between its 16 codes. They compute unpacked, so that answers are the same on every
processor. Everything else is exact: matrices in bf16 may have their first and their
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
_RANGE_GROUP = 32  # numbers of a row that share a range
_LEAST_IN_RANGES = 1 << 12  # numbers of a matrix from which on it is packed in ranges
_CODES, _SCALES, _LEASTS = ".codes", ".scales", ".leasts"
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


def pack_ranges(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return codes of [N, K], two to a byte, [N, K / 2], and steps and least numbers in fp16.

    Both are [N, K / 32]. The same matrix comes back from what was packed so before.
    """
    groups = matrix.detach().float().cpu().view(len(matrix), -1, _RANGE_GROUP)
    numbers, steps, leasts = _ranges(groups)
    codes = numbers.to(torch.uint8).view(len(matrix), -1)
    return codes[:, 0::2] | codes[:, 1::2] << 4, steps[..., 0].half(), leasts[..., 0].half()


def rounded(matrix: Tensor) -> Tensor:
    """Return [N, K] as ``packed_ranges`` would keep it."""
    if not _is_in_ranges(matrix):
        return matrix
    numbers, steps, leasts = _ranges(matrix.view(len(matrix), -1, _RANGE_GROUP))
    return numbers.mul_(steps).add_(leasts).view_as(matrix)


def _is_in_ranges(tensor: Tensor) -> bool:
    """Return whether ``packed_ranges`` packs a tensor."""
    is_large = tensor.dim() == 2 and tensor.numel() >= _LEAST_IN_RANGES
    return is_large and tensor.shape[1] % _RANGE_GROUP == 0


def _ranges(groups: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the codes of groups [N, G, 32], steps and least numbers [N, G, 1], all in fp32."""
    least, largest = groups.aminmax(dim=-1, keepdim=True)
    steps = ((largest - least) / 15).half().float()
    least = least.half().float()
    numbers = ((groups - least) / steps.clamp(min=1e-8)).round_().clamp_(0, 15)
    return numbers, steps, least


def unpack(codes: Tensor, scales: Tensor, leasts: Tensor | None = None) -> Tensor:
    """Return the matrix [N, K] of what ``pack`` or ``pack_ranges`` returned, in fp32.

    Raises ``ValueError`` for types and shapes that do not belong together.
    """
    if codes.dtype != torch.uint8 or codes.dim() != 2 or scales.dim() != 2:
        raise ValueError(f"codes are {codes.dtype} {list(codes.shape)}, expected two to a byte")
    group = GROUP if leasts is None else _RANGE_GROUP
    if (len(scales), scales.shape[1] * group) != (len(codes), codes.shape[1] * 2):
        raise ValueError(f"codes {list(codes.shape)} do not belong to scales {list(scales.shape)}")
    if leasts is not None and leasts.shape != scales.shape:
        raise ValueError(
            f"scales {list(scales.shape)} do not belong to least numbers {list(leasts.shape)}"
        )
    # A look-up and a product in place, block by block: a fifth of the time of whole matrices, each
    # of whose steps would fill new memory.
    matrix = torch.empty(len(codes), codes.shape[1] * 2)
    pairs, numbers = matrix.numpy().view(np.float64), matrix.view(len(scales), -1, group)
    factors = scales[..., None].float()
    offsets = None if leasts is None else leasts[..., None].float() + _ZERO * factors
    rows = max(1, _BLOCK // codes.shape[1])
    for at in range(0, len(codes), rows):
        block = slice(at, at + rows)
        # any mode but the default writes without a copy; no byte is beyond the table
        np.take(_PAIRS_AS_ONE, codes[block].numpy(), out=pairs[block], mode="clip")
        numbers[block].mul_(factors[block])
        if offsets is not None:
            numbers[block].add_(offsets[block])
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


def packed_ranges(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors with large matrices packed by ``pack_ranges``; others in fp16."""
    out: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if _is_in_ranges(tensor):
            codes, steps, leasts = pack_ranges(tensor)
            out |= {name + _CODES: codes, name + _SCALES: steps, name + _LEASTS: leasts}
        else:
            out[name] = tensor.detach().cpu().half()
    return out


def split(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors with the bytes of large 16-bit matrices apart, under two endings.

    Of those in fp16 only what ``packed_ranges`` has beside its codes.
    """
    out: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        half = _type_of(name)
        least = _LEAST_IN_RANGES if half == torch.float16 else _LEAST
        if tensor.dtype == half and tensor.dim() == 2 and tensor.numel() >= least:
            low, high = tensor.contiguous().view(torch.uint8).unflatten(1, (-1, 2)).unbind(dim=-1)
            out[name + HIGH], out[name + LOW] = high.contiguous(), low.contiguous()
        else:
            out[name] = tensor
    return out


def _type_of(name: str) -> torch.dtype:
    """Return the type of 16 bits of a matrix that ``split`` takes apart."""
    return torch.float16 if name.endswith((_SCALES, _LEASTS)) else torch.bfloat16


def joined(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what ``split`` was given; ``ValueError`` names a matrix of which a part is missing."""
    out: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if name.endswith(HIGH):
            full_name = name.removesuffix(HIGH)
            low = tensors.get(full_name + LOW)
            if low is None or low.shape != tensor.shape or {low.dtype, tensor.dtype} != _BYTES:
                raise ValueError(f"{full_name} lacks its low bytes")
            both = torch.stack([low, tensor], dim=-1)
            out[full_name] = both.view(_type_of(full_name))[..., 0]
        elif not (name.endswith(LOW) and name.removesuffix(LOW) + HIGH in tensors):
            out[name] = tensor
    return out


def unpacked(tensors: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """Return the tensors of ``packed`` or ``packed_ranges`` in ``dtype``.

    ``ValueError`` names one that is broken.
    """
    out: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if name.endswith((_SCALES, _LEASTS)):
            continue
        if not name.endswith(_CODES):
            out[name] = tensor.to(dtype)
            continue
        full_name = name.removesuffix(_CODES)
        scales = tensors.get(full_name + _SCALES)
        if scales is None:
            raise ValueError(f"{full_name} has codes and no scales")
        try:
            out[full_name] = unpack(tensor, scales, tensors.get(full_name + _LEASTS)).to(dtype)
        except ValueError as error:
            raise ValueError(f"{full_name}: {error}") from error
    return out
