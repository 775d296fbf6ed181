"""How far all shards are read, asked of their actors while they read."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from drt_engine.cluster.connection import ActorEnded, Cluster
from drt_engine.cluster.shard_reader import DocumentResult
from drt_engine.errors import EngineError
from drt_engine.results import IngestProgress, ShardsProgress

STATUS = "status"  # the calls that an actor answers while it reads

Progress = Callable[[ShardsProgress], None]


class ShardStatus:
    """Adds up results, and what the actors last said of the documents that are open."""

    def __init__(self, cluster: Cluster, shards: int, files: int) -> None:
        self._cluster, self._files = cluster, files
        self._calls: dict[int, Any] = {}
        self._open: list[IngestProgress | None] = [None] * shards
        self._tokens = 0
        self._began = time.monotonic()

    def add(self, result: DocumentResult) -> None:
        """Count a document that is done."""
        self._tokens += result.tokens

    def now(self, actors: Mapping[int, Any], files_done: int) -> ShardsProgress:
        """Return how far all is; waits for no actor."""
        for number, actor in list(actors.items()):
            if number not in self._calls:
                status = actor.progress.options(concurrency_group=STATUS)
                self._calls[number] = status.remote()
        for number, reference in list(self._calls.items()):
            if self._cluster.ready([reference], timeout=0):
                del self._calls[number]
                self._open[number] = self._answer(reference)
        return ShardsProgress(
            files=files_done,
            total_files=self._files,
            tokens=self._tokens + sum(step.tokens for step in self._open if step is not None),
            seconds=time.monotonic() - self._began,
            documents=tuple(self._open),
        )

    def _answer(self, reference: Any) -> IngestProgress | None:
        try:
            step: IngestProgress | None = self._cluster.result(reference)
        except (ActorEnded, EngineError):
            return None
        return step
