"""Makes a library's approximate index, and measures what it finds of what an exact scan does."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from drt_engine.errors import ConfigError, StoreError
from drt_engine.results import IndexInfo, IndexRecall
from drt_engine.retrieval.clustering import (
    POINTS_PER_LIST,
    assign_lists,
    required_faiss,
    train_centroids,
)
from drt_engine.store import Store
from drt_engine.store.index.format import MAX_LISTS, IndexHeader
from drt_engine.store.index.probe import NO_INDEX
from drt_engine.store.index.writer import IndexPlan, Parts
from drt_engine.store.view import LibraryView
from drt_kernels import landmark_topk
from drt_kernels.scan import Landmarks
from drt_kernels.scan.coder import CODED_ROWS

# Of the lists, by default: in a real library of 5,480 chunks, 32 of 128 lists hold 0.98 of the best
# 64 chunks of an exact scan; the larger the library, the fewer of its lists these are in.
_PROBED = 1 / 16
_LEAST_PROBES = 32
_ASSIGNED = 32_768  # landmarks that get their lists at a time
Progress = Callable[[str, int, int], None]  # what is done, how much, and of how much


@dataclass(frozen=True)
class IndexOptions:
    """How an index is made; ``lists`` and ``probes`` follow from the library's size by default."""

    lists: int | None = None
    probes: int | None = None

    def __post_init__(self) -> None:
        for name in ("lists", "probes"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= MAX_LISTS:
                raise ConfigError(f"{name} is {value}, expected 1 to {MAX_LISTS}")


def default_lists(chunks: int) -> int:
    """Return the power of two next to twice the root of the chunks, but enough chunks in each."""
    most = max(1, chunks // 39)  # FAISS warns below this
    power = round(math.log2(2 * math.sqrt(max(chunks, 1))))
    return min(1 << power, most, MAX_LISTS)


def default_probes(lists: int) -> int:
    """Return how many lists a question scans."""
    return min(lists, max(_LEAST_PROBES, round(lists * _PROBED)))


def make_index(
    store: Store, options: IndexOptions | None = None, *, progress: Progress | None = None
) -> IndexInfo:
    """Make the approximate index of a library as it is now; an older one is replaced.

    Raises ConfigError without FAISS, CorruptStore, and StoreError for a library without documents
    and where a writer has removed the index again.
    """
    required_faiss()
    options = options or IndexOptions()
    with store.snapshot() as view:
        fingerprint = view.fingerprint
        chunks = sum(row.chunks for row in view.documents())
        if not chunks or fingerprint is None:
            raise StoreError(
                f"the library at {store.path} holds no documents; read one first with "
                "`drt ingest PATH`"
            )
        lists = min(options.lists or default_lists(chunks), chunks)
        centroids = trained_centroids(view.scan_landmarks, chunks, lists, progress)
        last_chunk, gaps = view.index.gaps()
        assigned = assigned_lists(view.scan_landmarks, chunks, centroids, progress)
        plan = IndexPlan(centroids, assigned, last_chunk, gaps, fingerprint)
        probes = min(options.probes or default_probes(lists), lists)
        if progress is not None:
            progress("writing", 0, chunks)
        store.make_index(view, plan, probes=probes)
    store.clear_leftovers()  # an older index, which the snapshot may have needed
    info = store.index.info()
    if info is None:
        raise StoreError(
            f"the new index of the library at {store.path} was removed at once, as where a document"
            " is forgotten or read again from its text meanwhile: make it again"
        )
    return info


def trained_centroids(
    parts: Parts, chunks: int, lists: int, progress: Progress | None = None
) -> Tensor:
    """Return centroids [L, E] of landmarks drawn at random, the same each time."""
    generator = torch.Generator().manual_seed(1)
    count = min(chunks, lists * POINTS_PER_LIST)
    drawn = torch.randperm(chunks, generator=generator)[:count].sort().values
    rows: list[Tensor] = []
    at = 0
    for ids, landmarks in parts():
        inside = drawn[(drawn >= at) & (drawn < at + len(ids))] - at
        rows.append(landmarks[inside])
        at += len(ids)
    if progress is not None:
        progress("training", 0, lists)
    return train_centroids(torch.cat(rows), lists)


def assigned_lists(
    parts: Parts, chunks: int, centroids: Tensor, progress: Progress | None = None
) -> Tensor:
    """Return the list of each landmark, [C] int32."""
    lists: list[Tensor] = []
    done = 0
    for _, landmarks in parts():
        for block in landmarks.split(_ASSIGNED):
            lists.append(assign_lists(centroids, block))
            done += len(block)
            if progress is not None:
                progress("sorting", done, chunks)
    return torch.cat(lists)


def required_index(view: LibraryView) -> IndexHeader:
    """Return the header of a library's index; StoreError where there is none, CorruptStore."""
    index = view.index.open()
    if index is None:
        raise StoreError(NO_INDEX)
    return index[1].header


def measure_recall(
    view: LibraryView, queries: Sequence[Tensor], *, count: int, probes: Sequence[int] = ()
) -> list[IndexRecall]:
    """Compare the ``count`` best landmarks by the index with those by an exact scan.

    ``queries`` are vectors [E]; ``probes`` by default doubles up to all lists. Times are medians,
    in milliseconds of the processor.
    """
    header = required_index(view)
    if not queries:
        raise StoreError(
            "the library has no sentence to measure the index with: read a text with sentences of"
            " 5 to 39 words"
        )
    lists = header.lists
    for _ in range(2 + -(-header.chunks // CODED_ROWS)):
        for _ in view.scan_coded_landmarks():  # each scan makes codes for some more
            pass
    exact, exact_times = [], []
    for query in queries:
        start_time = time.process_time()
        exact.append(best_chunks(view.scan_coded_landmarks(), query, count))
        exact_times.append(1000 * (time.process_time() - start_time))
    rows = []
    for number in probes or [2**n for n in range(lists.bit_length())]:
        number = min(number, lists)
        times, shares = [], []
        for query, best in zip(queries, exact, strict=True):
            for counts in (False, True):  # the first time, checksums are verified
                start_time = time.process_time()
                approximate = best_chunks(view.index.probe(query, number).parts, query, count)
                if counts:
                    times.append(1000 * (time.process_time() - start_time))
            shares.append(len(best & approximate) / max(len(best), 1))
        medians = (statistics.median(times), statistics.median(exact_times))
        rows.append(IndexRecall(number, lists, count, statistics.fmean(shares), *medians))
    return rows


def best_chunks(
    parts: Iterable[tuple[Sequence[int], Landmarks]], query: Tensor, count: int
) -> set[int]:
    """Return the ids of the chunks with the best landmarks among parts."""
    listed = list(parts)
    top = landmark_topk(query[None], (landmarks for _, landmarks in listed), count)
    starts = [0]
    for ids, _ in listed:
        starts.append(starts[-1] + len(ids))
    real = top.scores[0] > float("-inf")
    numbers = top.index[0][real]
    places = torch.searchsorted(torch.tensor(starts), numbers, right=True) - 1
    return {
        listed[part][0][number - starts[part]]
        for part, number in zip(places.tolist(), numbers.tolist(), strict=True)
    }
