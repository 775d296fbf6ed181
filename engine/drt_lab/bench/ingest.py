"""``drt bench ingest``: from a file to a committed library, in tokens and operations a second."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import torch

from drt_engine.config.model import ModelConfig
from drt_engine.documents import Source
from drt_engine.ingest.pipeline import ingest_source
from drt_engine.ingest.temporary import open_library
from drt_engine.runtime import Runtime
from drt_lab.bench.parts import (
    GIGA,
    MATMUL,
    MEGA,
    BenchOptions,
    Matmul,
    MemoryCopy,
    run_process,
)
from drt_lab.bench.workers import bench_workers
from drt_lab.evaluate.report import BenchReport, BenchRow, bench_row, median_iqr

TOKENS = 60_000


def bench_ingest(runtime: Runtime, options: BenchOptions) -> BenchReport:
    """Read the same document into a new library again and again, in turns with matrix products.

    The share of the matrix-product rate counts the operations that one pass of lower stack,
    encoder and memory map needs; the warm-up of a segment's window is time, not work. With
    ``workers`` several processes read small files instead.
    """
    if options.workers is not None or options.ray is not None:
        return bench_workers(runtime, options)
    started = time.monotonic()
    matmul, copy = Matmul(runtime), MemoryCopy(1 << 26)
    seconds, tokens = [], 0
    with tempfile.TemporaryDirectory(prefix="drt-bench-") as name:
        folder = Path(name)
        file = options.text_file(folder, tokens=TOKENS)
        for number in range(options.repetitions + 1):
            matmul.time()
            copy.time()
            start_time = time.perf_counter()
            with open_library(runtime, folder / f"library{number}") as store:
                tokens = ingest_source(runtime, store, Source.from_path(file))[0].tokens
            # The first reading warms caches and the allocator up.
            if number:
                seconds.append(time.perf_counter() - start_time)
        process = run_process(options.command(runtime, folder / "fresh", "ingest", str(file)))
    per_token = read_flops(runtime.config)
    rates = [per_token * tokens / s for s in seconds]
    rows = [
        bench_row("read", [tokens / s for s in seconds], unit="tokens/s"),
        bench_row(
            "read, operations",
            [rate / GIGA for rate in rates],
            unit="GFLOP/s",
            against=MATMUL,
            against_values=[rate / GIGA for rate in matmul.rates],
        ),
    ]
    if process.peak_bytes is not None:
        peak = process.peak_bytes / MEGA
        rows.append(BenchRow("peak memory of `drt ingest`", peak, 0.0, "MB"))
    return BenchReport(
        bench="ingest",
        rows=rows,
        seconds=time.monotonic() - started,
        model=runtime.name,
        calibration={
            "matmul_gflops": median_iqr(matmul.rates)[0] / GIGA,
            "memcpy_gb_per_s": median_iqr(copy.rates)[0] / GIGA,
            "matmul_bits": torch.finfo(runtime.dtype).bits,
            "threads": torch.get_num_threads(),
            "tokens": tokens,
            "flops_per_token": per_token,
        },
    )


def read_flops(config: ModelConfig) -> float:
    """Return the floating-point operations of reading one token of a long document.

    Matrix products of the lower stack, the chunk encoder, the memory map and the landmark's key;
    a landmark token belongs to each chunk, so its work is spread over the chunk's tokens.
    """
    width, slots, encoder = config.width, config.slots, config.encoder
    heads, kv = config.heads * config.head_size, config.kv_heads * config.head_size
    # Weights that one slot is multiplied with.
    lower = width * (heads + 2 * kv) + heads * width + 3 * width * config.mlp
    maps = 3 if encoder.kind == "llama" else 2
    encode = 4 * width * width + maps * width * encoder.mlp
    memory = 2 * width * kv
    # Elements that one slot's query, and its softmax, meet in attention.
    lower_attention = 2 * heads * config.window
    encode_attention = 2 * width * slots
    slot = (
        config.lower_layers * (lower + lower_attention)
        + encoder.layers * (encode + encode_attention)
        + memory
    )
    return 2.0 * (slot * slots + width * width) / config.chunk
