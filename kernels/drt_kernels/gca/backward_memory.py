"""Triton kernels over pool chunks for the gradients of keys and values, and their launcher.

A program sums over the queries that retrieved its chunk, in the fixed order of an inverse index, so
two runs give the same bits. The segments of popular chunks are added by a small second kernel.
README.md has the derivation.
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
    load_rows,
    load_tile,
    store_rows,
)
from drt_kernels.gca.inverse_index import InverseIndex, invert
from drt_kernels.gca.tiles import Problem, Tiles, tiles_for
from drt_kernels.launch import LOG2_E, power_of_two, strides
from drt_kernels.shapes import Retrieval


@triton.jit
def load_stats(p_stats, o_m, m_m, STORED: tl.constexpr):
    """Return log-sum-exp and b of rows ``o_m``; b is 0 where it is not STORED.

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
    p_grad, p_query, p_keys, p_values, p_mask, p_prob, p_stats,
    p_pairs, p_start, p_item, p_chunk, p_slot,
    p_dk, p_dv, p_partial,
    scale, slope, T, S, P, Hk,
    s_gn, s_gt, s_gh, s_qn, s_qt, s_qh,
    s_kp, s_ks, s_kh, s_vp, s_vs, s_vh,
    SHARED: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, TAIL: tl.constexpr, BLOCK_S: tl.constexpr,
    R: tl.constexpr, TILES: tl.constexpr, SEGMENT: tl.constexpr, STORED: tl.constexpr,
):  # fmt: skip
    """Grid: (items, Hk * key blocks).

    One program: one block of keys of one pool chunk, one segment of the pairs that retrieved it. R
    and TILES are constants since every round divides by them.
    """
    i_item, i_h, i_block = tl.program_id(0), tl.program_id(1) % Hk, tl.program_id(1) // Hk
    i_chunk = tl.load(p_chunk + i_item)
    if i_chunk >= P:
        return
    # Which of the chunk's segments this is, and its pairs begin:end.
    i_first = tl.load(p_item + i_chunk)
    i_rank = i_item - i_first
    several = tl.load(p_item + i_chunk + 1) - i_first > 1
    begin = tl.load(p_start + i_chunk) + i_rank * SEGMENT
    end = tl.minimum(begin + SEGMENT, tl.load(p_start + i_chunk + 1))
    M = T * SHARED
    o_s = i_block * BLOCK_S + tl.arange(0, BLOCK_S)
    m_s = load_mask(p_mask, i_chunk, o_s, S)
    # The block's keys and values [S, D] stay; query rows pass by.
    b_k = load_chunk(p_keys, i_chunk, i_h, o_s, m_s, s_kp, s_ks, s_kh, D, BLOCK_D)
    b_v = load_chunk(p_values, i_chunk, i_h, o_s, m_s, s_vp, s_vs, s_vh, D, BLOCK_D)
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
        b_q = load_tile(p_query, i_n, i_h, o_m, m_m, s_qn, s_qt, s_qh, SHARED, D, BLOCK_D)
        b_g = load_tile(p_grad, i_n, i_h, o_m, m_m, s_gn, s_gt, s_gh, SHARED, D, BLOCK_D)
        b_lse, b_delta = load_stats(p_row, o_m, m_m, STORED)
        b_dk, b_dv = memory_step(b_k, b_v, b_q, b_g, b_lse, b_delta, b_p, b_dk, b_dv, scale, STORED)
        if TAIL:
            o_t = BLOCK_M + tl.arange(0, TAIL)
            m_t = o_t < M
            b_q = load_tile(p_query, i_n, i_h, o_t, m_t, s_qn, s_qt, s_qh, SHARED, D, BLOCK_D)
            b_g = load_tile(p_grad, i_n, i_h, o_t, m_t, s_gn, s_gt, s_gh, SHARED, D, BLOCK_D)
            b_lse, b_delta = load_stats(p_row, o_t, m_t, STORED)
            b_dk, b_dv = memory_step(
                b_k, b_v, b_q, b_g, b_lse, b_delta, b_p, b_dk, b_dv, scale, STORED
            )
        i_pair = tl.load(p_pairs + begin + tl.minimum(i + 1, rounds - 1) // TILES)
    # Keys that do not exist gathered nonsense in their own rows: they get zeros.
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
    p_partial, p_slot, p_dk, p_dv,
    S, Hk,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """Grid: (pool chunks, Hk * key blocks). Sum the segments of a chunk in their order."""
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


def gca_backward_memory(
    grad: Tensor,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    retrieval: Retrieval,
    *,
    stats: Tensor,
    inverse: InverseIndex | None = None,
    tiles: Tiles | None = None,
) -> tuple[Tensor, Tensor]:
    """Launch the kernels over pool chunks: gradients of ``keys`` and ``values`` [P, S, Hk, D].

    They are contiguous, and the same bits in every run. ``stats`` comes from
    ``gca_backward_query``; where it is only the log-sum-exps of the forward pass, [N, Hk, R, T * H
    / Hk], b is recomputed, which needs chunks that fit one tile.
    """
    stored = stats.dim() == 5
    pool, memory, groups, size = keys.shape
    problem = Problem.of(query, keys)
    tiles = tiles or tiles_for("memory", problem)
    inverse = inverse or invert(retrieval.index, retrieval.probabilities, pool)
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
    if dk.numel() == 0 or retrieval.index.numel() == 0:
        return dk.zero_(), dv.zero_()
    blocks = -(-memory // tiles.keys)
    gca_bwd_memory_kernel[(inverse.chunk.numel(), groups * blocks)](
        p_grad=grad,
        p_query=query,
        p_keys=keys,
        p_values=values,
        p_mask=retrieval.mask.view(torch.uint8),
        p_prob=retrieval.probabilities,
        p_stats=stats,
        p_pairs=inverse.pairs,
        p_start=inverse.start,
        p_item=inverse.item_start,
        p_chunk=inverse.chunk,
        p_slot=inverse.slot_start,
        p_dk=dk,
        p_dv=dv,
        p_partial=partial,
        scale=size**-0.5 * LOG2_E,
        slope=size**-0.5,
        T=query.shape[1],
        S=memory,
        P=pool,
        Hk=groups,
        **strides("nth", g=grad, q=query),
        **strides("psh", k=keys, v=values),
        SHARED=query.shape[2] // groups,
        **tiles.sizes(size),
        R=retrieval.index.shape[1],
        TILES=tiles.count(problem.rows),
        SEGMENT=inverse.segment,
        STORED=stored,
        **tiles.options(),
    )
    if inverse.slots:
        gca_bwd_reduce_kernel[(pool, groups * blocks)](
            p_partial=partial,
            p_slot=inverse.slot_start,
            p_dk=dk,
            p_dv=dv,
            S=memory,
            Hk=groups,
            D=size,
            BLOCK_D=power_of_two(size),
            BLOCK_S=tiles.keys,
            num_warps=4,
        )
    return dk, dv
