"""Causal sliding-window attention with ALiBi; ``window_attention`` chooses among its forms."""

from __future__ import annotations

from drt_kernels.window.choice import explain_window, window_attention

__all__ = ["explain_window", "window_attention"]
