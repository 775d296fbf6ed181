"""Grouped cross-attention of the few new tokens of a decoding step, without gradients.

What a chunk's tokens retrieve is settled at the chunk border, so ``decode_memory`` does there, once
for all tokens and layers, whatever does not depend on a query. ``gca_decode`` is then one product
with all keys, one softmax and one product with all values; on a GPU, a kernel that reads the stored
records, int8 ones too, through the index.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from drt_kernels.backend import Choice
from drt_kernels.interpreter import interpreting, mend_interpreter

_BACKENDS = ("dense", "reference", "triton")
_SIZES = (32, 64, 128)
_MOST_TOKENS = 4
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

    def chosen(self, index: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        """Keys, values [.., R, S, Hk, D] and mask [.., R, S] of chunks ``index`` [.., R]; zeros for
        tokens that do not exist.
        """
        mask = self.mask[index]
        keys = _numbers(self.keys, self.key_scales, index, dtype)
        values = _numbers(self.values, self.value_scales, index, dtype)
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


def decode_memory(
    records: ChunkRecords,
    index: Tensor,
    *,
    probabilities: Tensor,
    off_by_one: bool = True,
    backend: str | None = None,
) -> DecodeMemory:
    """Lay out what one chunk of each row retrieved: ``index``, ``probabilities`` [B, R].

    The kernel keeps both tensors: a captured graph reads what is later written into them. A chunk
    of probability 0 is not read. Raises ``ValueError`` for shapes that do not fit, an unknown
    backend, or a named one that cannot run here.
    """
    _check(records, index, probabilities)
    name = _choose(records, backend).name
    memory = DecodeMemory(name, records, index, probabilities, off_by_one)
    if name != "dense":
        return memory
    # On a CPU fp32 products of so few rows take two thirds of the time of bf16 ones.
    dtype = torch.float64 if probabilities.dtype == torch.float64 else torch.float32
    return _laid_out(memory, dtype)


@torch.no_grad()
def gca_decode(query: Tensor, memory: DecodeMemory) -> Tensor:
    """Grouped cross-attention of 1 to 4 new tokens per row, ``query`` [B, T, H, D] -> the same.

    Raises ``ValueError`` for shapes that do not fit. Source: arXiv 2410.01651, section 3.2.
    """
    _check_query(query, memory)
    if memory.backend == "dense":
        return _dense(query, memory)
    if memory.backend == "reference":
        from drt_kernels.gca.decode_reference import decode_reference

        return decode_reference(query, memory)
    from drt_kernels.gca.decode_kernel import decode_triton

    return decode_triton(query, memory)


def explain_decode(records: ChunkRecords, backend: str | None = None) -> str:
    """Return the form that ``decode_memory`` chooses for these records, and the reason."""
    return str(_choose(records, backend))


def _numbers(stored: Tensor, scales: Tensor | None, index: Tensor, dtype: torch.dtype) -> Tensor:
    numbers = stored[index].to(dtype)
    return numbers if scales is None else numbers * scales[index][..., None].to(dtype)


def _laid_out(memory: DecodeMemory, dtype: torch.dtype) -> DecodeMemory:
    """A slot of zeros after each chunk is the 1 of the softmax-off-by-one: its score is 0."""
    keys, values, mask = memory.records.chosen(memory.index, dtype)
    batch, _, _, groups, size = keys.shape
    weights = memory.probabilities.to(dtype)[:, :, None, None, None]
    mask = mask & (weights != 0)[..., 0, 0]
    keys, values = (
        F.pad(t.masked_fill(weights == 0, 0.0), (0, 0, 0, 0, 0, 1))
        for t in (keys * size**-0.5, values * weights)
    )
    bias = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    bias = bias.masked_fill(~mask, float("-inf"))
    # Without the 1, the slot is seen only in a chunk that has no token at all.
    last = bias.new_zeros(bias.shape[:2])
    if not memory.off_by_one:
        last = last.masked_fill(mask.any(dim=-1), float("-inf"))
    bias = torch.cat([bias, last[..., None]], dim=-1).flatten(1)
    return DecodeMemory(
        **{
            **vars(memory),
            "keys": keys.permute(0, 3, 4, 1, 2).reshape(batch * groups, size, -1),
            "values": values.permute(0, 3, 1, 2, 4).reshape(batch * groups, -1, size),
            "bias": bias.repeat_interleave(groups, dim=0)[:, None],
        }
    )


def _dense(query: Tensor, memory: DecodeMemory) -> Tensor:
    keys, values, bias = memory.keys, memory.values, memory.bias
    assert keys is not None and values is not None and bias is not None
    batch, tokens, heads, size = query.shape
    groups, chunks = keys.shape[0] // batch, memory.index.shape[1]
    if not chunks:
        return torch.zeros_like(query)
    rows = query.to(keys.dtype).view(batch, tokens, groups, -1, size).transpose(1, 2)
    rows = rows.reshape(batch * groups, -1, size)
    # Autocast leaves products into given memory alone, and costs nothing that way.
    scores = keys.new_empty(*rows.shape[:2], keys.shape[2])
    torch.baddbmm(bias, rows, keys, out=scores)
    weights = torch.softmax(scores.view(*rows.shape[:2], chunks, -1), dim=-1).view_as(scores)
    out = torch.bmm(weights, values, out=torch.empty_like(rows))
    out = out.view(batch, groups, tokens, -1, size).transpose(1, 2)
    return out.reshape(query.shape).to(query.dtype)


def _choose(records: ChunkRecords, backend: str | None) -> Choice:
    if backend is not None:
        if backend not in _BACKENDS:
            raise ValueError(f"backend {backend!r} is unknown, expected one of {_BACKENDS}")
        problem = _triton_problem(records) if backend == "triton" else None
        if problem is not None:
            raise ValueError(f"backend {backend!r} cannot run: {problem}")
        return Choice(backend, "asked for by name")
    if not records.keys.is_cuda:
        return Choice("dense", f"matrix products, as the records are on {records.keys.device}")
    problem = _triton_problem(records)
    if problem is None:
        return Choice("triton", f"the records are on {records.keys.device}")
    warnings.warn(f"{problem}: decoding runs without its kernel", RuntimeWarning, stacklevel=4)
    return Choice("dense", f"matrix products, as {problem}")


def _triton_problem(records: ChunkRecords) -> str | None:
    if not records.keys.is_cuda and not interpreting():
        return f"the records are on {records.keys.device}, and TRITON_INTERPRET=1 is not set"
    if records.keys.shape[3] not in _SIZES:
        return f"head size is {records.keys.shape[3]}, expected one of {_SIZES}"
    if records.keys.dtype == torch.float64:
        return "the records are torch.float64"
    try:
        import drt_kernels.gca.decode_kernel  # noqa: F401  (registers the operator)
    except Exception as error:  # whatever a broken installation raises is the reason to report
        return f"importing Triton failed with {type(error).__name__}: {error}"
    if interpreting():
        mend_interpreter()
    return None


def _check(records: ChunkRecords, index: Tensor, probabilities: Tensor) -> None:
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


def _check_query(query: Tensor, memory: DecodeMemory) -> None:
    if query.dim() != 4:
        raise ValueError(f"query has {query.dim()} dimensions, expected 4: [B, T, H, D]")
    batch, tokens, heads, size = query.shape
    groups, wanted = memory.records.keys.shape[2:]
    if batch != len(memory.index):
        raise ValueError(f"query has {batch} rows, what was retrieved {len(memory.index)}")
    if not 1 <= tokens <= _MOST_TOKENS:
        raise ValueError(f"query has {tokens} tokens per row, expected 1 to {_MOST_TOKENS}")
    if size != wanted:
        raise ValueError(f"head size of the records is {wanted}, of the query {size}")
    if heads % groups:
        raise ValueError(f"{heads} query heads cannot share {groups} key/value heads")
