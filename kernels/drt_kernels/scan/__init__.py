"""Scores and top-k over landmarks without writing all scores; ``landmark_topk`` is the way in."""

from __future__ import annotations

from drt_kernels.scan.coder import LandmarkCoder
from drt_kernels.scan.landmarks import Landmarks
from drt_kernels.scan.order import Bounds, TopK, exact_scores
from drt_kernels.scan.topk import explain_scan, landmark_topk

__all__ = [
    "Bounds",
    "LandmarkCoder",
    "Landmarks",
    "TopK",
    "exact_scores",
    "explain_scan",
    "landmark_topk",
]
