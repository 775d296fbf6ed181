"""Triton kernels of a decoding step.

One program reads some of the chunks that a row retrieved for one key head; a small second kernel
adds the parts.

Every chunk has a softmax of its own, so parts are sums and nothing is rescaled. int8 numbers are
multiplied as they are, which bf16 holds exactly; a key's scale is applied to its score, a value's
scale to its weight. No host synchronisation and no memory outside PyTorch's allocator, so a step
can be captured in a graph. Registered as one operator.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from drt_kernels.decode.memory import DecodeMemory
from drt_kernels.launch import LOG2_E, dense_rows, power_of_two, strides

_ROWS = 16  # the fewest that matrix units multiply
_MAX_NUMBERS = 8192  # in a tile of keys; longer chunks are read tile by tile


@triton.jit(do_not_specialize=["T", "S", "R", "each"])
def gca_decode_kernel(
    p_query, p_keys, p_values, p_mask, p_key_scales, p_value_scales, p_index, p_prob, p_parts,
    scale, T, S, R, each,
    s_qb, s_qt, s_qh,
    s_kp, s_ks, s_kh, s_vp, s_vs, s_vh,
    SHARED: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_S: tl.constexpr,
    OFF_BY_ONE: tl.constexpr, INT8: tl.constexpr,
):  # fmt: skip
    """Grid: (B, Hk, parts); one program reads ``each`` of the R chunks of one row and key head.

    Rows of the query are T * SHARED. Writes parts [parts, B, T, H, D].
    """
    i_b, i_h, i_part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    B, Hk = tl.num_programs(0), tl.num_programs(1)
    o_m, o_s, o_d = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_S), tl.arange(0, D)
    m_m = o_m < T * SHARED
    i_head = i_h * SHARED + o_m % SHARED
    o_q = i_b.to(tl.int64) * s_qb + (o_m // SHARED).to(tl.int64) * s_qt + i_head.to(tl.int64) * s_qh
    # Query rows [M, D]; the sum over this program's chunks [M, D].
    b_q = tl.load(p_query + o_q[:, None] + o_d[None, :], mask=m_m[:, None], other=0.0)
    b_acc = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    p_index += i_b.to(tl.int64) * R
    p_prob += i_b.to(tl.int64) * R
    for r in range(i_part * each, tl.minimum(R, i_part * each + each)):
        b_p = tl.load(p_prob + r).to(tl.float32)
        i_chunk = tl.load(p_index + r).to(tl.int64)
        if b_p != 0:
            # The implicit extra key has score 0: the maximum starts there, and the sum at 1.
            b_peak = tl.full([BLOCK_M], 0.0 if OFF_BY_ONE else float("-inf"), dtype=tl.float32)
            b_sum = tl.full([BLOCK_M], 1.0 if OFF_BY_ONE else 0.0, dtype=tl.float32)
            b_o = tl.zeros([BLOCK_M, D], dtype=tl.float32)
            for first in range(0, S, BLOCK_S):
                o_at = (first + o_s).to(tl.int64)
                # Keys and values are asked for before the mask is known: one latency less.
                m_in = first + o_s < S
                m_s = tl.load(p_mask + i_chunk * S + o_at, mask=m_in, other=0) != 0
                o_k = i_chunk * s_kp + o_at * s_ks + i_h.to(tl.int64) * s_kh
                o_v = i_chunk * s_vp + o_at * s_vs + i_h.to(tl.int64) * s_vh
                b_k = tl.load(p_keys + o_k[:, None] + o_d[None, :], mask=m_in[:, None], other=0)
                b_v = tl.load(p_values + o_v[:, None] + o_d[None, :], mask=m_in[:, None], other=0)
                b_k = b_k.to(tl.float32).to(b_q.dtype)
                b_v = tl.where(m_s[:, None], b_v.to(tl.float32), 0.0).to(b_q.dtype)
                # Scores [M, S] to the base 2.
                b_s = tl.dot(b_q, tl.trans(b_k), input_precision="ieee") * scale
                if INT8:
                    o_scale = (i_chunk * S + o_at) * Hk + i_h
                    b_ks = tl.load(p_key_scales + o_scale, mask=m_in, other=0.0)
                    b_vs = tl.load(p_value_scales + o_scale, mask=m_in, other=0.0)
                    b_s = b_s * b_ks.to(tl.float32)[None, :]
                b_s = tl.where(m_s[None, :], b_s, float("-inf"))
                # Online softmax: rescale what was summed by the change of the maximum.
                b_new = tl.maximum(b_peak, tl.max(b_s, 1))
                b_safe = tl.where(b_new == float("-inf"), 0.0, b_new)
                b_old = tl.exp2(b_peak - b_safe)
                b_w = tl.exp2(b_s - b_safe[:, None])
                b_sum = b_sum * b_old + tl.sum(b_w, 1)
                if INT8:
                    b_w = b_w * tl.where(m_s, b_vs.to(tl.float32), 0.0)[None, :]
                b_o = tl.dot(b_w.to(b_q.dtype), b_v, b_o * b_old[:, None], input_precision="ieee")
                b_peak = b_new
            # Chunks are added by retrieval probability; one without any key has the sum 0.
            b_acc += b_o * (b_p / tl.where(b_sum > 0, b_sum, 1.0))[:, None]
    H = Hk * SHARED
    o_row = ((i_part.to(tl.int64) * B + i_b) * T + o_m // SHARED) * H + i_head
    p_out = p_parts + o_row[:, None] * D + o_d[None, :]
    tl.store(p_out, b_acc.to(p_parts.dtype.element_ty), mask=m_m[:, None])


@triton.jit(do_not_specialize=["parts", "count"])
def gca_decode_sum_kernel(p_parts, p_out, parts, count, BLOCK: tl.constexpr):
    """Add fp32 parts [parts, count] in order, so that the result is the same every time."""
    o_n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m_n = o_n < count
    b_sum = tl.zeros([BLOCK], dtype=tl.float32)
    for part in range(parts):
        b_sum += tl.load(p_parts + tl.cast(part, tl.int64) * count + o_n, mask=m_n, other=0.0)
    tl.store(p_out + o_n, b_sum.to(p_out.dtype.element_ty), mask=m_n)


def decode_triton(query: Tensor, memory: DecodeMemory) -> Tensor:
    """Compute what ``decode_reference`` computes, in the query's type."""
    records = memory.records
    return _decode_op(  # type: ignore[no-any-return]
        query,
        records.keys,
        records.values,
        records.mask,
        records.key_scales,
        records.value_scales,
        memory.index,
        memory.probabilities,
        memory.off_by_one,
    )


