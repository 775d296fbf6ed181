"""Readers of complex formats in a confined child process, and every limit on an input."""
