"""Loads and stores of tiles, shared by the Triton kernels of grouped cross-attention.

Prefixes: ``p_`` pointers, ``s_`` strides in elements, ``o_`` offsets, ``m_`` masks, ``b_`` loaded
blocks, ``i_`` indices. Offsets are 64-bit before they are multiplied.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def row_offsets(i_n, i_h, o_m, s_n, s_t, s_h, SHARED: tl.constexpr):
    """Return element offsets of rows ``o_m`` (token * SHARED + head in group) of a query chunk."""
    token = (o_m // SHARED).to(tl.int64)
    head = (i_h * SHARED + o_m % SHARED).to(tl.int64)
    return i_n.to(tl.int64) * s_n + token * s_t + head * s_h


@triton.jit
def chunk_offsets(i_chunk, i_h, o_s, s_p, s_s, s_h):
    """Return element offsets of keys ``o_s`` of pool chunk ``i_chunk``, head ``i_h``."""
    return i_chunk.to(tl.int64) * s_p + i_h.to(tl.int64) * s_h + o_s.to(tl.int64) * s_s


@triton.jit
def load_rows(p, offsets, m, D: tl.constexpr, BLOCK_D: tl.constexpr):
    """Return rows [M, BLOCK_D] at element ``offsets``, zeros where ``m`` is false and beyond D."""
    o_d = tl.arange(0, BLOCK_D)
    m_d = m[:, None] if BLOCK_D == D else m[:, None] & (o_d < D)[None, :]
    return tl.load(p + offsets[:, None] + o_d[None, :], mask=m_d, other=0.0)


@triton.jit
def store_rows(p, offsets, b, m, D: tl.constexpr, BLOCK_D: tl.constexpr):
    """Write rows [M, BLOCK_D] up to D in the type of the memory, where ``m`` is true."""
    o_d = tl.arange(0, BLOCK_D)
    m_d = m[:, None] if BLOCK_D == D else m[:, None] & (o_d < D)[None, :]
    tl.store(p + offsets[:, None] + o_d[None, :], b.to(p.dtype.element_ty), mask=m_d)


@triton.jit
def load_tile(
    p, i_n, i_h, o_m, m_m, s_n, s_t, s_h,
    SHARED: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Return rows ``o_m`` of a query chunk [M, BLOCK_D], zeros where ``m_m`` is false."""
    return load_rows(p, row_offsets(i_n, i_h, o_m, s_n, s_t, s_h, SHARED), m_m, D, BLOCK_D)


@triton.jit
def load_chunk(p, i_chunk, i_h, o_s, m_s, s_p, s_s, s_h, D: tl.constexpr, BLOCK_D: tl.constexpr):
    """Return keys (or values) ``o_s`` of a pool chunk [S, BLOCK_D], zeros by ``m_s``."""
    return load_rows(p, chunk_offsets(i_chunk, i_h, o_s, s_p, s_s, s_h), m_s, D, BLOCK_D)


@triton.jit
def load_mask(p_mask, i_chunk, o_s, S):
    """Return which of keys ``o_s`` exist: what does not is never read."""
    stored = tl.load(p_mask + i_chunk.to(tl.int64) * S + o_s, mask=o_s < S, other=0)
    return stored != 0
