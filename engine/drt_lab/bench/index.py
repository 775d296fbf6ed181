"""``drt bench index``: exact and approximate scans of made-up landmarks, and recall between them.

The landmarks are clustered as texts are, in themes and topics, and beside them random, the worst
case. Only landmarks are made, no chunk memory, so that sizes fit which a whole library would
not. Times of scans are of the processor, milliseconds.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from drt_engine.retrieval.clustering import required_faiss
from drt_engine.retrieval.index import (
    assigned_lists,
    best_chunks,
    default_lists,
    default_probes,
    trained_centroids,
)
from drt_engine.store.filesystem.disk import DISK
from drt_engine.store.filesystem.library_folder import SEGMENTS_NAME, Folder
from drt_engine.store.index.format import IndexRow, new_name
from drt_engine.store.index.reader import InvertedFile, open_inverted_file
from drt_engine.store.index.writer import IndexPlan, write_inverted_file
from drt_engine.store.segments.reader import SCAN_ROWS
from drt_kernels.scan import LandmarkCoder, Landmarks
from drt_kernels.scan.coder import CODED_ROWS
from drt_lab.bench.parts import MEGA, BenchOptions
from drt_lab.bench.timing import load_average
from drt_lab.evaluate.report import BenchReport, BenchRow, bench_row

TOKENS = 1 << 24
CLUSTERED, RANDOM = "clustered", "random"
_MOST_RANDOM = 1 << 20  # landmarks; beyond, only what is like texts is made
COUNT = 32  # best landmarks that are compared
EXACT = "exact scan"
_QUERIES = 32
_MADE_ROWS = 32_768  # at a time
_CHUNKS_PER_THEME, _CHUNKS_PER_TOPIC = 16_384, 256
_THEME, _TOPIC, _OWN = 0.5, 0.5, 0.7  # lengths of the parts of a landmark before it is normalised
_QUERY_NOISE = 1.0  # length of what a query has beside its landmark
_FINGERPRINT = "made-up landmarks"

Part = tuple[Sequence[int], Landmarks]
Scan = Callable[[], Iterable[Part]]


def bench_index(options: BenchOptions) -> BenchReport:
    """Make the landmarks of ``tokens`` tokens and an index of them; scan both ways in turns.

    With ``shards`` a question over so many libraries like it is simulated, with one list of the
    best: all scans read the same memory.
    """
    required_faiss()
    started = time.monotonic()
    machine, config = options.machine(), options.config
    chunks = max(1, (options.tokens or TOKENS) // config.chunk)
    with contextlib.ExitStack() as stack:
        folder = options.folder
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="drt-bench-")))
        rows: list[BenchRow] = []
        kinds = (CLUSTERED, RANDOM) if chunks <= _MOST_RANDOM else (CLUSTERED,)
        for kind in kinds:
            path = folder / f"{kind}-{chunks}.f16"
            table = made_up_landmarks(path, chunks, config.width, clustered=kind == CLUSTERED)
            with torch.inference_mode():
                file, built = _built(folder, table, options.lists)
                measured = [*built, *_scans(table, file, options)]
            rows += [_named(row, kind) for row in measured]
    return BenchReport(
        bench="index",
        rows=rows,
        seconds=time.monotonic() - started,
        model=str(config.width),
        calibration={
            "landmarks": chunks,
            "lists": file.header.lists,
            "default_probes": default_probes(file.header.lists),
            "threads": torch.get_num_threads(),
            "load": load_average(),
            "device": machine.device.type == "cuda",
        },
    )


def _named(row: BenchRow, kind: str) -> BenchRow:
    """Return a row with the kind of its landmarks before its names."""
    against = None if row.against is None else f"{kind}: {row.against}"
    return replace(row, name=f"{kind}: {row.name}", against=against)


def made_up_landmarks(path: Path, count: int, width: int, *, clustered: bool) -> Tensor:
    """Return landmarks [C, E] fp16 of unit length, mapped from a file made for them.

    Clustered ones are a theme, a topic of it and something of their own; the others are directions
    at random, which no index can group. A file of the right size is used again.
    """
    size = 2 * count * width
    if not path.exists() or path.stat().st_size != size:
        path.parent.mkdir(parents=True, exist_ok=True)
        chance = torch.Generator().manual_seed(0)
        themes = _directions(max(16, count // _CHUNKS_PER_THEME), width, chance)
        topics = max(64, count // _CHUNKS_PER_TOPIC)
        theme_of_topic = torch.randint(len(themes), (topics,), generator=chance)
        centres = _THEME * themes[theme_of_topic] + _TOPIC * _directions(topics, width, chance)
        with path.open("wb") as file:
            for at in range(0, count, _MADE_ROWS):
                rows = min(_MADE_ROWS, count - at)
                # Documents are of one topic for a while, as chunks that follow one another are.
                topic = torch.randint(topics, (-(-rows // 16),), generator=chance)
                centre = centres[topic.repeat_interleave(16)[:rows]]
                landmarks = _OWN * _directions(rows, width, chance)
                if clustered:
                    landmarks += centre
                file.write(torch.nn.functional.normalize(landmarks, dim=1).half().numpy().tobytes())
    shape = (count, width)
    return torch.from_file(str(path), size=count * width, dtype=torch.float16).view(shape)


def _directions(count: int, width: int, chance: torch.Generator) -> Tensor:
    return torch.nn.functional.normalize(torch.randn(count, width, generator=chance), dim=1)


def _built(folder: Path, table: Tensor, lists: int | None) -> tuple[InvertedFile, list[BenchRow]]:
    """Make the index of a table of landmarks; return it, with the times and its size."""
    parts = partial(_parts, table)
    lists = min(lists or default_lists(len(table)), len(table))
    clocks = [time.process_time()]
    centroids = trained_centroids(parts, len(table), lists)
    clocks.append(time.process_time())
    assigned = assigned_lists(parts, len(table), centroids)
    clocks.append(time.process_time())
    store = Folder(folder, timeout=1.0)
    store.segments.mkdir(exist_ok=True)
    plan = IndexPlan(centroids, assigned, len(table), (), _FINGERPRINT)
    row = IndexRow(new_name(), 0, default_probes(lists))
    path = folder / SEGMENTS_NAME / row.name
    row = IndexRow(row.name, write_inverted_file(DISK, path, parts, plan), row.probes)
    clocks.append(time.process_time())
    size = path.stat().st_size
    opening = []
    for _ in range(5):
        begin = time.process_time()
        file = open_inverted_file(store, row, width=table.shape[1], fingerprint=_FINGERPRINT)
        opening.append(1000 * (time.process_time() - begin))
    # What is open stays readable, and nothing of gigabytes is left behind.
    file.check()
    path.unlink()
    names = ("train centroids", "assign landmarks", "write the index")
    return file, [
        *(
            bench_row(name, [after - before], unit="s")
            for name, before, after in zip(names, clocks, clocks[1:], strict=False)
        ),
        bench_row("index", [size / MEGA], unit="MB"),
        bench_row("open the index", opening, unit="ms"),
    ]


def _scans(table: Tensor, file: InvertedFile, options: BenchOptions) -> list[BenchRow]:
    """Scan for questions exactly and with several numbers of lists, and compare the best."""
    coder = LandmarkCoder(table.split(SCAN_ROWS))
    for _ in range(2 + len(coder.parts) + len(table) // CODED_ROWS):
        coder.advance()
    shards = options.shards or 1
    queries = _queries(table)[: max(options.repetitions, 5)]
    exact_times, best = [], []
    for query in queries:
        seconds, chunk_ids = _timed(partial(_coded, coder), query, shards)
        exact_times.append(1000 * seconds)
        best.append(chunk_ids)
    suffix = f", {shards} shards" if shards > 1 else ""
    rows = [bench_row(EXACT + suffix, exact_times, unit="ms")]
    default = default_probes(file.header.lists)
    for probes in sorted({max(1, default // 8), default // 4, default // 2, default, 2 * default}):
        if not 1 <= probes <= file.header.lists:
            continue
        times, shares = [], []
        for query, exact in zip(queries, best, strict=True):
            scan = partial(_probed, file, query, probes)
            seconds, chunk_ids = _timed(scan, query, shards)
            times.append(1000 * seconds)
            shares.append(len(exact & chunk_ids) / len(exact))
        name = f"{probes} of {file.header.lists} lists{suffix}"
        against = rows[0].name
        rows.append(bench_row(name, times, unit="ms", against=against, against_values=exact_times))
        rows.append(bench_row(f"{name}: recall@{COUNT}", [sum(shares) / len(shares)], unit=""))
    return rows


def _queries(table: Tensor) -> list[Tensor]:
    """Return vectors near some landmarks, as questions are near the chunks that answer them."""
    chance = torch.Generator().manual_seed(7)
    rows = table[torch.randint(len(table), (_QUERIES,), generator=chance)].float()
    noise = _directions(_QUERIES, table.shape[1], chance)
    return list(torch.nn.functional.normalize(rows + _QUERY_NOISE * noise, dim=1))


def _timed(scan: Scan, query: Tensor, shards: int) -> tuple[float, set[int]]:
    """Return the processor's seconds of a scan over so many shards, and the best of one."""
    begin = time.process_time()
    parts = [part for _ in range(shards) for part in scan()]
    chunk_ids = best_chunks(parts, query, COUNT)
    seconds = time.process_time() - begin
    return seconds, chunk_ids if shards == 1 else best_chunks(scan(), query, COUNT)


def _probed(file: InvertedFile, query: Tensor, probes: int) -> list[Part]:
    return list(file.parts(file.nearest(query, probes)))


def _coded(coder: LandmarkCoder) -> Iterator[Part]:
    at = 0
    for part in coder.parts:
        yield range(at, at + len(part)), part
        at += len(part)


def _parts(table: Tensor) -> Iterator[tuple[Sequence[int], Tensor]]:
    at = 0
    for part in table.split(SCAN_ROWS):
        yield range(at, at + len(part)), part
        at += len(part)
