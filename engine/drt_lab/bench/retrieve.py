"""``drt bench retrieve``: one scan of all landmarks, and BM25 over as many chunks.

The landmarks are random and lie in memory as the store hands them out, as they are and with the
codes that they have after some questions; the scoring is the one that asking uses. Beside it, on
the device: the scan kernel over landmarks in one piece, a copy of the same bytes, and faiss where
it is installed. BM25 runs over an index in memory of made-up chunks of the same number.
"""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drt_engine.model.selection import select
from drt_engine.retrieval.candidates import LandmarkScan, find_candidates
from drt_engine.runtime import Runtime
from drt_engine.store.segments.reader import SCAN_ROWS
from drt_engine.text.lexical import LexicalIndex
from drt_kernels.scan import Landmarks, landmark_topk
from drt_lab.bench.parts import (
    GIGA,
    BenchOptions,
    Matmul,
    MemoryCopy,
    generated_text,
)
from drt_lab.bench.timing import Clock, Work, in_turns
from drt_lab.evaluate.report import BenchReport, bench_row, median_iqr

TOKENS = 1 << 22
PART = 1024  # landmarks made, and given to faiss, at a time
SCAN, CODED, COPY, BM25 = "landmark scan", "coded landmark scan", "memory copy", "bm25"
KERNEL, PRODUCT, FAISS = "scan kernel", "product and top-k", "faiss IndexFlatIP"


class _Landmarks:
    """Landmarks in parts, as a store hands them out."""

    def __init__(self, landmarks: Tensor, *, coded: bool) -> None:
        parts = map(Landmarks, landmarks.split(SCAN_ROWS))
        self._parts = [part.coded() if coded else part for part in parts]

    def scan_coded_landmarks(self) -> Iterator[tuple[Sequence[int], Landmarks]]:
        at = 0
        for part in self._parts:
            yield range(at, at + len(part)), part
            at += len(part)


def bench_retrieve(runtime: Runtime, options: BenchOptions) -> BenchReport:
    """Scan the landmarks of ``tokens`` tokens, in turns with a copy of the same bytes and BM25."""
    started = time.monotonic()
    config = runtime.config
    count = max(1, (options.tokens or TOKENS) // config.chunk)
    landmarks = _random_landmarks(count, config.width)
    query = torch.randn(config.width, generator=torch.Generator().manual_seed(1))
    size = landmarks.numel() * landmarks.element_size()
    copy, matmul = MemoryCopy(size, runtime.device), Matmul(runtime)
    plain, coded = (_Landmarks(landmarks, coded=coded) for coded in (False, True))
    index = LexicalIndex(_texts(options, count, config.chunk))
    works: dict[str, Work] = {
        SCAN: lambda: _scan(runtime, plain, query),
        CODED: lambda: _scan(runtime, coded, query),
        COPY: copy.copy,
        BM25: lambda: index.search(options.question, 64),
        "calibration": matmul.time,
        **_scans(landmarks.to(runtime.device), query.to(runtime.device), config.retrieved),
    }
    with runtime.computing():
        timed = in_turns(
            works,
            Clock(runtime.device),
            repetitions=options.repetitions,
            needed=[SCAN, CODED, COPY, BM25],
        )
    index.close()
    milliseconds = {name: [1000 * s for s in seconds] for name, seconds in timed.items()}
    del milliseconds["calibration"]
    against = {COPY: None, CODED: SCAN, BM25: SCAN, FAISS: SCAN}
    rows = []
    for name, values in milliseconds.items():
        reference = against.get(name, COPY)
        compared = milliseconds[reference] if reference else ()
        rows.append(bench_row(name, values, unit="ms", against=reference, against_values=compared))
    return BenchReport(
        bench="retrieve",
        rows=rows,
        seconds=time.monotonic() - started,
        model=runtime.name,
        calibration={
            "matmul_gflops": median_iqr(matmul.rates)[0] / GIGA,
            "memcpy_gb_per_s": size / median_iqr(timed[COPY])[0] / GIGA,
            "threads": torch.get_num_threads(),
            "landmarks": count,
        },
    )


def _scans(landmarks: Tensor, query: Tensor, count: int) -> dict[str, Work]:
    """Return the scans for one question over landmarks that are one tensor on the device."""
    alike = query.to(landmarks.dtype)
    works: dict[str, Work] = {
        KERNEL: lambda: landmark_topk(query[None], landmarks, count),
        PRODUCT: lambda: (landmarks @ alike).topk(min(count, len(landmarks))),
    }
    faiss_spec = importlib.util.find_spec("faiss")
    if faiss_spec is not None and faiss_spec.origin is not None:  # not just a folder of that name
        faiss: Any = importlib.import_module("faiss")
        faiss.omp_set_num_threads(torch.get_num_threads())
        flat = faiss.IndexFlatIP(landmarks.shape[1])
        for part in landmarks.split(PART):  # faiss keeps fp32
            flat.add(part.float().cpu().numpy())
        query_rows = query[None].cpu().numpy()
        works[FAISS] = lambda: flat.search(query_rows, count)
    return works


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


def _scan(runtime: Runtime, landmarks: _Landmarks, query: Tensor) -> None:
    """Scan and choose as asking by landmarks alone does."""
    scorer, count = runtime.model.scorer, runtime.config.retrieved
    if scorer.late is not None:
        count = max(count, runtime.config.late_candidates)
    parts = LandmarkScan(landmarks.scan_coded_landmarks())
    scores = find_candidates(query.float().cpu(), scorer, parts, {}, count=count).scores.total
    allowed = torch.ones(1, len(scores), dtype=torch.bool)
    select(scores[None], allowed, runtime.config.retrieved)
