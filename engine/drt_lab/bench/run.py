"""The door to all benchmarks: a name and options in, the documented JSON out.

Every number stands beside something timed in the same run, in turns, since machines differ and
are seldom idle: a matrix product, a copy of memory, a Python process that only imports torch.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from drt_engine.errors import ConfigError
from drt_engine.runtime import Runtime
from drt_lab.bench.ask import bench_ask
from drt_lab.bench.decode import bench_decode
from drt_lab.bench.documents import bench_documents
from drt_lab.bench.index import bench_index
from drt_lab.bench.ingest import bench_ingest
from drt_lab.bench.kernels import bench_kernels
from drt_lab.bench.library import bench_library
from drt_lab.bench.models import bench_models
from drt_lab.bench.parts import BenchOptions
from drt_lab.bench.pdf import bench_pdf
from drt_lab.bench.plan import bench_plan
from drt_lab.bench.retrieve import bench_retrieve
from drt_lab.bench.train import bench_train
from drt_lab.config.load import build
from drt_lab.evaluate.report import BenchReport

# With the model that reads and answers, and those that make what they time or need none.
WITH_MODEL: dict[str, Callable[[Runtime, BenchOptions], BenchReport]] = {
    "ingest": bench_ingest,
    "ask": bench_ask,
    "retrieve": bench_retrieve,
    "library": bench_library,
}
OWN_MODEL: dict[str, Callable[[BenchOptions], BenchReport]] = {
    "kernels": bench_kernels,
    "decode": bench_decode,
    "train": bench_train,
    "models": bench_models,
    "pdf": bench_pdf,
    "index": bench_index,
    "documents": bench_documents,
}


def bench(name: str, options: dict[str, object]) -> dict[str, Any]:
    """Time one part of the program; the fields of BenchOptions are the options.

    Raises ConfigError for an unknown name or option, WeightsError for a model that is not there.
    """
    names = [*WITH_MODEL, *OWN_MODEL]
    if name not in names:
        raise ConfigError(f"no benchmark is called {name!r}; there are {', '.join(names)}")
    plain = {key: str(v) if isinstance(v, Path) else v for key, v in options.items()}
    bench_options = build(BenchOptions, plain, f"{name}.")
    if bench_options.plan is not None:
        if name != "train":
            raise ConfigError(f"{name} has no plan, expected the benchmark train")
        return bench_plan(bench_options).to_dict()
    if name in OWN_MODEL:
        return OWN_MODEL[name](bench_options).to_dict()
    runtime = bench_options.runtime()
    return WITH_MODEL[name](runtime, bench_options).to_dict()
