"""Grouped cross-attention of the few new tokens of a decoding step, without gradients.

What a chunk's tokens retrieve is settled at the chunk border, so ``decode_memory`` does there, once
for all tokens and layers, whatever does not depend on a query. ``gca_decode`` is then one product
with all keys, one softmax and one product with all values; on a GPU, a kernel that reads the stored
records, int8 ones too, through the index.
"""

from __future__ import annotations

import torch
from torch import Tensor

from drt_kernels.backend import Backends, Choice, choose
from drt_kernels.decode.dense import decode_dense, lay_out
from drt_kernels.decode.memory import ChunkRecords, DecodeMemory, check_records

_SIZES = (32, 64, 128)
_MAX_TOKENS = 4


def _load_kernels() -> None:
    import drt_kernels.decode.kernel  # noqa: F401  (registers the operator)


BACKENDS = Backends(
    operation="decoding",
    names=("dense", "reference", "triton"),
    kernels=("triton",),
    cpu="dense",
    fallback="dense",
    notes={"dense": "matrix products"},
    load=_load_kernels,
)


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
    check_records(records, index, probabilities)
    name = _choose(records, backend).name
    memory = DecodeMemory(name, records, index, probabilities, off_by_one)
    if name != "dense":
        return memory
    # On a CPU fp32 products of so few rows take two thirds of the time of bf16 ones.
    dtype = torch.float64 if probabilities.dtype == torch.float64 else torch.float32
    return lay_out(memory, dtype)


@torch.no_grad()
def gca_decode(query: Tensor, memory: DecodeMemory) -> Tensor:
    """Attend with 1 to 4 new tokens per row, ``query`` [B, T, H, D], to what the row retrieved.

    Returns [B, T, H, D]. Raises ``ValueError`` for shapes that do not fit. Source: arXiv
    2410.01651, section 3.2.
    """
    _check_query(query, memory)
    if memory.backend == "dense":
        return decode_dense(query, memory)
    if memory.backend == "reference":
        from drt_kernels.decode.reference import decode_reference

        return decode_reference(query, memory)
    from drt_kernels.decode.kernel import decode_triton

    return decode_triton(query, memory)


def explain_decode(records: ChunkRecords, backend: str | None = None) -> str:
    """Return the implementation that ``decode_memory`` chooses for these records, and why."""
    return str(_choose(records, backend))


def _choose(records: ChunkRecords, backend: str | None) -> Choice:
    return choose(BACKENDS, records.keys, _limits, backend=backend).runnable()


def _limits(keys: Tensor) -> str | None:
    if keys.shape[3] not in _SIZES:
        return f"head size is {keys.shape[3]}, expected one of {_SIZES}"
    return "the records are torch.float64" if keys.dtype == torch.float64 else None


def _check_query(query: Tensor, memory: DecodeMemory) -> None:
    if query.dim() != 4:
        raise ValueError(f"query has {query.dim()} dimensions, expected 4: [B, T, H, D]")
    batch, tokens, heads, size = query.shape
    groups, stored_size = memory.records.keys.shape[2:]
    if batch != len(memory.index):
        raise ValueError(f"query has {batch} rows, what was retrieved {len(memory.index)}")
    if not 1 <= tokens <= _MAX_TOKENS:
        raise ValueError(f"query has {tokens} tokens per row, expected 1 to {_MAX_TOKENS}")
    if size != stored_size:
        raise ValueError(f"head size of the records is {stored_size}, of the query {size}")
    if heads % groups:
        raise ValueError(f"{heads} query heads cannot share {groups} key/value heads")
