"""The tiny model that the benchmarks run with, shared with the evaluations."""

from __future__ import annotations

from tests.lab.evaluate_runs.conftest import model_folder, runtime, write_lines

__all__ = ["model_folder", "runtime", "write_lines"]
