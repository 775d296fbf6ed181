"""Grouped cross-attention over retrieved chunks: tensors and numbers in, tensors out."""

from __future__ import annotations

from drt_kernels.backend import explain_backend, gca

__all__ = ["explain_backend", "gca"]
