"""Grouped cross-attention in decoding: ``decode_memory`` once a chunk, ``gca_decode`` a step."""

from __future__ import annotations

from drt_kernels.decode.memory import ChunkRecords, DecodeMemory
from drt_kernels.decode.step import decode_memory, explain_decode, gca_decode

__all__ = ["ChunkRecords", "DecodeMemory", "decode_memory", "explain_decode", "gca_decode"]
