"""`drt bench retrieve`: one scan of all landmarks, and BM25 over as many chunks.

The landmarks are random and lie in memory as the store hands them out; the scoring is the one
that asking uses. BM25 runs over an index in memory of made-up chunks of the same number.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from drt_engine.evaluate.bench_parts import (
    GIGA,
    BenchOptions,
    Matmul,
    MemoryCopy,
    generated_text,
)
from drt_engine.evaluate.report import BenchReport, bench_row, median_iqr
from drt_engine.retrieval.lexical import LexicalIndex
from drt_engine.retrieval.library import LibrarySource
from drt_engine.retrieval.selection import select
from drt_engine.runtime import Runtime
from drt_engine.store import Store

TOKENS = 1 << 22
PART = 1024  # chunks that the store hands out together
SCAN, COPY, BM25 = "landmark scan", "memory copy", "bm25"


class _Landmarks:
    """As much of a store as the scan needs: landmarks in parts, and no text."""

    def __init__(self, landmarks: Tensor) -> None:
        self._landmarks = landmarks

    def scan_landmarks(
        self, documents: Sequence[str] | None = None
    ) -> Iterator[tuple[list[int], Tensor]]:
        for at in range(0, len(self._landmarks), PART):
            part = self._landmarks[at : at + PART]
            yield list(range(at, at + len(part))), part


def bench_retrieve(runtime: Runtime, options: BenchOptions) -> BenchReport:
    """Scan the landmarks of `tokens` tokens, in turns with a copy of the same bytes and BM25."""
    started = time.monotonic()
    config = runtime.config
    count = max(1, (options.tokens or TOKENS) // config.chunk)
    landmarks = _random_landmarks(count, config.width)
    query = torch.randn(config.width, generator=torch.Generator().manual_seed(1))
    copy, matmul = MemoryCopy(landmarks.numel() * landmarks.element_size()), Matmul(runtime)
    source = LibrarySource(
        runtime,
        cast(Store, _Landmarks(landmarks)),
        options.question,
        (),
        count=config.retrieved,
        retriever="landmark",
    )
    index = LexicalIndex(_texts(options, count, config.chunk))
    scans: list[float] = []
    searches: list[float] = []
    for number in range(options.repetitions + 1):
        scan, search = _scan(source, query), _search(index, options.question)
        if number:  # the first time warms up
            scans.append(scan)
            searches.append(search)
        copy.time()
        matmul.time()
    index.close()
    copies = [1000 * s for s in copy.seconds[1:]]
    return BenchReport(
        bench="retrieve",
        rows=[
            bench_row(SCAN, scans, unit="ms", against=COPY, against_values=copies),
            bench_row(COPY, copies, unit="ms"),
            bench_row(BM25, searches, unit="ms", against=SCAN, against_values=scans),
        ],
        seconds=time.monotonic() - started,
        model=runtime.name,
        calibration={
            "matmul_gflops": median_iqr(matmul.rates)[0] / GIGA,
            "memcpy_gb_per_s": median_iqr(copy.rates[1:])[0] / GIGA,
            "threads": torch.get_num_threads(),
            "landmarks": count,
        },
    )


def _random_landmarks(count: int, width: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    out = torch.empty(count, width, dtype=torch.float16)
    for at in range(0, count, PART):  # all at once would take twice the memory in fp32
        size = min(PART, count - at)
        out[at : at + size] = torch.randn(size, width, generator=generator).half()
    return out


def _texts(options: BenchOptions, count: int, chunk: int) -> list[str]:
    """Texts of chunks: of the given document, over and over, or made up."""
    with tempfile.TemporaryDirectory(prefix="drt-bench-") as name:
        if options.file is None:
            text = generated_text(min(count, 4096) * chunk)
        else:
            text = options.text_file(Path(name), tokens=0).read_text("utf-8", "replace")
    words = text.split()
    step = max(1, chunk * 3 // 4)  # words in a chunk of English
    texts = [" ".join(words[at : at + step]) for at in range(0, len(words), step)]
    return [texts[number % len(texts)] for number in range(count)]


def _scan(source: LibrarySource, query: Tensor) -> float:
    scorer = source.runtime.model.scorer
    with source.runtime.computing():
        begun = time.perf_counter()
        _, scores = source._scores(query.float().cpu(), scorer)
        allowed = torch.ones(1, len(scores), dtype=torch.bool)
        select(scores[None], allowed, source.count)
        return 1000 * (time.perf_counter() - begun)


def _search(index: LexicalIndex, question: str) -> float:
    begun = time.perf_counter()
    index.search(question, 64)
    return 1000 * (time.perf_counter() - begun)
