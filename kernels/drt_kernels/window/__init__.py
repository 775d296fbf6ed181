"""Causal sliding-window attention with ALiBi; ``window_attention`` is the interface."""

from __future__ import annotations

from drt_kernels.window.attention import explain_window, window_attention

__all__ = ["explain_window", "window_attention"]
