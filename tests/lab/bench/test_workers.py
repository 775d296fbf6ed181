"""Several workers against one: what is made, counted and refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from drt_engine.cluster.shards import ShardedLibrary
from drt_engine.errors import ConfigError
from drt_lab.bench import workers
from drt_lab.bench.parts import BenchOptions
from drt_lab.bench.run import bench
from drt_lab.bench.workers import largest_ratio
from tests.engine.cluster.conftest import ray
from tests.engine.cluster.fake_ray import FakeRay
from tests.tables import each_row

__all__ = ["ray"]


def options(model_folder: Path, **more: object) -> dict[str, object]:
    shared = {"model": model_folder, "device": "cpu", "threads": 1, "dtype": "fp32"}
    return {**shared, "repetitions": 2, "files": 4, "tokens": 256, **more}


@each_row(
    ("workers_cpu", "writer_cpu", "count", "processors", "ratio"),
    [
        (10.0, 0.0, 2, 2, 2.0),
        (10.0, 1.0, 2, 2, 10 / 5.5),  # the writer takes its part of two processors
        (10.0, 1.0, 2, 4, 2.0),
        (10.0, 1.0, 2, 1, 1.0),
        (10.0, 5.0, 8, 64, 2.0),  # the writer is one process
        (1.0, 5.0, 2, 4, 1.0),
    ],
)
def test_the_largest_ratio(
    workers_cpu: float, writer_cpu: float, count: int, processors: int, ratio: float
) -> None:
    assert largest_ratio(workers_cpu, writer_cpu, count, processors) == pytest.approx(ratio)


def test_every_worker_has_equally_many_files(tmp_path: Path) -> None:
    files = workers._files(tmp_path / "a", 4, BenchOptions(files=20, tokens=20 * 64), seed=0)
    library = ShardedLibrary(tmp_path / "a" / "library", 4)
    assert Counter(map(library.shard_of, files)) == dict.fromkeys(range(4), 5)
    texts = [file.read_text() for file in files]
    others = workers._files(tmp_path / "b", 4, BenchOptions(files=20, tokens=20 * 64), seed=1)
    assert len({*texts, *(file.read_text() for file in others)}) == 40


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"workers": 1}, "workers is 1, expected 2 or more, to compare with one"),
        ({"ray": "host:1"}, "ray is 'host:1', expected local: other machines differ"),
    ],
)
def test_what_cannot_be_compared(
    model_folder: Path, more: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        bench("ingest", options(model_folder, **more))


def test_what_is_counted(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[tuple[str, int]] = []

    class Crew:
        def __init__(self, name: str) -> None:
            self.name, self.cpu = name, 0.0

        def read(self, files: list[Path]) -> int:
            reads.append((self.name, len(files)))
            self.cpu += 2.0
            return 100 * len(files)

        def cpu_seconds(self) -> float:
            return self.cpu

    @contextmanager
    def crews(runtime: object, count: int, folder: Path) -> Iterator[tuple[Crew, Crew]]:
        yield Crew("one"), Crew("many")

    clock = iter([0.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 6.0])
    times = SimpleNamespace(
        perf_counter=lambda: next(clock), process_time=lambda: 0.0, monotonic=lambda: 0.0
    )
    monkeypatch.setattr(workers, "_process_crews", crews)
    monkeypatch.setattr(workers, "time", times)
    monkeypatch.setattr(workers, "allowed_processors", lambda: {0, 1})
    result = bench("ingest", options(model_folder, workers=2))
    assert reads == [
        *(("one", 4), ("many", 4)),  # to warm up
        *(("one", 4), ("many", 4)),
        *(("many", 4), ("one", 4)),
    ]
    one, many, worker, writer, bound = result["rows"]
    assert (one["median"], many["median"], many["against"]) == (200, 400, "1 worker")
    assert many["ratio"] == bound["median"] == 2
    assert (worker["median"], writer["median"]) == (500, 0)
    assert result["calibration"]["tokens"] == 400


@pytest.mark.slow
def test_processes(model_folder: Path) -> None:
    result = bench("ingest", options(model_folder, workers=2, repetitions=1))
    assert all(row["median"] > 0 for row in result["rows"])


@pytest.mark.thorough
def test_actors(ray: FakeRay, model_folder: Path) -> None:
    result = bench("ingest", options(model_folder, ray="local", repetitions=1))
    assert all(row["median"] > 0 for row in result["rows"][:2])
    assert ray.opened[0]["num_cpus"] == 3 and not ray.is_open
