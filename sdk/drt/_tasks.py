"""The names of built-in evaluations and benchmarks."""

from __future__ import annotations

from typing import Literal

EvaluationTask = Literal[
    "qa",
    "files",
    "retrieval",
    "needle",
    "passkey",
    "records",
    "ppl",
    "summary",
    "summary-lm",
    "calibrate",
]
BenchName = Literal[
    "ingest",
    "ask",
    "retrieve",
    "library",
    "documents",
    "decode",
    "kernels",
    "train",
    "models",
    "pdf",
    "index",
    "serve",
]
