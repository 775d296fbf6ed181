"""Attention over retrieved chunks, the search for them, and windows: tensors in, tensors out."""

from __future__ import annotations

from drt_kernels.decode import ChunkRecords, decode_memory, gca_decode
from drt_kernels.gca.attention import explain_backend, gca
from drt_kernels.scan import landmark_topk
from drt_kernels.window import explain_window, window_attention

__all__ = [
    "ChunkRecords",
    "decode_memory",
    "explain_backend",
    "explain_window",
    "gca",
    "gca_decode",
    "landmark_topk",
    "window_attention",
]
