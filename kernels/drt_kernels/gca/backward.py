"""Triton kernels for the gradients of grouped cross-attention, and their launchers.

Attention is recomputed from the log-sum-exps. ``gca_bwd_query_kernel`` is parallel over query
tiles: gradients of queries and retrieval probabilities, and the scalar ``b = g . o_r`` of each row
and retrieved chunk. ``gca_bwd_memory_kernel`` is parallel over pool chunks: gradients of keys and
values, in a fixed order. README.md has the derivation and why nothing else is saved.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from drt_kernels.gca.forward import (
    LOG2_E,
    chunk_offsets,
    load_mask,
    load_rows,
    problem_of,
    row_offsets,
    store_rows,
)
from drt_kernels.gca.inverse_index import InverseIndex, invert
from drt_kernels.gca.tiles import Tiles, tiles_for


@triton.jit
def attention_and_gradient(b_q, b_g, b_k, b_v, b_lse, scale):
    """Attention a [M, S], recomputed, and its gradient before the softmax's, da = g . v [M, S].

    Keys that do not exist were loaded as zeros, so their a is wrong but finite (no a is above 1),
    their da is 0, and neither b nor the query's gradient sees them.
    """
    b_s = tl.dot(b_q, tl.trans(b_k), input_precision="ieee")
    b_a = tl.exp2(tl.minimum(b_s * scale - b_lse[:, None], 0.0))
    b_da = tl.dot(b_g, tl.trans(b_v), input_precision="ieee")
    return b_a, b_da


@triton.jit
def store_stats(p_stats, o_m, b_lse, b_delta, m_m):
    """Write log-sum-exp and b of rows ``o_m`` side by side, [M, 2]."""
    o = o_m[:, None] * 2 + tl.arange(0, 2)[None, :]
    tl.store(p_stats + o, tl.join(b_lse, b_delta), mask=m_m[:, None])


@triton.jit
def load_stats(p_stats, o_m, m_m, STORED: tl.constexpr):
    """Log-sum-exp and b of rows ``o_m``; b is 0 where it is not STORED.

    Rows that do not exist get log-sum-exp 0: their query and gradient are zeros, so they add 0.
    """
    if STORED:
        o = o_m[:, None] * 2 + tl.arange(0, 2)[None, :]
        b_lse, b_delta = tl.split(tl.load(p_stats + o, mask=m_m[:, None], other=0.0))
    else:
        b_lse = tl.load(p_stats + o_m, mask=m_m, other=0.0)
        b_delta = tl.zeros_like(b_lse)
    return b_lse, b_delta


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
    p_grad,
    p_query,
    p_keys,
    p_values,
    p_mask,
    p_index,
    p_prob,
    p_lse,
    p_dq,
    p_dprob,
    p_stats,
    p_dk,
    p_dv,
    scale,
    slope,
    T,
    S,
    R,
    tiles,
    s_gn,
    s_gt,
    s_gh,
    s_qn,
    s_qt,
    s_qh,
    s_kp,
    s_ks,
    s_kh,
    s_vp,
    s_vs,
    s_vh,
    SHARED: tl.constexpr,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    TAIL: tl.constexpr,
    BLOCK_S: tl.constexpr,
    WHOLE: tl.constexpr,
    STATS: tl.constexpr,
    ATOMIC: tl.constexpr,
):
    """Grid: (query chunks * tiles, Hk). One program: one tile of query rows, all R chunks.

    STATS: write log-sum-exp and b of each row, side by side. ATOMIC: also add the gradients of keys
    and values (fp32, contiguous).
    """
    i_n, i_tile, i_h = tl.program_id(0) // tiles, tl.program_id(0) % tiles, tl.program_id(1)
    Hk = tl.num_programs(1)
    M = T * SHARED
    o_m = i_tile * BLOCK_M + tl.arange(0, BLOCK_M)
    m_m = o_m < M
    o_q = row_offsets(i_n, i_h, o_m, s_qn, s_qt, s_qh, SHARED)
    b_q = load_rows(p_query, o_q, m_m, D, BLOCK_D)
    o_g = row_offsets(i_n, i_h, o_m, s_gn, s_gt, s_gh, SHARED)
    b_g = load_rows(p_grad, o_g, m_m, D, BLOCK_D)
    b_dq = tl.zeros([BLOCK_M, BLOCK_D], dtype=tl.float32)
    if TAIL:
        o_t = BLOCK_M + tl.arange(0, TAIL)
        m_t = o_t < M
        o_qt = row_offsets(i_n, i_h, o_t, s_qn, s_qt, s_qh, SHARED)
        b_qt = load_rows(p_query, o_qt, m_t, D, BLOCK_D)
        o_gt = row_offsets(i_n, i_h, o_t, s_gn, s_gt, s_gh, SHARED)
        b_gt = load_rows(p_grad, o_gt, m_t, D, BLOCK_D)
        b_dqt = tl.zeros([TAIL, BLOCK_D], dtype=tl.float32)
    o_s = tl.arange(0, BLOCK_S)
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
            o_k = chunk_offsets(i_chunk, i_h, o_s, s_kp, s_ks, s_kh)
            b_k = load_rows(p_keys, o_k, m_s, D, BLOCK_D)
            o_v = chunk_offsets(i_chunk, i_h, o_s, s_vp, s_vs, s_vh)
            b_v = load_rows(p_values, o_v, m_s, D, BLOCK_D)
            b_a, b_da = attention_and_gradient(b_q, b_g, b_k, b_v, b_lse, scale)
            b_delta = tl.sum(b_a * b_da, 1)
            b_w = b_a * b_p
            b_ds = b_w * (b_da - b_delta[:, None])
            b_dq = tl.dot(b_ds.to(b_k.dtype), b_k, b_dq, input_precision="ieee")
            if ATOMIC:
                o_dk = chunk_offsets(i_chunk, i_h, o_s, s_dp, Hk * D, D)
                add_memory(p_dk, p_dv, o_dk, b_q, b_g, b_w, b_ds * slope, m_s, D, BLOCK_D)
            if TAIL:
                b_lset = tl.load(p_lse + o_t, mask=m_t, other=0.0)
                b_a, b_da = attention_and_gradient(b_qt, b_gt, b_k, b_v, b_lset, scale)
                b_tail = tl.sum(b_a * b_da, 1)
                b_w = b_a * b_p
                b_ds = b_w * (b_da - b_tail[:, None])
                b_dqt = tl.dot(b_ds.to(b_k.dtype), b_k, b_dqt, input_precision="ieee")
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
                o_k = chunk_offsets(i_chunk, i_h, o_b, s_kp, s_ks, s_kh)
                b_k = load_rows(p_keys, o_k, m_b, D, BLOCK_D)
                o_v = chunk_offsets(i_chunk, i_h, o_b, s_vp, s_vs, s_vh)
                b_v = load_rows(p_values, o_v, m_b, D, BLOCK_D)
                b_a, b_da = attention_and_gradient(b_q, b_g, b_k, b_v, b_lse, scale)
                b_delta += tl.sum(b_a * b_da, 1)
            for first in range(0, S, BLOCK_S):
                o_b = first + o_s
                m_b = load_mask(p_mask, i_chunk, o_b, S)
                o_k = chunk_offsets(i_chunk, i_h, o_b, s_kp, s_ks, s_kh)
                b_k = load_rows(p_keys, o_k, m_b, D, BLOCK_D)
                o_v = chunk_offsets(i_chunk, i_h, o_b, s_vp, s_vs, s_vh)
                b_v = load_rows(p_values, o_v, m_b, D, BLOCK_D)
                b_a, b_da = attention_and_gradient(b_q, b_g, b_k, b_v, b_lse, scale)
                b_w = b_a * b_p
                b_ds = b_w * (b_da - b_delta[:, None])
                b_dq = tl.dot(b_ds.to(b_k.dtype), b_k, b_dq, input_precision="ieee")
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


@triton.jit
def memory_step(b_k, b_v, b_q, b_g, b_lse, b_delta, b_p, b_dk, b_dv, scale, STORED: tl.constexpr):
    """Add what query rows b_q, b_g [M, D] give to keys and values of one chunk; all is [S, M].

    What keys that do not exist get here is wrong, stays in their own rows and is never written.
    """
    b_s = tl.dot(b_k, tl.trans(b_q), input_precision="ieee") * scale - b_lse[None, :]
    b_a = tl.exp2(b_s if STORED else tl.minimum(b_s, 0.0))
    b_da = tl.dot(b_v, tl.trans(b_g), input_precision="ieee")
    if not STORED:
        b_delta = tl.sum(b_a * b_da, 0)
    b_w = b_a * b_p
    b_dv = tl.dot(b_w.to(b_g.dtype), b_g, b_dv, input_precision="ieee")
    b_ds = b_w * (b_da - b_delta[None, :])
    b_dk = tl.dot(b_ds.to(b_q.dtype), b_q, b_dk, input_precision="ieee")
    return b_dk, b_dv


@triton.jit(do_not_specialize=["T", "S", "P"])
def gca_bwd_memory_kernel(
    p_grad,
    p_query,
    p_keys,
    p_values,
    p_mask,
    p_prob,
    p_stats,
    p_pairs,
    p_start,
    p_item,
    p_chunk,
    p_slot,
    p_dk,
    p_dv,
    p_partial,
    scale,
    slope,
    T,
    S,
    P,
    Hk,
    s_gn,
    s_gt,
    s_gh,
    s_qn,
    s_qt,
    s_qh,
    s_kp,
    s_ks,
    s_kh,
    s_vp,
    s_vs,
    s_vh,
    SHARED: tl.constexpr,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    TAIL: tl.constexpr,
    BLOCK_S: tl.constexpr,
    R: tl.constexpr,
    TILES: tl.constexpr,
    SEGMENT: tl.constexpr,
    STORED: tl.constexpr,
):
    """Grid: (items, Hk * key blocks). One program: one block of keys of one pool chunk, one segment
    of the pairs that retrieved it. R and TILES are constants since every round divides by them.
    """
    i_item, i_h, i_block = tl.program_id(0), tl.program_id(1) % Hk, tl.program_id(1) // Hk
    i_chunk = tl.load(p_chunk + i_item)
    if i_chunk >= P:
        return
    i_first = tl.load(p_item + i_chunk)
    i_rank = i_item - i_first
    several = tl.load(p_item + i_chunk + 1) - i_first > 1
    begin = tl.load(p_start + i_chunk) + i_rank * SEGMENT
    end = tl.minimum(begin + SEGMENT, tl.load(p_start + i_chunk + 1))
    M = T * SHARED
    o_s = i_block * BLOCK_S + tl.arange(0, BLOCK_S)
    m_s = load_mask(p_mask, i_chunk, o_s, S)
    o_k = chunk_offsets(i_chunk, i_h, o_s, s_kp, s_ks, s_kh)
    b_k = load_rows(p_keys, o_k, m_s, D, BLOCK_D)
    o_v = chunk_offsets(i_chunk, i_h, o_s, s_vp, s_vs, s_vh)
    b_v = load_rows(p_values, o_v, m_s, D, BLOCK_D)
    b_dk = tl.zeros([BLOCK_S, BLOCK_D], dtype=tl.float32)
    b_dv = tl.zeros([BLOCK_S, BLOCK_D], dtype=tl.float32)
    # One flat loop over pairs and their tiles, so that loads of the next are under way early.
    rounds = (end - begin).to(tl.int32) * TILES
    i_pair = tl.load(p_pairs + begin, mask=rounds > 0, other=0)
    for i in range(0, rounds):
        b_p = tl.load(p_prob + i_pair)
        i_n = i_pair // R
        p_row = p_stats + ((i_n * Hk + i_h) * R + i_pair % R) * M * (2 if STORED else 1)
        o_m = (i % TILES) * BLOCK_M + tl.arange(0, BLOCK_M)
        m_m = o_m < M
        o_q = row_offsets(i_n, i_h, o_m, s_qn, s_qt, s_qh, SHARED)
        b_q = load_rows(p_query, o_q, m_m, D, BLOCK_D)
        o_g = row_offsets(i_n, i_h, o_m, s_gn, s_gt, s_gh, SHARED)
        b_g = load_rows(p_grad, o_g, m_m, D, BLOCK_D)
        b_lse, b_delta = load_stats(p_row, o_m, m_m, STORED)
        b_dk, b_dv = memory_step(b_k, b_v, b_q, b_g, b_lse, b_delta, b_p, b_dk, b_dv, scale, STORED)
        if TAIL:
            o_t = BLOCK_M + tl.arange(0, TAIL)
            m_t = o_t < M
            o_q = row_offsets(i_n, i_h, o_t, s_qn, s_qt, s_qh, SHARED)
            b_q = load_rows(p_query, o_q, m_t, D, BLOCK_D)
            o_g = row_offsets(i_n, i_h, o_t, s_gn, s_gt, s_gh, SHARED)
            b_g = load_rows(p_grad, o_g, m_t, D, BLOCK_D)
            b_lse, b_delta = load_stats(p_row, o_t, m_t, STORED)
            b_dk, b_dv = memory_step(
                b_k, b_v, b_q, b_g, b_lse, b_delta, b_p, b_dk, b_dv, scale, STORED
            )
        i_pair = tl.load(p_pairs + begin + tl.minimum(i + 1, rounds - 1) // TILES)
    b_dk = tl.where(m_s[:, None], b_dk * slope, 0.0)
    b_dv = tl.where(m_s[:, None], b_dv, 0.0)
    s_ds = Hk * D
    m_all = o_s < S
    if several:
        # Partial sums are contiguous [slots, 2, S, Hk, D], fp32.
        s_dp = tl.cast(S, tl.int64) * s_ds
        o_p = chunk_offsets((tl.load(p_slot + i_chunk) + i_rank) * 2, i_h, o_s, s_dp, s_ds, D)
        store_rows(p_partial, o_p, b_dk, m_all, D, BLOCK_D)
        store_rows(p_partial + s_dp, o_p, b_dv, m_all, D, BLOCK_D)
    else:
        o_p = chunk_offsets(i_chunk, i_h, o_s, tl.cast(S, tl.int64) * s_ds, s_ds, D)
        store_rows(p_dk, o_p, b_dk, m_all, D, BLOCK_D)
        store_rows(p_dv, o_p, b_dv, m_all, D, BLOCK_D)


@triton.jit(do_not_specialize=["S"])
def gca_bwd_reduce_kernel(
    p_partial,
    p_slot,
    p_dk,
    p_dv,
    S,
    Hk,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_S: tl.constexpr,
):
    """Grid: (pool chunks, Hk * key blocks). Sums the segments of a chunk in their order."""
    i_chunk, i_h, i_block = tl.program_id(0), tl.program_id(1) % Hk, tl.program_id(1) // Hk
    begin = tl.load(p_slot + i_chunk)
    end = tl.load(p_slot + i_chunk + 1)
    if begin == end:
        return
    o_s = i_block * BLOCK_S + tl.arange(0, BLOCK_S)
    m_s = o_s < S
    s_ds = Hk * D
    s_dp = tl.cast(S, tl.int64) * s_ds
    o_b = chunk_offsets(begin * 2, i_h, o_s, s_dp, s_ds, D)
    b_dk = tl.zeros([BLOCK_S, BLOCK_D], dtype=tl.float32)
    b_dv = tl.zeros([BLOCK_S, BLOCK_D], dtype=tl.float32)
    for _ in range(0, (end - begin).to(tl.int32)):
        b_dk += load_rows(p_partial, o_b, m_s, D, BLOCK_D)
        b_dv += load_rows(p_partial + s_dp, o_b, m_s, D, BLOCK_D)
        o_b += 2 * s_dp
    o_p = chunk_offsets(i_chunk, i_h, o_s, s_dp, s_ds, D)
    store_rows(p_dk, o_p, b_dk, m_s, D, BLOCK_D)
    store_rows(p_dv, o_p, b_dv, m_s, D, BLOCK_D)


def gca_backward_query(
    grad: Tensor,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    mask: Tensor,
    index: Tensor,
    probabilities: Tensor,
    lse: Tensor,
    sums: tuple[Tensor, Tensor] | None = None,
    keep_stats: bool = True,
    tiles: Tiles | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Launch the kernel over query tiles: gradients of ``query`` [N, T, H, D] and ``probabilities``
    [N, R], and ``stats``, log-sum-exp and b of each row and retrieved chunk side by side, [N, Hk,
    R, T * H / Hk, 2] (empty without ``keep_stats``).

    With ``sums``, zeroed fp32 tensors in the shape of the keys, contiguous, it adds the gradients
    of keys and values to them by atomics: one kernel, five products instead of seven, and an order
    of summation that differs from run to run.
    """
    chunks, tokens, heads, size = query.shape
    memory, groups = keys.shape[1:3]
    problem = problem_of(query, keys)
    tiles = tiles or tiles_for("query", problem)
    count = tiles.count(problem.rows)
    dq = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    stats = torch.empty(
        (*lse.shape, 2) if keep_stats else (0,), dtype=torch.float32, device=query.device
    )
    parts = torch.empty(
        (chunks, index.shape[1], groups * count), dtype=torch.float32, device=query.device
    )
    if dq.numel() == 0 or parts.numel() == 0:
        return dq.zero_(), parts.sum(-1), stats
    gca_bwd_query_kernel[(chunks * count, groups)](
        grad,
        query,
        keys,
        values,
        mask.view(torch.uint8),
        index,
        probabilities,
        lse,
        dq,
        parts,
        stats,
        *(sums or (dq, dq)),
        size**-0.5 * LOG2_E,
        size**-0.5,
        tokens,
        memory,
        index.shape[1],
        count,
        *grad.stride()[:3],
        *query.stride()[:3],
        *keys.stride()[:3],
        *values.stride()[:3],
        SHARED=heads // groups,
        D=size,
        BLOCK_D=triton.next_power_of_2(size),
        BLOCK_M=tiles.rows,
        TAIL=tiles.tail,
        BLOCK_S=tiles.keys,
        WHOLE=memory <= tiles.keys,
        STATS=keep_stats,
        ATOMIC=sums is not None,
        num_warps=tiles.warps,
        num_stages=tiles.stages,
        maxnreg=tiles.registers,
    )
    return dq, parts.sum(-1), stats


