"""Implementations of grouped cross-attention; ``drt_kernels.gca`` chooses among them."""
