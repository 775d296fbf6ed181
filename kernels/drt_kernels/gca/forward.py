"""Triton forward kernel of grouped cross-attention and its launcher; saves only log-sum-exps.

Rows of a query tile are the T tokens of one chunk times the query heads that share a key head, so
each key and value is read once for all of them. Chunk memory is read through the index, in place.
Scores and log-sum-exps are to the base 2. README.md has the derivation.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from drt_kernels.gca.blocks import load_chunk, load_mask, load_tile, row_offsets, store_rows
from drt_kernels.gca.tiles import Problem, Tiles, tiles_for
from drt_kernels.launch import LOG2_E, strides
from drt_kernels.shapes import Retrieval


@triton.jit
def chunk_weights(b_q, b_k, m_s, b_missing, b_p, scale, OFF_BY_ONE: tl.constexpr):
    """Return attention weights [M, S] over one whole chunk times its probability; log-sum-exps [M].

    Keys that do not exist were loaded as zeros and have score 0, like the implicit extra key: with
    it, ``b_missing`` of them too many are in the sum, and their values are zeros. The plain softmax
    cannot use that. A row without any key gets weights 0 and log-sum-exp +inf, so that exp2(s -
    lse) is 0 later.
    """
    b_s = tl.dot(b_q, tl.trans(b_k), input_precision="ieee")
    if OFF_BY_ONE:
        b_peak = tl.maximum(tl.max(b_s, 1) * scale, 0.0)
        b_w = tl.exp2(b_s * scale - b_peak[:, None])
        b_sum = tl.sum(b_w, 1) + tl.exp2(-b_peak) * (1.0 - b_missing)
        b_lse = b_peak + tl.log2(b_sum)
    else:
        b_s = tl.where(m_s[None, :], b_s, float("-inf"))
        b_peak = tl.max(b_s, 1) * scale
        b_peak = tl.where(b_peak == float("-inf"), 0.0, b_peak)
        b_w = tl.exp2(b_s * scale - b_peak[:, None])
        b_sum = tl.sum(b_w, 1)
        b_some = b_sum > 0
        b_sum = tl.where(b_some, b_sum, 1.0)
        b_lse = tl.where(b_some, b_peak + tl.log2(b_sum), float("inf"))
    return b_w * (b_p / b_sum)[:, None], b_lse


@triton.jit
def online_block(b_q, b_k, b_v, m_s, b_o, b_peak, b_sum, scale):
    """Return the running output [M, D], maximum and sum [M] after one block of a long chunk."""
    b_s = tl.dot(b_q, tl.trans(b_k), input_precision="ieee") * scale
    b_s = tl.where(m_s[None, :], b_s, float("-inf"))
    b_new = tl.maximum(b_peak, tl.max(b_s, 1))
    b_safe = tl.where(b_new == float("-inf"), 0.0, b_new)
    b_old = tl.exp2(b_peak - b_safe)
    b_w = tl.exp2(b_s - b_safe[:, None])
    b_sum = b_sum * b_old + tl.sum(b_w, 1)
    b_o = tl.dot(b_w.to(b_v.dtype), b_v, b_o * b_old[:, None], input_precision="ieee")
    return b_o, b_new, b_sum


@triton.jit(do_not_specialize=["T", "S", "R", "tiles"])
def gca_fwd_kernel(
    p_query, p_keys, p_values, p_mask, p_count, p_index, p_prob, p_out, p_lse,
    scale, T, S, R, tiles,
    s_qn, s_qt, s_qh,
    s_kp, s_ks, s_kh, s_vp, s_vs, s_vh,
    SHARED: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, TAIL: tl.constexpr, BLOCK_S: tl.constexpr,
    WHOLE: tl.constexpr, OFF_BY_ONE: tl.constexpr,
):  # fmt: skip
    """Grid: (query chunks * tiles, Hk). One program: one tile of query rows, all R chunks.

    TAIL: rows of a second, smaller tile of the same program. WHOLE: a chunk fits BLOCK_S.
    """
    i_n, i_tile, i_h = tl.program_id(0) // tiles, tl.program_id(0) % tiles, tl.program_id(1)
    Hk = tl.num_programs(1)
    M = T * SHARED
    o_m = i_tile * BLOCK_M + tl.arange(0, BLOCK_M)
    m_m = o_m < M
    # The tile of query rows [M, D], and its output.
    b_q = load_tile(p_query, i_n, i_h, o_m, m_m, s_qn, s_qt, s_qh, SHARED, D, BLOCK_D)
    b_acc = tl.zeros([BLOCK_M, BLOCK_D], dtype=tl.float32)
    if TAIL:
        o_tail = BLOCK_M + tl.arange(0, TAIL)
        m_tail = o_tail < M
        b_qt = load_tile(p_query, i_n, i_h, o_tail, m_tail, s_qn, s_qt, s_qh, SHARED, D, BLOCK_D)
        b_acct = tl.zeros([TAIL, BLOCK_D], dtype=tl.float32)
    o_s = tl.arange(0, BLOCK_S)
    p_index += i_n.to(tl.int64) * R
    p_prob += i_n.to(tl.int64) * R
    p_lse += (i_n.to(tl.int64) * Hk + i_h) * R * M
    # Which chunk and which keys come next is known one round ahead, so that their loads can start
    # early: a load that waits for another is not pipelined.
    i_chunk = tl.load(p_index)
    m_s = load_mask(p_mask, i_chunk, o_s, S)
    for r in range(R):
        b_p = tl.load(p_prob + r)
        b_missing = BLOCK_S - tl.load(p_count + i_chunk)
        if WHOLE:
            b_k = load_chunk(p_keys, i_chunk, i_h, o_s, m_s, s_kp, s_ks, s_kh, D, BLOCK_D)
            b_v = load_chunk(p_values, i_chunk, i_h, o_s, m_s, s_vp, s_vs, s_vh, D, BLOCK_D)
            # The softmax is exact before the second product: all chunks add to one accumulator.
            b_w, b_lse = chunk_weights(b_q, b_k, m_s, b_missing, b_p, scale, OFF_BY_ONE)
            b_acc = tl.dot(b_w.to(b_v.dtype), b_v, b_acc, input_precision="ieee")
            tl.store(p_lse + o_m, b_lse, mask=m_m)
            if TAIL:
                b_w, b_lse = chunk_weights(b_qt, b_k, m_s, b_missing, b_p, scale, OFF_BY_ONE)
                b_acct = tl.dot(b_w.to(b_v.dtype), b_v, b_acct, input_precision="ieee")
                tl.store(p_lse + o_tail, b_lse, mask=m_tail)
        else:
            # The implicit extra key has score 0: the maximum starts there, and the sum at 1.
            b_peak = tl.full([BLOCK_M], 0.0 if OFF_BY_ONE else float("-inf"), dtype=tl.float32)
            b_sum = tl.full([BLOCK_M], 1.0 if OFF_BY_ONE else 0.0, dtype=tl.float32)
            b_o = tl.zeros([BLOCK_M, BLOCK_D], dtype=tl.float32)
            for first in range(0, S, BLOCK_S):
                o_b = first + o_s
                m_b = load_mask(p_mask, i_chunk, o_b, S)
                b_k = load_chunk(p_keys, i_chunk, i_h, o_b, m_b, s_kp, s_ks, s_kh, D, BLOCK_D)
                b_v = load_chunk(p_values, i_chunk, i_h, o_b, m_b, s_vp, s_vs, s_vh, D, BLOCK_D)
                b_o, b_peak, b_sum = online_block(b_q, b_k, b_v, m_b, b_o, b_peak, b_sum, scale)
            b_some = b_sum > 0
            b_sum = tl.where(b_some, b_sum, 1.0)
            b_lse = tl.where(b_some, b_peak + tl.log2(b_sum), float("inf"))
            b_acc += b_o * (b_p / b_sum)[:, None]
            tl.store(p_lse + o_m, b_lse, mask=m_m)
        i_chunk = tl.load(p_index + tl.minimum(r + 1, R - 1))
        m_s = load_mask(p_mask, i_chunk, o_s, S)
        p_lse += M
    H = Hk * SHARED
    s_on = tl.cast(T, tl.int64) * H * D  # the output is contiguous [N, T, H, D]
    o_out = row_offsets(i_n, i_h, o_m, s_on, H * D, D, SHARED)
    store_rows(p_out, o_out, b_acc, m_m, D, BLOCK_D)
    if TAIL:
        o_out = row_offsets(i_n, i_h, o_tail, s_on, H * D, D, SHARED)
        store_rows(p_out, o_out, b_acct, m_tail, D, BLOCK_D)


def gca_forward(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    retrieval: Retrieval,
    *,
    off_by_one: bool,
    tiles: Tiles | None = None,
) -> tuple[Tensor, Tensor]:
    """Launch the forward kernel; return the output and log-sum-exps to the base 2.

    ``query`` [N, T, H, D], ``keys``, ``values`` [P, S, Hk, D], mask [P, S], index and probabilities
    [N, R] (fp32) -> output [N, T, H, D], log-sum-exps [N, Hk, R, T * H / Hk]. The last dimension of
    query, keys and values must be dense; the other strides are free.
    """
    chunks, tokens, heads, size = query.shape
    memory, groups = keys.shape[1:3]
    retrieved = retrieval.index.shape[1]
    problem = Problem.of(query, keys)
    tiles = tiles or tiles_for("forward", problem)
    out = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    lse = torch.empty(
        (chunks, groups, retrieved, problem.rows), dtype=torch.float32, device=query.device
    )
    if lse.numel() == 0:
        return out.zero_(), lse
    count = tiles.count(problem.rows)
    gca_fwd_kernel[(chunks * count, groups)](
        p_query=query,
        p_keys=keys,
        p_values=values,
        p_mask=retrieval.mask.view(torch.uint8),
        p_count=retrieval.mask.sum(-1, dtype=torch.int32),
        p_index=retrieval.index,
        p_prob=retrieval.probabilities,
        p_out=out,
        p_lse=lse,
        scale=size**-0.5 * LOG2_E,
        T=tokens,
        S=memory,
        R=retrieved,
        tiles=count,
        **strides("nth", q=query),
        **strides("psh", k=keys, v=values),
        SHARED=heads // groups,
        **tiles.sizes(size),
        WHOLE=memory <= tiles.keys,
        OFF_BY_ONE=off_by_one,
        **tiles.options(),
    )
    return out, lse
