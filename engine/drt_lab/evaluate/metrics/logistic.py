"""Logistic regression on a few signals; knows nothing of their meaning."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

_STEPS = 50
_RIDGE = 0.5  # on standardised signals: keeps weights finite where classes separate


def fit_logistic(
    rows: Sequence[Sequence[float]], labels: Sequence[bool]
) -> tuple[list[float], float]:
    """Return the weights of the signals and the offset, by Newton's method in fp64 with a ridge.

    A signal that never changes gets weight 0. Raises ValueError on no rows, unequal lengths or
    values that are not finite.
    """
    if not rows or len(rows) != len(labels):
        raise ValueError(f"got {len(rows)} rows and {len(labels)} labels, expected as many, not 0")
    if not all(math.isfinite(value) for row in rows for value in row):
        raise ValueError("got a signal that is not finite, expected numbers only")
    x = torch.tensor([list(row) for row in rows], dtype=torch.float64)
    centre, spread = x.mean(dim=0), x.std(dim=0, unbiased=False)
    spread = torch.where(spread > 1e-12 * centre.abs().clamp(min=1e-300), spread, torch.inf)
    design = torch.cat([(x - centre) / spread, torch.ones(len(x), 1, dtype=x.dtype)], dim=1)
    targets = torch.tensor([float(bool(v)) for v in labels], dtype=x.dtype)
    ridge = torch.full((design.shape[1],), _RIDGE, dtype=x.dtype)
    ridge[-1] = 1e-3  # the offset is free, but finite where there is one class
    solution = _newton(design, targets, ridge, torch.zeros_like(targets))
    weights = solution[:-1] / spread
    return weights.tolist(), float(solution[-1] - weights @ centre)


def fit_beside(
    rows: Sequence[Sequence[float]], labels: Sequence[bool], log_odds: Sequence[float]
) -> list[float]:
    """Return the weights of signals that are added to known log-odds, with a ridge.

    Where all signals are 0 the log-odds stay as they are.
    """
    design = torch.tensor([list(row) for row in rows], dtype=torch.float64)
    targets = torch.tensor([float(bool(v)) for v in labels], dtype=torch.float64)
    known = torch.tensor(log_odds, dtype=torch.float64)
    ridge = torch.full((design.shape[1],), _RIDGE, dtype=torch.float64)
    return _newton(design, targets, ridge, known).tolist()


def _newton(design: Tensor, targets: Tensor, ridge: Tensor, known: Tensor) -> Tensor:
    """Return weights of the columns of ``design`` beside ``known`` log-odds."""
    weights = torch.zeros_like(ridge)
    loss = _loss(design, targets, weights, ridge, known)
    for _ in range(_STEPS):
        p = torch.sigmoid(design @ weights + known)
        slope = design.T @ (p - targets) + ridge * weights
        curve = (design * (p * (1 - p))[:, None]).T @ design + torch.diag(ridge)
        step = torch.linalg.solve(curve, slope)
        size = 1.0
        while size > 1e-8 and _loss(design, targets, weights - size * step, ridge, known) > loss:
            size /= 2
        moved = weights - size * step
        gained, weights = loss - _loss(design, targets, moved, ridge, known), moved
        loss -= gained
        if gained < 1e-12 * (1 + loss):
            break
    return weights


def _loss(design: Tensor, targets: Tensor, weights: Tensor, ridge: Tensor, known: Tensor) -> float:
    logits = design @ weights + known
    data = torch.nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="sum")
    return float(data + 0.5 * (ridge * weights**2).sum())
