"""Grouped cross-attention of whole sequences: one interface, its reference, and implementations."""
