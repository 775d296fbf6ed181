"""Triton kernel of the landmark scan: every program keeps the best of its span of landmarks.

What leaves a program are packed candidates (``order.py``), so that one top-k over the few of all
programs gives the same result for any number of programs and any block size. Registered as one
operator.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from drt_kernels.launch import dense_rows, power_of_two
from drt_kernels.scan.order import NOTHING, Bounds, best, unpack

_NOTHING = tl.constexpr(NOTHING)
_PROGRAMS_PER_UNIT = 4  # enough loads in flight to keep the memory busy


@triton.jit
def packed(b_scores, o_n):
    """Pack fp32 scores [Q, N] of landmarks ``o_n`` [N] as int64 candidates, like ``order.pack``."""
    b_bits = (b_scores + 0.0).to(tl.int32, bitcast=True)
    b_ordered = b_bits ^ ((b_bits >> 31) & 0x7FFFFFFF)
    return (b_ordered.to(tl.int64) << 32) | (0xFFFFFFFF - o_n.to(tl.int64))[None, :]


@triton.jit
def gumbel_block(seed, o_q, o_n):
    """Return standard Gumbel noise [Q, N], from the bits of ``noise.philox``."""
    b_n = o_n.to(tl.uint32)[None, :] + tl.zeros_like(o_q).to(tl.uint32)[:, None]
    b_q = o_q.to(tl.uint32)[:, None] + tl.zeros_like(b_n)
    b_zero = tl.zeros_like(b_n)
    b_bits, _, _, _ = tl.philox(seed, b_n, b_q, b_zero, b_zero)
    b_uniform = ((b_bits >> 9).to(tl.int32).to(tl.float32) + 0.5) * 1.1920928955078125e-07
    return -tl.log(-tl.log(b_uniform))


@triton.jit
def block_scores(
    p_queries, p_landmarks, o_q, o_n, m_q, m_n, s_n, E,
    BLOCK_Q: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    """Return dot products [Q, N], fp32: on matrix units, or for a single query as it is read."""
    o_e = tl.arange(0, BLOCK_E)
    p_rows = p_landmarks + o_n.to(tl.int64)[:, None] * s_n
    if BLOCK_Q == 1:
        b_sums = tl.zeros([BLOCK_N], dtype=tl.float32)
        for e in range(0, E, BLOCK_E):
            m_e = e + o_e < E
            b_l = load_landmarks(p_rows, e + o_e, m_n, m_e)
            b_q = tl.load(p_queries + e + o_e, mask=m_e, other=0.0)
            b_sums += tl.sum(b_l.to(tl.float32) * b_q[None, :], 1)
        return b_sums[None, :]
    else:
        b_acc = tl.zeros([BLOCK_Q, BLOCK_N], dtype=tl.float32)
        for e in range(0, E, BLOCK_E):
            m_e = e + o_e < E
            b_l = load_landmarks(p_rows, e + o_e, m_n, m_e)
            p_block = p_queries + o_q.to(tl.int64)[:, None] * E + (e + o_e)[None, :]
            b_q = tl.load(p_block, mask=m_q[:, None] & m_e[None, :], other=0.0)
            # Three products of tf32 are as good as fp32, and fp16 and bf16 fit tf32 exactly.
            b_l = tl.trans(b_l.to(tl.float32))
            b_acc = tl.dot(b_q, b_l, b_acc, input_precision="tf32x3")
        return b_acc


@triton.jit
def load_landmarks(p_rows, o_e, m_n, m_e):
    """Return elements ``o_e`` of landmarks [N, E], zeros where a mask is false."""
    p_block = p_rows + o_e[None, :]
    return tl.load(p_block, mask=m_n[:, None] & m_e[None, :], other=0.0)


@triton.jit(do_not_specialize=["seed", "Q", "N", "span"])
def landmark_topk_kernel(
    p_queries, p_landmarks, p_first, p_until, p_candidates,
    seed, Q, N, E, span,
    s_n,
    K: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_E: tl.constexpr,
    FIRST: tl.constexpr, UNTIL: tl.constexpr, NOISE: tl.constexpr,
):  # fmt: skip
    """Grid: (spans, blocks of queries). Writes candidates [Q, spans, K], best first."""
    i_span, i_q = tl.program_id(0), tl.program_id(1)
    o_q = i_q * BLOCK_Q + tl.arange(0, BLOCK_Q)
    m_q = o_q < Q
    begin = i_span * span
    end = tl.minimum(begin + span, N)
    # Skip whole blocks that none of these queries may see.
    if FIRST:
        b_first = tl.load(p_first + o_q, mask=m_q, other=N).to(tl.int32)
        begin += tl.maximum(tl.min(b_first, 0) - begin, 0) // BLOCK_N * BLOCK_N
    if UNTIL:
        b_until = tl.load(p_until + o_q, mask=m_q, other=0).to(tl.int32)
        end = tl.minimum(end, tl.max(b_until, 0))
    b_best = tl.full([BLOCK_Q, K], _NOTHING, dtype=tl.int64)
    for at in range(begin, end, BLOCK_N):
        o_n = at + tl.arange(0, BLOCK_N)
        m_n = o_n < end
        b_scores = block_scores(
            p_queries, p_landmarks, o_q, o_n, m_q, m_n, s_n, E, BLOCK_Q, BLOCK_N, BLOCK_E
        )
        if NOISE:
            b_scores += gumbel_block(seed, o_q, o_n)
        m_pair = m_q[:, None] & m_n[None, :]
        if FIRST:
            m_pair = m_pair & (o_n[None, :] >= b_first[:, None])
        if UNTIL:
            m_pair = m_pair & (o_n[None, :] < b_until[:, None])
        # The best K of this block, then of both: the order of blocks does not matter.
        b_new = tl.topk(tl.where(m_pair, packed(b_scores, o_n), _NOTHING), K)
        b_both = tl.reshape(tl.join(b_best, b_new), [BLOCK_Q, 2 * K])
        b_best = tl.topk(b_both, K)
    o_k = tl.arange(0, K)
    o_row = o_q.to(tl.int64) * tl.num_programs(0) + i_span
    tl.store(p_candidates + o_row[:, None] * K + o_k[None, :], b_best, mask=m_q[:, None])


def scan_triton(
    queries: Tensor, landmarks: Tensor, k: int, *, bounds: Bounds, seed: int | None
) -> Tensor:
    """Compute what ``scan_reference`` computes, with the same arguments, for k up to 128."""
    ends = [None if t is None else t.to(queries.device) for t in (bounds.first, bounds.until)]
    return _scan_op(queries, landmarks, ends[0], ends[1], k, seed)  # type: ignore[no-any-return]


@torch.library.custom_op("drt_kernels::landmark_topk", mutates_args=())
def _scan_op(
    queries: Tensor,
    landmarks: Tensor,
    first: Tensor | None,
    until: Tensor | None,
    k: int,
    seed: int | None,
) -> Tensor:
    candidates = _candidates(queries, landmarks, first, until, k=k, seed=seed)
    return unpack(best(candidates.flatten(1), k))


@_scan_op.register_fake
def _(queries: Tensor, *rest: Any) -> Tensor:
    k: int = rest[3]
    return queries.new_empty((queries.shape[0], k), dtype=torch.int64)


def _candidates(
    queries: Tensor,
    landmarks: Tensor,
    first: Tensor | None,
    until: Tensor | None,
    *,
    k: int,
    seed: int | None,
) -> Tensor:
    """Return packed candidates [Q, spans, K], K the next power of two."""
    count, size = queries.shape
    total = landmarks.shape[0]
    landmarks = dense_rows(landmarks)
    candidates = power_of_two(k, least=2)
    # One query is multiplied as it is read; for more, matrix units take 16 rows or more.
    many_rows = power_of_two(count, least=16, most=32 if candidates <= 16 else 16)
    block_q = 1 if count == 1 else many_rows
    block_n = max(128 if block_q == 1 else 64, candidates)
    blocks = -(-count // block_q)
    spans, span = _spans(total, block_n, blocks, queries.device)
    out = torch.empty((count, spans, candidates), dtype=torch.int64, device=queries.device)
    if not out.numel():
        return out
    landmark_topk_kernel[(spans, blocks)](
        p_queries=queries.float().contiguous(),
        p_landmarks=landmarks,
        p_first=first,
        p_until=until,
        p_candidates=out,
        seed=seed or 0,
        Q=count,
        N=total,
        E=size,
        span=span,
        s_n=landmarks.stride(0),
        K=candidates,
        BLOCK_Q=block_q,
        BLOCK_N=block_n,
        BLOCK_E=power_of_two(size, least=16, most=64),
        FIRST=first is not None,
        UNTIL=until is not None,
        NOISE=seed is not None,
        num_warps=8 if block_q > 16 else 4,  # with 4, noise and bounds of 32 queries spill
        num_stages=3,
    )
    return out


def _spans(total: int, block: int, rows: int, device: torch.device) -> tuple[int, int]:
    """Return how many programs share the landmarks, and how many landmarks each scans."""
    units = 4
    if device.type == "cuda":
        units = torch.cuda.get_device_properties(device).multi_processor_count
    programs = max(1, _PROGRAMS_PER_UNIT * units // rows)
    span = -(-max(1, -(-total // programs)) // block) * block
    return -(-total // span), span