@torch.library.custom_op("drt_kernels::gca_decode", mutates_args=())
def _decode_op(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor,
    key_scales: Tensor | None,
    value_scales: Tensor | None,
    index: Tensor,
    probabilities: Tensor,
    off_by_one: bool,
) -> Tensor:
    batch, tokens, heads, size = query.shape
    memory, groups = keys.shape[1:3]
    retrieved = index.shape[1]
    query, keys, values = (dense_rows(t) for t in (query, keys, values))
    each = _chunks_of_a_program(batch * groups, retrieved, query.device)
    parts = -(-retrieved // each) if retrieved else 1
    out = torch.empty((batch, tokens, heads, size), dtype=query.dtype, device=query.device)
    sums = out if parts == 1 else out.new_empty((parts, *out.shape), dtype=torch.float32)
    gca_decode_kernel[(batch, groups, parts)](
        p_query=query,
        p_keys=keys,
        p_values=values,
        p_mask=mask.contiguous().view(torch.uint8),
        p_key_scales=None if key_scales is None else key_scales.contiguous(),
        p_value_scales=None if value_scales is None else value_scales.contiguous(),
        p_index=index.contiguous(),
        p_prob=probabilities.contiguous(),
        p_parts=sums,
        scale=size**-0.5 * LOG2_E,
        T=tokens,
        S=memory,
        R=retrieved,
        each=each,
        **strides("bth", q=query),
        **strides("psh", k=keys, v=values),
        SHARED=heads // groups,
        D=size,
        BLOCK_M=power_of_two(tokens * heads // groups, least=_ROWS),
        # Twice as many keys of head size 128 would not fit the registers.
        BLOCK_S=min(_MAX_NUMBERS // size, power_of_two(memory, least=_ROWS)),
        OFF_BY_ONE=off_by_one,
        INT8=keys.dtype == torch.int8,
        num_warps=4,
        num_stages=1,
    )
    if parts > 1:
        block = 1024
        gca_decode_sum_kernel[(-(-out.numel() // block),)](
            p_parts=sums,
            p_out=out,
            parts=parts,
            count=out.numel(),
            BLOCK=block,
            num_warps=4,
        )
    return out


@_decode_op.register_fake
def _(query: Tensor, *_: object) -> Tensor:
    return query.new_empty(query.shape)


def _chunks_of_a_program(rows: int, retrieved: int, device: torch.device) -> int:
    """Return how many chunks one program reads, so that all multiprocessors have a program.

    Where the rows alone fill the GPU, there is one part and no second kernel.
    """
    units = 8
    if device.type == "cuda":
        units = torch.cuda.get_device_properties(device).multi_processor_count
    parts = min(max(1, retrieved), max(1, -(-units // rows)))
    return -(-max(1, retrieved) // parts)
