"""Triton kernel over query tiles for the gradients of grouped cross-attention, and its launcher.

Gives the gradients of queries and retrieval probabilities, and the scalar ``b = g . o_r`` of each
row and retrieved chunk, which ``backward_memory.py`` needs. Attention is recomputed from the
log-sum-exps. README.md has the derivation and why nothing else is saved.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from drt_kernels.gca.blocks import (
    chunk_offsets,
    load_chunk,
    load_mask,
    load_tile,
    row_offsets,
    store_rows,
)
from drt_kernels.gca.tiles import Problem, Tiles, tiles_for
from drt_kernels.launch import LOG2_E, strides
from drt_kernels.shapes import Retrieval


@triton.jit
def attention_and_gradient(b_q, b_g, b_k, b_v, b_lse, scale):
    """Return attention a [M, S], recomputed, and its gradient da = g . v [M, S].

    Keys that do not exist were loaded as zeros, so their a is wrong but finite (no a is above 1),
    their da is 0, and neither b nor the query's gradient sees them.
    """
    b_s = tl.dot(b_q, tl.trans(b_k), input_precision="ieee")
    b_a = tl.exp2(tl.minimum(b_s * scale - b_lse[:, None], 0.0))
    b_da = tl.dot(b_g, tl.trans(b_v), input_precision="ieee")
    return b_a, b_da


@triton.jit
def query_step(b_k, b_a, b_da, b_delta, b_p, b_dq):
    """Return weights w = p a and score gradients ds [M, S]; b_dq [M, D] with these keys added."""
    b_w = b_a * b_p
    b_ds = b_w * (b_da - b_delta[:, None])
    b_dq = tl.dot(b_ds.to(b_k.dtype), b_k, b_dq, input_precision="ieee")
    return b_w, b_ds, b_dq


@triton.jit
def store_stats(p_stats, o_m, b_lse, b_delta, m_m):
    """Write log-sum-exp and b of rows ``o_m`` side by side, [M, 2]."""
    o = o_m[:, None] * 2 + tl.arange(0, 2)[None, :]
    tl.store(p_stats + o, tl.join(b_lse, b_delta), mask=m_m[:, None])


@triton.jit
def add_memory(
    p_dk, p_dv, offsets, b_q, b_g, b_w, b_ds, m_s, D: tl.constexpr, BLOCK_D: tl.constexpr
):
    """Add what one query tile gives to keys and values of one chunk, by atomics."""
    o_d = tl.arange(0, BLOCK_D)
    m_d = m_s[:, None] & (o_d < D)[None, :]
    b_dk = tl.dot(tl.trans(b_ds.to(b_q.dtype)), b_q, input_precision="ieee")
    b_dv = tl.dot(tl.trans(b_w.to(b_g.dtype)), b_g, input_precision="ieee")
    o = offsets[:, None] + o_d[None, :]
    tl.atomic_add(p_dk + o, b_dk, mask=m_d, sem="relaxed")
    tl.atomic_add(p_dv + o, b_dv, mask=m_d, sem="relaxed")


@triton.jit(do_not_specialize=["T", "S", "R", "tiles"])
def gca_bwd_query_kernel(
    p_grad, p_query, p_keys, p_values, p_mask, p_index, p_prob, p_lse,
    p_dq, p_dprob, p_stats, p_dk, p_dv,
    scale, slope, T, S, R, tiles,
    s_gn, s_gt, s_gh, s_qn, s_qt, s_qh,
    s_kp, s_ks, s_kh, s_vp, s_vs, s_vh,
    SHARED: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, TAIL: tl.constexpr, BLOCK_S: tl.constexpr,
    WHOLE: tl.constexpr, STATS: tl.constexpr, ATOMIC: tl.constexpr,
):  # fmt: skip
    """Grid: (query chunks * tiles, Hk). One program: one tile of query rows, all R chunks.

    TAIL: rows of a second, smaller tile of the same program. WHOLE: a chunk fits BLOCK_S. STATS:
    write log-sum-exp and b of each row, side by side. ATOMIC: also add the gradients of keys and
    values (fp32, contiguous).
    """
    i_n, i_tile, i_h = tl.program_id(0) // tiles, tl.program_id(0) % tiles, tl.program_id(1)
    Hk = tl.num_programs(1)
    M = T * SHARED
    o_m = i_tile * BLOCK_M + tl.arange(0, BLOCK_M)
    m_m = o_m < M
    # The tile of query rows and the gradient of their output, both [M, D].
    b_q = load_tile(p_query, i_n, i_h, o_m, m_m, s_qn, s_qt, s_qh, SHARED, D, BLOCK_D)
    b_g = load_tile(p_grad, i_n, i_h, o_m, m_m, s_gn, s_gt, s_gh, SHARED, D, BLOCK_D)
    b_dq = tl.zeros([BLOCK_M, BLOCK_D], dtype=tl.float32)
    if TAIL:
        o_t = BLOCK_M + tl.arange(0, TAIL)
        m_t = o_t < M
        b_qt = load_tile(p_query, i_n, i_h, o_t, m_t, s_qn, s_qt, s_qh, SHARED, D, BLOCK_D)
        b_gt = load_tile(p_grad, i_n, i_h, o_t, m_t, s_gn, s_gt, s_gh, SHARED, D, BLOCK_D)
        b_dqt = tl.zeros([TAIL, BLOCK_D], dtype=tl.float32)
    o_s = tl.arange(0, BLOCK_S)
    # Move all pointers to this query chunk and key head.
    s_dp = tl.cast(S, tl.int64) * Hk * D
    p_index += i_n.to(tl.int64) * R
    p_prob += i_n.to(tl.int64) * R
    p_lse += (i_n.to(tl.int64) * Hk + i_h) * R * M
    p_stats += (i_n.to(tl.int64) * Hk + i_h) * R * M * 2
    p_dprob += i_n.to(tl.int64) * R * Hk * tiles + i_h * tiles + i_tile
    # As in the forward kernel, which chunk and which keys come next is known one round ahead.
    i_chunk = tl.load(p_index)
    m_s = load_mask(p_mask, i_chunk, o_s, S)
    for r in range(R):
        b_p = tl.load(p_prob + r)
        b_lse = tl.load(p_lse + o_m, mask=m_m, other=0.0)
        b_delta = tl.zeros([BLOCK_M], dtype=tl.float32)
        b_dprob = 0.0
        if WHOLE:
            b_k = load_chunk(p_keys, i_chunk, i_h, o_s, m_s, s_kp, s_ks, s_kh, D, BLOCK_D)
            b_v = load_chunk(p_values, i_chunk, i_h, o_s, m_s, s_vp, s_vs, s_vh, D, BLOCK_D)
            b_a, b_da = attention_and_gradient(b_q, b_g, b_k, b_v, b_lse, scale)
            # b = g . o_r, the sum that the softmax's gradient takes off, [M].
            b_delta = tl.sum(b_a * b_da, 1)
            b_w, b_ds, b_dq = query_step(b_k, b_a, b_da, b_delta, b_p, b_dq)
            if ATOMIC:
                o_dk = chunk_offsets(i_chunk, i_h, o_s, s_dp, Hk * D, D)
                add_memory(p_dk, p_dv, o_dk, b_q, b_g, b_w, b_ds * slope, m_s, D, BLOCK_D)
            if TAIL:
                b_lset = tl.load(p_lse + o_t, mask=m_t, other=0.0)
                b_a, b_da = attention_and_gradient(b_qt, b_gt, b_k, b_v, b_lset, scale)
                b_tail = tl.sum(b_a * b_da, 1)
                b_w, b_ds, b_dqt = query_step(b_k, b_a, b_da, b_tail, b_p, b_dqt)
                if STATS:
                    store_stats(p_stats, o_t, b_lset, b_tail, m_t)
                if ATOMIC:
                    add_memory(p_dk, p_dv, o_dk, b_qt, b_gt, b_w, b_ds * slope, m_s, D, BLOCK_D)
                b_dprob += tl.sum(b_tail, 0)
        else:
            # b needs the whole chunk before the first gradient: a chunk longer than a tile is read
            # twice.
            for first in range(0, S, BLOCK_S):
                o_b = first + o_s
                m_b = load_mask(p_mask, i_chunk, o_b, S)
                b_k = load_chunk(p_keys, i_chunk, i_h, o_b, m_b, s_kp, s_ks, s_kh, D, BLOCK_D)
                b_v = load_chunk(p_values, i_chunk, i_h, o_b, m_b, s_vp, s_vs, s_vh, D, BLOCK_D)
                b_a, b_da = attention_and_gradient(b_q, b_g, b_k, b_v, b_lse, scale)
                b_delta += tl.sum(b_a * b_da, 1)
            for first in range(0, S, BLOCK_S):
                o_b = first + o_s
                m_b = load_mask(p_mask, i_chunk, o_b, S)
                b_k = load_chunk(p_keys, i_chunk, i_h, o_b, m_b, s_kp, s_ks, s_kh, D, BLOCK_D)
                b_v = load_chunk(p_values, i_chunk, i_h, o_b, m_b, s_vp, s_vs, s_vh, D, BLOCK_D)
                b_a, b_da = attention_and_gradient(b_q, b_g, b_k, b_v, b_lse, scale)
                b_w, b_ds, b_dq = query_step(b_k, b_a, b_da, b_delta, b_p, b_dq)
                if ATOMIC:
                    o_dk = chunk_offsets(i_chunk, i_h, o_b, s_dp, Hk * D, D)
                    add_memory(p_dk, p_dv, o_dk, b_q, b_g, b_w, b_ds * slope, m_b, D, BLOCK_D)
        if STATS:
            store_stats(p_stats, o_m, b_lse, b_delta, m_m)
        tl.store(p_dprob, b_dprob + tl.sum(b_delta, 0))
        i_chunk = tl.load(p_index + tl.minimum(r + 1, R - 1))
        m_s = load_mask(p_mask, i_chunk, o_s, S)
        p_lse += M
        p_stats += 2 * M
        p_dprob += Hk * tiles
    H = Hk * SHARED
    s_dn = tl.cast(T, tl.int64) * H * D  # contiguous [N, T, H, D]
    o_dq = row_offsets(i_n, i_h, o_m, s_dn, H * D, D, SHARED)
    store_rows(p_dq, o_dq, b_dq * slope, m_m, D, BLOCK_D)
    if TAIL:
        o_dt = row_offsets(i_n, i_h, o_t, s_dn, H * D, D, SHARED)
        store_rows(p_dq, o_dt, b_dqt * slope, m_t, D, BLOCK_D)


def gca_backward_query(
    grad: Tensor,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    retrieval: Retrieval,
    *,
    lse: Tensor,
    sums: tuple[Tensor, Tensor] | None = None,
    keep_stats: bool = True,
    tiles: Tiles | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Launch the kernel over query tiles.

    Returns the gradients of ``query`` [N, T, H, D] and of the probabilities [N, R], and ``stats``,
    log-sum-exp and b of each row and retrieved chunk side by side, [N, Hk, R, T * H / Hk, 2] (empty
    without ``keep_stats``). With ``sums``, zeroed fp32 tensors in the shape of the keys,
    contiguous, it adds the gradients of keys and values to them by atomics: one kernel, five
    products instead of seven, and an order of summation that differs from run to run.
    """
    chunks, tokens, heads, size = query.shape
    memory, groups = keys.shape[1:3]
    retrieved = retrieval.index.shape[1]
    problem = Problem.of(query, keys)
    tiles = tiles or tiles_for("query", problem)
    count = tiles.count(problem.rows)
    dq = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    stats = torch.empty(
        (*lse.shape, 2) if keep_stats else (0,), dtype=torch.float32, device=query.device
    )
    # Each tile and key head writes its own part of dp: no atomics, the same sum every time.
    parts = torch.empty(
        (chunks, retrieved, groups * count), dtype=torch.float32, device=query.device
    )
    if dq.numel() == 0 or parts.numel() == 0:
        return dq.zero_(), parts.sum(-1), stats
    dk, dv = sums or (dq, dq)  # not touched without sums
    gca_bwd_query_kernel[(chunks * count, groups)](
        p_grad=grad,
        p_query=query,
        p_keys=keys,
        p_values=values,
        p_mask=retrieval.mask.view(torch.uint8),
        p_index=retrieval.index,
        p_prob=retrieval.probabilities,
        p_lse=lse,
        p_dq=dq,
        p_dprob=parts,
        p_stats=stats,
        p_dk=dk,
        p_dv=dv,
        scale=size**-0.5 * LOG2_E,
        slope=size**-0.5,
        T=tokens,
        S=memory,
        R=retrieved,
        tiles=count,
        **strides("nth", g=grad, q=query),
        **strides("psh", k=keys, v=values),
        SHARED=heads // groups,
        **tiles.sizes(size),
        WHOLE=memory <= tiles.keys,
        STATS=keep_stats,
        ATOMIC=sums is not None,
        **tiles.options(),
    )
    return dq, parts.sum(-1), stats
