"""A question over many libraries, simulated with one: the parts that grow are done as often.

Measured: the scan of all shards' landmarks with one list of the best, a BM25 search of each shard
with the merge of their hits, and the opening of each. All shards are the same files, so landmarks
are in memory once; what many would need is computed and said to be. Everything else of a question
is the same for one library and for many.
"""

from __future__ import annotations

import heapq
import itertools
import statistics
from collections.abc import Callable
from pathlib import Path

import torch

from drt_engine.ingest.temporary import open_library
from drt_engine.retrieval.candidates import LEXICAL_CANDIDATES
from drt_engine.runtime import Runtime
from drt_engine.store import Store
from drt_kernels import landmark_topk
from drt_kernels.scan.coder import CODED_ROWS
from drt_lab.bench.parts import MEGA, BenchOptions
from drt_lab.bench.phases import Seconds
from drt_lab.evaluate.report import BenchRow, bench_row

OPEN, SCAN, BM25 = "open", "landmark scan", "bm25"
_LEAST_FITTED = 4  # shards; of fewer there are not two other numbers
_BYTES = 2 + 1  # of a number of a landmark: fp16, and its code in eight bits


def simulated_shards(runtime: Runtime, library: Path, options: BenchOptions) -> list[BenchRow]:
    """Time the growing parts of a question over ``options.shards`` libraries like ``library``.

    Milliseconds of the processor. From four shards on, fewer are timed in turns with them, and a
    straight line through those says what all of them should take: the cost model, checked against
    a number that it was not fitted to.
    """
    shards = options.shards or 1
    fitted = sorted({1, shards // 4, shards // 2}) if shards >= _LEAST_FITTED else []
    query = torch.randn(1, runtime.config.width, generator=torch.Generator().manual_seed(1))
    times: dict[str, dict[int, list[float]]] = {part: {} for part in (OPEN, SCAN, BM25)}
    with runtime.computing(), open_library(runtime, library) as store:
        chunks = int(store.stats()["chunks"])
        for _ in range(2 + -(-chunks // CODED_ROWS)):
            for _ in store.scan_coded_landmarks():
                pass
        parts: dict[str, Callable[[int], object]] = {
            OPEN: lambda count: _open_all(runtime, library, count),
            SCAN: lambda count: _scan_all(runtime, store, query, count),
            BM25: lambda count: _search_all(store, options.question, count),
        }
        for _ in range(options.repetitions):
            for count in (*fitted, shards):
                for part, work in parts.items():
                    start = Seconds.now()
                    work(count)
                    times[part].setdefault(count, []).append(1000 * (Seconds.now() - start).cpu)
        tokens = shards * int(store.stats()["tokens"])
        size = shards * store.stats()["bytes_per_token"] * store.stats()["tokens"]
    name = f"{shards} shards, {tokens:,} tokens: "
    landmarks = shards * chunks * runtime.config.width * _BYTES
    return [
        *(bench_row(name + part, times[part][shards], unit="ms") for part in times),
        *(_predicted(name + part, times[part], shards) for part in times if fitted),
        bench_row(name + "landmarks in memory, computed", [landmarks / MEGA], unit="MB"),
        bench_row(name + "disk, computed", [size / MEGA], unit="MB"),
    ]


def _predicted(name: str, times: dict[int, list[float]], shards: int) -> BenchRow:
    """Return what a straight line through all but the largest number says of it, beside it."""
    counts = [count for count in times if count != shards]
    medians = [statistics.median(times[count]) for count in counts]
    slope, start = statistics.linear_regression(counts, medians)
    fitted_to = ", ".join(map(str, counts))
    return bench_row(
        f"{name}, predicted from {fitted_to}",
        [start + slope * shards],
        unit="ms",
        against=name,
        against_values=times[shards],
    )


def _open_all(runtime: Runtime, library: Path, shards: int) -> None:
    for _ in range(shards):
        open_library(runtime, library).close()


def _scan_all(runtime: Runtime, store: Store, query: torch.Tensor, shards: int) -> None:
    """Scan the landmarks of every shard with one list of the best."""
    scan = itertools.chain.from_iterable(store.scan_coded_landmarks() for _ in range(shards))
    count = max(runtime.config.late_candidates, runtime.config.retrieved)
    landmark_topk(query, (part for _, part in scan), count)


def _search_all(store: Store, question: str, shards: int) -> None:
    """Search the words in every shard and keep the best hits of all."""
    hits = [
        (
            (score, shard, chunk_id)
            for chunk_id, score in store.search_text(question, limit=LEXICAL_CANDIDATES)
        )
        for shard in range(shards)
    ]
    heapq.nlargest(LEXICAL_CANDIDATES, itertools.chain.from_iterable(hits))
