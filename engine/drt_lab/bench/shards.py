"""A question over many libraries, simulated with one: the parts that grow are done as often.

Measured: the scan of all shards' landmarks with one list of the best, a BM25 search of each shard
with the merge of their hits, and the opening of each. All shards are the same files, so landmarks
are in memory once; what many would need is computed and said to be. Everything else of a question
is the same for one library and for many.
"""

from __future__ import annotations

import heapq
import itertools
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

_BYTES = 2 + 1  # of a number of a landmark: fp16, and its code in eight bits


def simulated_shards(runtime: Runtime, library: Path, options: BenchOptions) -> list[BenchRow]:
    """Time the growing parts of a question over ``options.shards`` libraries like ``library``.

    Milliseconds of the processor.
    """
    shards = options.shards or 1
    query = torch.randn(1, runtime.config.width, generator=torch.Generator().manual_seed(1))
    opening, scans, searches = [], [], []
    with runtime.computing(), open_library(runtime, library) as store:
        chunks = int(store.stats()["chunks"])
        for _ in range(2 + -(-chunks // CODED_ROWS)):
            for _ in store.scan_coded_landmarks():
                pass
        for _ in range(options.repetitions):
            start = Seconds.now()
            for _ in range(shards):
                open_library(runtime, library).close()
            opening.append(1000 * (Seconds.now() - start).cpu)
            start = Seconds.now()
            scan = itertools.chain.from_iterable(
                store.scan_coded_landmarks() for _ in range(shards)
            )
            count = max(runtime.config.late_candidates, runtime.config.retrieved)
            landmark_topk(query, (part for _, part in scan), count)
            scans.append(1000 * (Seconds.now() - start).cpu)
            searches.append(1000 * _search_all(store, options.question, shards).cpu)
        tokens = shards * int(store.stats()["tokens"])
        size = shards * store.stats()["bytes_per_token"] * store.stats()["tokens"]
    name = f"{shards} shards, {tokens:,} tokens: "
    landmarks = shards * chunks * runtime.config.width * _BYTES
    return [
        bench_row(name + "open", opening, unit="ms"),
        bench_row(name + "landmark scan", scans, unit="ms"),
        bench_row(name + "bm25", searches, unit="ms"),
        bench_row(name + "landmarks in memory, computed", [landmarks / MEGA], unit="MB"),
        bench_row(name + "disk, computed", [size / MEGA], unit="MB"),
    ]


def _search_all(store: Store, question: str, shards: int) -> Seconds:
    """Search the words in every shard and keep the best hits of all."""
    start = Seconds.now()
    hits = [
        (
            (score, shard, chunk_id)
            for chunk_id, score in store.search_text(question, limit=LEXICAL_CANDIDATES)
        )
        for shard in range(shards)
    ]
    heapq.nlargest(LEXICAL_CANDIDATES, itertools.chain.from_iterable(hits))
    return Seconds.now() - start
