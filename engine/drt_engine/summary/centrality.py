"""Centrality of chunks in the graph of their retrievals, made from landmarks (PageRank)."""

from __future__ import annotations

import torch
from torch import Tensor

from drt_engine.runtime import Runtime


def chunk_centrality(runtime: Runtime, landmarks: Tensor) -> Tensor:
    """Return how much each of some consecutive chunks is retrieved by the others, [C], mean 1.

    ``landmarks`` are [C, E]. Each chunk retrieves among all others with the model's temperature;
    the scores are the stationary distribution of a reader that follows retrievals (PageRank with
    restart), so the chunks that much of the text refers to score highest.
    """
    count = len(landmarks)
    if count < 3:
        return torch.ones(count)
    log_scale = runtime.model.scorer.log_scale
    scale = float(log_scale.detach().exp()) if log_scale is not None else landmarks.shape[1] ** -0.5
    scores = (landmarks @ landmarks.T) * scale  # [C, C]
    # A chunk is most like itself, which says nothing about the others.
    scores.fill_diagonal_(float("-inf"))
    best = scores.topk(min(runtime.config.retrieved, count - 1), dim=1)  # [C, R]
    # Row i: the probabilities with which chunk i retrieves each other chunk.
    graph = torch.zeros(count, count).scatter_(1, best.indices, torch.softmax(best.values, dim=1))
    rank = torch.full((count,), 1 / count)
    for _ in range(50):
        rank = 0.15 / count + 0.85 * (rank @ graph)
    return rank * count
