"""How much memory a computation holds at its peak, counted tensor by tensor.

Counted are the bytes of all tensors that are made while it runs and are still there: the same on
every machine, unlike what a process has resident. On a GPU its allocator counts.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class PeakMemory(TorchDispatchMode):
    """Follow the storages of new tensors; ``peak`` is the most bytes at a time."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak: int = 0
        self._bytes = 0
        self._alive: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Compute, and count what is new."""
        inputs = {_storage(t) for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)}
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            known = inputs | self._alive
            if isinstance(tensor, torch.Tensor) and _storage(tensor) not in known:
                self._follow(tensor.untyped_storage())
        return out

    @property
    def alive(self) -> int:
        """The bytes of tensors that were made and are still there."""
        return self._bytes

    def _follow(self, storage: torch.UntypedStorage) -> None:
        size, place = storage.nbytes(), storage.data_ptr()
        self._alive.add(place)
        self._bytes += size
        self.peak = max(self.peak, self._bytes)

        def forget() -> None:
            self._alive.discard(place)
            self._bytes -= size

        weakref.finalize(storage, forget)


def peak_bytes(work: Callable[[], object], device: torch.device | None = None) -> int:
    """Return the most bytes of tensors that ``work`` holds at a time, beyond those before it.

    ``device``: where it computes, a CPU if not named.
    """
    if device is not None and device.type == "cuda":
        # FlexAttention cannot be followed by a dispatch mode.
        torch.cuda.init()  # the allocator has no statistics before
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        return torch.cuda.max_memory_allocated(device) - before
    memory = PeakMemory()
    with memory:
        work()
    return memory.peak


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
