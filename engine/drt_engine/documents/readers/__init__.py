"""Readers of one module each."""
