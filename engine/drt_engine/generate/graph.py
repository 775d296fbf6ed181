"""One decoding step as a CUDA graph: hundreds of small kernels started by one call.

A graph replays on the memory it was captured on, so the token, the window's slot and bias, and
what was retrieved lie in tensors that stay where they are. Knows nothing of text or retrieval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor

from drt_engine.model.cache import WindowCache
from drt_engine.model.gca_layer import Retrieved
from drt_kernels.decode import DecodeMemory

Read = tuple[Retrieved, DecodeMemory | None] | None
T = TypeVar("T")
# Token ids [1, 1] and what each group reads -> states after the lower and the upper stack.
Pass = Callable[[Tensor, Sequence[Read]], tuple[Tensor, Tensor]]


class StepGraph:
    """Replays ``run`` for one token after the other; captured anew when shapes change."""

    def __init__(self, run: Pass, window: WindowCache, *, device: torch.device) -> None:
        self._run, self._window = run, window
        self._token = torch.zeros(1, 1, dtype=torch.long, device=device)
        self._shapes: list[list[torch.Size]] | None = None
        self._given: list[Read] = []
        self._fixed: list[Read] = []  # copies at the addresses that the graph was captured on
        self._out: tuple[Tensor, Tensor] | None = None
        self._replay: Callable[[], None] = self._compute

    def step(self, token: int, read: Sequence[Read]) -> tuple[Tensor, Tensor]:
        """Advance by one token; return its states after both stacks, [1, 1, E] each.

        ``read`` is what each upper group reads.
        """
        self._window.begin_fixed()
        self._token.fill_(token)
        shapes = [_shapes(group_read) for group_read in read]
        if shapes != self._shapes:
            self._shapes, self._given = shapes, list(read)
            self._fixed = [_copied(group_read) for group_read in read]
            self._replay = capture_cuda(self._compute)
        else:
            self._update(read)
        self._replay()
        assert self._out is not None
        lower, upper = self._out
        return lower.clone(), upper.clone()

    def _update(self, read: Sequence[Read]) -> None:
        """Copy what is read to where the graph reads it, once for each border."""
        for number, (new, old, fixed) in enumerate(
            zip(read, self._given, self._fixed, strict=True)
        ):
            if not _same(new, old):
                for target, tensor in zip(_tensors(fixed), _tensors(new), strict=True):
                    target.copy_(tensor)
            self._given[number] = new

    def _compute(self) -> None:
        self._out = self._run(self._token, self._fixed)


def _same(new: Read, old: Read) -> bool:
    """Return whether what is read was laid out at the same border."""
    if new is None or old is None:
        return new is old
    return new[1] is old[1]


def _tensors(read: Read) -> list[Tensor]:
    """Return the tensors that a step reads, in a fixed order."""
    if read is None or read[1] is None:
        return []
    memory = read[1]
    parts = [*vars(memory.records).values(), *vars(memory).values()]
    return [part for part in parts if isinstance(part, Tensor)]


def _shapes(read: Read) -> list[torch.Size]:
    return [tensor.shape for tensor in _tensors(read)]


def _copied(read: Read) -> Read:
    """Return the same in newly allocated memory."""
    if read is None or read[1] is None:
        return read
    memory = replace(read[1], records=_cloned(read[1].records))
    return read[0], _cloned(memory)


def _cloned(part: T) -> T:
    tensors = {k: v.clone() for k, v in vars(part).items() if isinstance(v, Tensor)}
    return replace(part, **tensors)  # type: ignore[type-var]


def capture_cuda(work: Callable[[], None]) -> Callable[[], None]:
    """Capture the kernels that ``work`` launches; it is called more than once."""
    side: torch.cuda.Stream = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # libraries allocate what they need outside of the graph
        for _ in range(2):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay
