"""Timing of tile shapes for the Triton kernels of grouped cross-attention, where asked for.

Training and benchmarks ask for it. Nothing here runs by itself: without it the kernels use the
fixed choice of ``tiles.py``, so that no question waits for a timing. What was measured is kept in
Triton's cache folder.
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

from drt_kernels.gca.backward_memory import gca_backward_memory
from drt_kernels.gca.backward_query import gca_backward_query
from drt_kernels.gca.forward import gca_forward
from drt_kernels.gca.inverse_index import invert
from drt_kernels.gca.tiles import Problem, Tiles, candidates, remember
from drt_kernels.interpreter import interpreting
from drt_kernels.shapes import Retrieval

Timer = Callable[[Callable[[], object]], float]


def tune_gca(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    retrieval: Retrieval,
    *,
    timer: Timer | None = None,
) -> dict[str, Tiles]:
    """Time each kernel with the candidate tiles on these tensors, as in ``gca``.

    The fastest are used for this shape from now on, and returned by kernel. ``timer`` turns a call
    into milliseconds; the default times on the GPU. Raises ``ValueError`` in the interpreter, whose
    time says nothing.
    """
    if timer is None and interpreting():
        raise ValueError("tiles can be timed on a GPU only, and TRITON_INTERPRET=1 is set")
    # As the operators flatten them: batch and chunks become one dimension, N.
    query = query.flatten(0, 1).contiguous()
    flat = Retrieval(
        retrieval.mask.contiguous(),
        retrieval.index.flatten(0, 1).contiguous(),
        retrieval.probabilities.float().flatten(0, 1).contiguous(),
    )
    inverse = invert(flat.index, flat.probabilities, keys.shape[0])
    forward_inputs = (query, keys, values, flat)
    backward_inputs = (query, *forward_inputs)  # the query serves as its own gradient
    _, lse = gca_forward(*forward_inputs, off_by_one=True)
    _, _, stats = gca_backward_query(*backward_inputs, lse=lse)
    calls: dict[str, Callable[[Tiles], object]] = {
        "forward": lambda t: gca_forward(*forward_inputs, off_by_one=True, tiles=t),
        "query": lambda t: gca_backward_query(*backward_inputs, lse=lse, tiles=t),
        "memory": lambda t: gca_backward_memory(
            *backward_inputs, stats=stats, inverse=inverse, tiles=t
        ),
    }
    problem = Problem.of(query, keys)
    fastest = {name: _fastest(name, problem, call, timer) for name, call in calls.items()}
    for name, tiles in fastest.items():
        remember(name, problem, tiles)
    return fastest


def _fastest(
    kernel: str, problem: Problem, call: Callable[[Tiles], object], timer: Timer | None
) -> Tiles:
    if timer is not None:
        return min(candidates(kernel, problem), key=lambda t: timer(lambda: call(t)))
    cache = get_cache_manager(_key(kernel, problem))
    path = cache.get_file("tiles.json")
    if path is not None:
        with open(path, encoding="utf-8") as file:
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
