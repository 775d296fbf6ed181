"""Benchmarks: each number beside something timed in the same run."""
