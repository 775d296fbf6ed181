"""Batches made ahead by other processes, while this one computes.

A batch depends on its seed alone, so it does not matter who makes it. Those of the stream, whose
state moves on with each, are made here.
"""

from __future__ import annotations

import multiprocessing
import os
import random
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import fields
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from drt_engine.train.questions import QuestionBatch
from drt_engine.train.tasks import Drawn, Tasks

# A batch as it travels: task, seed of the noise, tensors, the rest.
Packed = tuple[str, int | None, bytes, dict[str, Any]]

_tasks: Tasks | None = None  # what a forked process finds here


class Ahead:
    """Draws batches by their seeds; ``workers`` processes make those that follow meanwhile."""

    def __init__(self, tasks: Tasks, workers: int) -> None:
        self._tasks, self._workers = tasks, workers
        self._pool: ProcessPoolExecutor | None = None
        self._waiting: dict[str, Future[Packed | None]] = {}

    @property
    def depth(self) -> int:
        """How many batches to ask for ahead."""
        return 2 * self._workers

    def draw(self, seed: str, following: Sequence[str] = ()) -> Drawn:
        """Return the batch of ``seed``, and have those of ``following`` made."""
        if not self._workers:
            return self._tasks.draw(random.Random(seed))
        for each in (seed, *following):
            if each not in self._waiting:
                self._waiting[each] = self._started().submit(_make, each)
        packed = self._waiting.pop(seed).result()
        return self._tasks.draw(random.Random(seed)) if packed is None else unpacked(packed)

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


def _make(seed: str) -> Packed | None:
    """Make the batch of a seed, or ``None`` where it is the stream's."""
    assert _tasks is not None
    rng = random.Random(seed)
    task = _tasks.choose(rng)
    return None if task == "stream" else packed(_tasks.make(task, rng))


def packed(drawn: Drawn) -> Packed:
    """A batch of questions as bytes and plain lists."""
    batch = drawn.batch
    assert isinstance(batch, QuestionBatch)
    values = {f.name: getattr(batch, f.name) for f in fields(batch)}
    tensors = {k: v.contiguous() for k, v in values.items() if isinstance(v, Tensor)}
    rest = {k: v for k, v in values.items() if k not in tensors}
    return drawn.task, drawn.noise, save(tensors), rest


def unpacked(made: Packed) -> Drawn:
    """What ``packed`` was given."""
    task, noise, tensors, rest = made
    return Drawn(task, QuestionBatch(**(load(tensors) | rest)), noise)
