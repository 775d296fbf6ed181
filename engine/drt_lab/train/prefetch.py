"""Makes training batches in worker processes while this process computes.

A batch depends on its seed alone, so it does not matter which process makes it. Those of stateful
tasks, as the stream, are made here.
"""

from __future__ import annotations

import multiprocessing
import os
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from drt_lab.train.mixture import Drawn, TaskMixture

_tasks: TaskMixture | None = None  # what a forked process finds here


@dataclass(frozen=True)
class PackedBatch:
    """A batch between processes: tensors as safetensors, other fields and classes as they are.

    Names are dotted where a batch holds another dataclass. Not PyTorch's own way, which shares
    memory through open files and runs out of them.
    """

    task: str
    noise: int | None
    kinds: dict[str, type]
    tensors: bytes
    values: dict[str, Any]


class Prefetcher:
    """Draws batches by their seeds; ``workers`` processes make the following ones meanwhile."""

    def __init__(self, tasks: TaskMixture, workers: int) -> None:
        self._tasks, self._workers = tasks, workers
        self._pool: ProcessPoolExecutor | None = None
        self._waiting: dict[str, Future[PackedBatch | None]] = {}

    @property
    def depth(self) -> int:
        """Return how many batches to ask for ahead."""
        return 2 * self._workers

    def draw(self, seed: str, following: Sequence[str] = ()) -> Drawn:
        """Return the batch of ``seed``, and have those of ``following`` made."""
        if not self._workers:
            return self._tasks.draw(random.Random(seed))
        for next_seed in (seed, *following):
            if next_seed not in self._waiting:
                self._waiting[next_seed] = self._started().submit(_make, next_seed)
        batch = self._waiting.pop(seed).result()
        return self._tasks.draw(random.Random(seed)) if batch is None else unpack(batch)

    def close(self) -> None:
        """End the processes; the next ``draw`` starts others."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._pool = None
        self._waiting.clear()

    def _started(self) -> ProcessPoolExecutor:
        global _tasks
        if self._pool is None:
            # Forked, so that they have the documents in memory as they are. They touch no GPU.
            _tasks = self._tasks
            context = multiprocessing.get_context("fork")
            self._pool = ProcessPoolExecutor(self._workers, context, initializer=_begin)
        return self._pool


def _begin() -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads are not in a forked process
    torch.set_num_threads(1)


def _make(seed: str) -> PackedBatch | None:
    """Make the batch of a seed, or ``None`` where it is a stateful task's."""
    assert _tasks is not None
    rng = random.Random(seed)
    name = _tasks.choose(rng)
    return None if _tasks.tasks[name].stateful else pack(_tasks.make(name, rng))


def pack(drawn: Drawn) -> PackedBatch:
    """Take a batch, a dataclass, apart."""
    kinds: dict[str, type] = {}
    values = dict(_leaves("", drawn.batch, kinds))
    tensors = {name: v.contiguous() for name, v in values.items() if isinstance(v, Tensor)}
    plain = {name: v for name, v in values.items() if name not in tensors}
    return PackedBatch(drawn.task, drawn.noise, kinds, save(tensors), plain)


def unpack(batch: PackedBatch) -> Drawn:
    """Return what ``pack`` was given."""
    values = {**load(batch.tensors), **batch.values}
    # The innermost dataclasses have the longest names, and the batch itself the empty one.
    for prefix in sorted(batch.kinds, key=len, reverse=True):
        names = [field.name for field in fields(batch.kinds[prefix])]
        parts = {name: values.pop(f"{prefix}{name}") for name in names}
        values[prefix.removesuffix(".")] = batch.kinds[prefix](**parts)
    return Drawn(batch.task, values[""], batch.noise)


def _leaves(prefix: str, part: Any, kinds: dict[str, type]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a dataclass, and of those in it, by dotted names; note their classes."""
    kinds[prefix] = type(part)
    for field in fields(part):
        value = getattr(part, field.name)
        if is_dataclass(value):
            yield from _leaves(f"{prefix}{field.name}.", value, kinds)
        else:
            yield f"{prefix}{field.name}", value
