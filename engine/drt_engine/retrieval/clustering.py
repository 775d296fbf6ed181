"""Groups landmarks by direction with FAISS: the only module that imports it.

FAISS trains the centroids and assigns landmarks to them; nothing of it is written to disk, so a
library with an index is asked without it.
"""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from drt_engine.errors import ConfigError

POINTS_PER_LIST = 64  # that centroids are trained on; FAISS warns of fewer than 39
_ITERATIONS = 8
_SEED = 1


def faiss_module() -> ModuleType | None:
    """Return FAISS, using as many threads as PyTorch, or ``None`` where it is not installed."""
    spec = importlib.util.find_spec("faiss")
    if spec is None or spec.origin is None:  # just a folder of that name
        return None
    module = importlib.import_module("faiss")
    module.omp_set_num_threads(torch.get_num_threads())
    return module


def required_faiss() -> Any:
    """Return FAISS; ConfigError with the command that installs it."""
    module = faiss_module()
    if module is None:
        raise ConfigError(
            'making an approximate index needs FAISS; pip install "drt-assistant[faiss]"'
        )
    return module


def train_centroids(sample: Tensor, lists: int) -> Tensor:
    """Return ``lists`` centroids [L, E] of unit length for landmarks [n, E], n >= L: k-means."""
    means = required_faiss().Kmeans(
        sample.shape[1],
        lists,
        niter=_ITERATIONS,
        spherical=True,  # by inner products, as landmarks are scored
        seed=_SEED,
        min_points_per_centroid=1,
        max_points_per_centroid=POINTS_PER_LIST,
    )
    means.train(directions(sample).numpy())
    return torch.from_numpy(means.centroids).clone()


def assign_lists(centroids: Tensor, rows: Tensor) -> Tensor:
    """Return the centroid nearest in direction to each landmark [n, E], [n] int32."""
    flat = required_faiss().IndexFlatIP(centroids.shape[1])
    flat.add(centroids.numpy())
    _, nearest = flat.search(directions(rows).numpy(), 1)
    return torch.from_numpy(nearest[:, 0]).int()


def directions(rows: Tensor) -> Tensor:
    """Return landmarks [n, E] as fp32 of unit length; those without a direction stay zero."""
    return torch.nn.functional.normalize(rows.float().nan_to_num_(), dim=1)
