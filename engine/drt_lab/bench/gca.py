"""Other ways to compute grouped cross-attention, for ``drt bench``: what a kernel is compared with.

All take and give what ``drt_kernels.gca`` does, except ``sdpa_equal_work``. None is used to read
or answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from drt_kernels import gca

Gca = Callable[..., Tensor]
_BLOCK = 64  # rows of a query block of FlexAttention


@dataclass(frozen=True)
class Case:
    """The arguments of one call."""

    query: Tensor
    keys: Tensor
    values: Tensor
    mask: Tensor
    index: Tensor
    probabilities: Tensor

    @classmethod
    def random(cls, shape: GcaShape, *, device: torch.device, dtype: torch.dtype) -> Case:
        """Random numbers of one shape; each chunk retrieves some of all chunks."""
        generator = torch.Generator().manual_seed(0)
        rows, pool = (shape.batch, shape.chunks), shape.batch * shape.chunks

        def normal(*size: int) -> Tensor:
            return torch.randn(size, generator=generator).to(device, dtype)

        scores = torch.randn(*rows, shape.retrieved, generator=generator)
        index = torch.randint(pool, (*rows, shape.retrieved), generator=generator)
        memory = (pool, shape.memory, shape.kv_heads, shape.size)
        query_shape = (*rows, shape.tokens, shape.heads, shape.size)
        mask = torch.ones(memory[:2], dtype=torch.bool, device=device)
        probabilities = torch.softmax(scores, -1).to(device)
        return cls(
            normal(*query_shape),
            normal(*memory),
            normal(*memory),
            mask,
            index.to(device),
            probabilities,
        )

    def differentiable(self) -> list[Tensor]:
        """Make the arguments that have gradients ask for them, and return them."""
        inputs = [self.query, self.keys, self.values, self.probabilities]
        return [t.requires_grad_() for t in inputs]

    def call(self, form: Gca) -> Tensor:
        """Compute with one implementation."""
        return form(
            self.query,
            self.keys,
            self.values,
            mask=self.mask,
            index=self.index,
            probabilities=self.probabilities,
        )


@dataclass(frozen=True)
class GcaShape:
    """The sizes of one call: ``chunks`` of ``tokens`` in each stream of the batch."""

    batch: int
    chunks: int
    tokens: int
    memory: int
    retrieved: int
    heads: int
    kv_heads: int
    size: int

    @property
    def flops(self) -> float:
        """Operations of a forward pass: two products over all retrieved keys.

        A backward pass counts two and a half times as much, its recomputed scores included, as is
        the custom for attention that saves no weights.
        """
        rows = self.batch * self.chunks * self.tokens * self.heads
        return 4.0 * rows * self.retrieved * self.memory * self.size


def backend(name: str) -> Gca:
    """One of the implementations that ``drt_kernels.gca`` chooses among."""

    def form(*tensors: Tensor, **named: Tensor) -> Tensor:
        return gca(*tensors, **named, backend=name)  # type: ignore[arg-type]

    return form


def naive(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    mask: Tensor,
    index: Tensor,
    probabilities: Tensor,
    off_by_one: bool = True,
) -> Tensor:
    """Compute as the paper's "w/o Triton": one softmax and one output per chunk, summed at the end.

    Retrieved chunks are copied for every reader and head.
    """
    repeat = query.shape[3] // keys.shape[2]
    k = keys[index].repeat_interleave(repeat, dim=4)  # [B, C, R, S, H, D]
    v = values[index].repeat_interleave(repeat, dim=4)
    scores = torch.einsum("bcthd,bcrshd->bcrhts", query, k).float() * query.shape[-1] ** -0.5
    scores = scores.masked_fill(~mask[index][:, :, :, None, None], float("-inf"))
    if off_by_one:
        weights = torch.softmax(F.pad(scores, (0, 1)), dim=-1)[..., :-1]
    else:
        weights = torch.softmax(scores, dim=-1)
    apart = torch.einsum("bcrhts,bcrshd->bcrthd", weights.to(v.dtype), v)
    return torch.einsum("bcr,bcrthd->bcthd", probabilities.to(apart.dtype), apart)


def sdpa_gathered(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    mask: Tensor,
    index: Tensor,
    probabilities: Tensor,
    full_chunks: bool = False,
) -> Tensor:
    """PyTorch's attention once for each retrieved chunk, a key of zeros being the 1 in the softmax.

    ``whole`` says that no token is hidden: a mask keeps PyTorch from its fastest kernels, and
    looking at it would stop a GPU.
    """
    batch, chunks, tokens, heads, size = query.shape
    retrieved = index.shape[2]
    q = query.flatten(0, 1)[:, None].expand(-1, retrieved, -1, -1, -1).flatten(0, 1)
    k, v = (F.pad(t, (0, 0, 0, 0, 0, 1))[index.flatten()] for t in (keys, values))
    seen = F.pad(mask, (0, 1), value=True)[index.flatten()][:, None, None]
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    attention_mask = None if full_chunks else seen
    grouped = heads != keys.shape[2]
    apart = F.scaled_dot_product_attention(q, k, v, attn_mask=attention_mask, enable_gqa=grouped)
    apart = apart.transpose(1, 2).reshape(batch, chunks, retrieved, tokens, heads, size)
    return torch.einsum("bcr,bcrthd->bcthd", probabilities.to(apart.dtype), apart)


def sdpa_equal_work(case: Case) -> tuple[list[Tensor], Callable[[], Tensor]]:
    """Prepare the limit: attention of as many operations in one softmax, its keys copied before.

    Returns its inputs and the call.
    """
    groups = case.keys.shape[2]
    rows, heads = case.query.flatten(0, 1), case.query.shape[3]
    k, v = (
        t[case.index.flatten(0, 1)].flatten(1, 2).transpose(1, 2).contiguous().detach()
        for t in (case.keys, case.values)
    )
    q = rows.transpose(1, 2).contiguous().detach()

    def call() -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=heads != groups)

    return [q, k, v], call


def flex(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    mask: Tensor,  # noqa: ARG001  all forms of GCA are called alike; here the chunks are full
    index: Tensor,
    probabilities: Tensor,
    full_chunks: bool = False,
) -> Tensor:
    """FlexAttention over the pool: a copy of the queries for each retrieved chunk sees that chunk.

    The log-sum-exp turns its softmax into the softmax-off-by-one. Chunks must be ``whole``, with a
    length of a power of two; rows are padded to blocks. Raises ``ValueError`` for others.
    """
    if not full_chunks:
        raise ValueError("chunks may have hidden tokens, expected whole ones for FlexAttention")
    batch, chunks, tokens, heads, size = query.shape
    pool, slots = keys.shape[:2]
    retrieved, pad = index.shape[2], -tokens % _BLOCK
    q = F.pad(query.flatten(0, 1), (0, 0, 0, 0, 0, pad))[:, None]
    q = q.expand(-1, retrieved, -1, -1, -1).reshape(1, -1, heads, size).transpose(1, 2)
    k, v = (t.reshape(1, pool * slots, -1, size).transpose(1, 2) for t in (keys, values))
    blocks = index.flatten().repeat_interleave((tokens + pad) // _BLOCK)
    out, auxiliary = _compiled_flex()(
        q,
        k,
        v,
        block_mask=_block_mask(blocks, pool, slots),
        enable_gqa=heads != keys.shape[2],
        return_aux=_log_sum_exps(),
        kernel_options={"BLOCK_M": _BLOCK, "BLOCK_N": min(_BLOCK, slots)},
    )
    apart = (out * torch.sigmoid(auxiliary.lse)[..., None].to(out.dtype)).transpose(1, 2)
    apart = apart.reshape(batch, chunks, retrieved, tokens + pad, heads, size)[:, :, :, :tokens]
    return torch.einsum("bcr,bcrthd->bcthd", probabilities.to(apart.dtype), apart)


def _block_mask(blocks: Tensor, pool: int, slots: int) -> Any:
    """Each block of queries sees one chunk of the pool."""
    from torch.nn.attention.flex_attention import BlockMask

    columns = blocks.new_zeros(1, 1, len(blocks), pool, dtype=torch.int32)
    columns[0, 0, :, 0] = blocks.int()
    count = blocks.new_ones(1, 1, len(blocks), dtype=torch.int32)
    none = torch.zeros_like(count)

    def inside(_batch: Tensor, _head: Tensor, row: Tensor, seen: Tensor) -> Tensor:
        return blocks[row // _BLOCK] == seen // slots  # for the form without blocks: they are whole

    return BlockMask.from_kv_blocks(
        none, columns, count, columns, BLOCK_SIZE=(_BLOCK, slots), mask_mod=inside
    )


def _log_sum_exps() -> Any:
    from torch.nn.attention.flex_attention import AuxRequest

    return AuxRequest(lse=True)


@lru_cache(maxsize=1)
def _compiled_flex() -> Callable[..., Any]:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, dynamic=False)