def gca_backward_memory(
    grad: Tensor,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    mask: Tensor,
    index: Tensor,
    probabilities: Tensor,
    stats: Tensor,
    inverse: InverseIndex | None = None,
    tiles: Tiles | None = None,
) -> tuple[Tensor, Tensor]:
    """Launch the kernel over pool chunks: gradients of ``keys`` and ``values`` [P, S, Hk, D],
    contiguous, the same bits in every run.

    ``stats`` comes from ``gca_backward_query``; where it is only the log-sum-exps of the forward
    pass, [N, Hk, R, T * H / Hk], b is recomputed, which needs chunks that fit one tile.
    """
    stored = stats.dim() == 5
    pool, memory, groups, size = keys.shape
    problem = problem_of(query, keys)
    tiles = tiles or tiles_for("memory", problem)
    inverse = inverse or invert(index, probabilities, pool)
    if not stored and memory > tiles.keys:
        raise ValueError(
            f"b can be recomputed for chunks of at most {tiles.keys} tokens, these have {memory}: "
            "pass the stats of gca_backward_query"
        )
    dk = torch.empty(keys.shape, dtype=keys.dtype, device=keys.device)
    dv = torch.empty(keys.shape, dtype=values.dtype, device=keys.device)
    partial = torch.empty(
        (inverse.slots, 2, memory, groups, size), dtype=torch.float32, device=keys.device
    )
    if dk.numel() == 0 or index.numel() == 0:
        return dk.zero_(), dv.zero_()
    blocks = -(-memory // tiles.keys)
    gca_bwd_memory_kernel[(inverse.chunk.numel(), groups * blocks)](
        grad,
        query,
        keys,
        values,
        mask.view(torch.uint8),
        probabilities,
        stats,
        inverse.pairs,
        inverse.start,
        inverse.item_start,
        inverse.chunk,
        inverse.slot_start,
        dk,
        dv,
        partial,
        size**-0.5 * LOG2_E,
        size**-0.5,
        query.shape[1],
        memory,
        pool,
        groups,
        *grad.stride()[:3],
        *query.stride()[:3],
        *keys.stride()[:3],
        *values.stride()[:3],
        SHARED=query.shape[2] // groups,
        D=size,
        BLOCK_D=triton.next_power_of_2(size),
        BLOCK_M=tiles.rows,
        TAIL=tiles.tail,
        BLOCK_S=tiles.keys,
        R=index.shape[1],
        TILES=tiles.count(problem.rows),
        SEGMENT=inverse.segment,
        STORED=stored,
        num_warps=tiles.warps,
        num_stages=tiles.stages,
        maxnreg=tiles.registers,
    )
    if inverse.slots:
        gca_bwd_reduce_kernel[(pool, groups * blocks)](
            partial,
            inverse.slot_start,
            dk,
            dv,
            memory,
            groups,
            D=size,
            BLOCK_D=triton.next_power_of_2(size),
            BLOCK_S=tiles.keys,
            num_warps=4,
        )
    return dk, dv
