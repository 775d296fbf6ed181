"""Timing of tile shapes for the Triton kernels of grouped cross-attention, where training or a
benchmark asks for it.

Nothing here runs by itself: without it the kernels use the fixed choice of ``tiles.py``, so that no
question waits for a timing. What was measured is kept in Triton's cache folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict

import torch
import triton
from torch import Tensor
from triton.runtime.cache import get_cache_manager
from triton.runtime.errors import OutOfResources

from drt_kernels.gca.backward import gca_backward_memory, gca_backward_query
from drt_kernels.gca.forward import gca_forward, problem_of
from drt_kernels.gca.inverse_index import invert
from drt_kernels.gca.tiles import Problem, Tiles, candidates, remember
from drt_kernels.interpreter import interpreting

Timer = Callable[[Callable[[], object]], float]


def tune_gca(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    mask: Tensor,
    index: Tensor,
    probabilities: Tensor,
    timer: Timer | None = None,
) -> dict[str, Tiles]:
    """Time each kernel with the few candidate tiles on these tensors, as in ``gca``, and use the
    fastest for this shape from now on; return them by kernel.

    ``timer`` turns a call into milliseconds; the default times on the GPU. Raises ``ValueError`` in
    the interpreter, whose time says nothing.
    """
    if timer is None and interpreting():
        raise ValueError("tiles can be timed on a GPU only, and TRITON_INTERPRET=1 is set")
    query, index = query.flatten(0, 1).contiguous(), index.flatten(0, 1).contiguous()
    sparse = {
        "mask": mask.contiguous(),
        "index": index,
        "probabilities": probabilities.float().flatten(0, 1).contiguous(),
    }
    inverse = invert(index, sparse["probabilities"], keys.shape[0])
    tensors = (query, query, keys, values)
    _, lse = gca_forward(*tensors[1:], **sparse, off_by_one=True)
    _, _, stats = gca_backward_query(*tensors, **sparse, lse=lse)
    calls: dict[str, Callable[[Tiles], object]] = {
        "forward": lambda t: gca_forward(*tensors[1:], **sparse, off_by_one=True, tiles=t),
        "query": lambda t: gca_backward_query(*tensors, **sparse, lse=lse, tiles=t),
        "memory": lambda t: gca_backward_memory(
            *tensors, **sparse, stats=stats, inverse=inverse, tiles=t
        ),
    }
    problem = problem_of(query, keys)
    chosen = {name: _fastest(name, problem, call, timer) for name, call in calls.items()}
    for name, tiles in chosen.items():
        remember(name, problem, tiles)
    return chosen


def _fastest(
    kernel: str, problem: Problem, call: Callable[[Tiles], object], timer: Timer | None
) -> Tiles:
    if timer is not None:
        return min(candidates(kernel, problem), key=lambda t: timer(lambda: call(t)))
    cache = get_cache_manager(_key(kernel, problem))
    known = cache.get_file("tiles.json")
    if known is not None:
        with open(known, encoding="utf-8") as file:
            return Tiles(**json.load(file))
    best = min(candidates(kernel, problem), key=lambda t: _milliseconds(lambda: call(t)))
    cache.put(json.dumps(asdict(best)), "tiles.json", binary=False)
    return best


def _milliseconds(call: Callable[[], object]) -> float:
    try:
        return float(triton.testing.do_bench(call, warmup=5, rep=20, return_mode="median"))
    except OutOfResources:  # tiles that this GPU's shared memory cannot hold
        return float("inf")


def _key(kernel: str, problem: Problem) -> str:
    parts = [
        kernel,
        asdict(problem),
        [asdict(t) for t in candidates(kernel, problem)],
        torch.cuda.get_device_name(),
        triton.__version__,
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
