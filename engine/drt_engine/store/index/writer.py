"""Writes an inverted file: landmarks sorted by list, in passes of bounded memory.

Is given the lists; how they were chosen is the caller's.
"""

from __future__ import annotations

import array
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from drt_engine.store.filesystem.disk import TEMPORARY_SUFFIX, Disk, DurableFile
from drt_engine.store.index.format import HEADER_SIZE, IndexHeader

PASS_BYTES = 512 << 20  # of landmarks that are sorted in memory at a time
Parts = Callable[[], Iterator[tuple[Sequence[int], Tensor]]]


@dataclass(frozen=True)
class IndexPlan:
    """How landmarks are grouped: ``centroids`` [L, E] fp32, and the list of each, [C] int32.

    The order is that in which a scan of the library yields them. ``gaps`` are ranges of chunk ids
    up to ``last_chunk`` that the scan has not.
    """

    centroids: Tensor
    lists: Tensor
    last_chunk: int
    gaps: Sequence[range]
    fingerprint: str

    def header(self) -> IndexHeader:
        """Return the header of the file."""
        lists, width = self.centroids.shape
        sizes = (width, lists, len(self.lists), self.last_chunk, len(self.gaps))
        return IndexHeader(*sizes, self.fingerprint)


def write_inverted_file(disk: Disk, path: Path, parts: Parts, plan: IndexPlan) -> int:
    """Write a new file under ``path``; return the CRC32 of its header and tables.

    ``parts`` yields the chunk ids and landmarks [n, E] fp16 anew at each call, in one order.
    """
    header = plan.header()
    counts = torch.bincount(plan.lists, minlength=header.lists)
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    order = plan.lists.argsort(stable=True)
    rank = torch.empty_like(order)  # the row that each landmark gets
    rank[order] = torch.arange(len(order))
    ids = torch.empty(header.chunks, dtype=torch.int64)
    ids[rank] = torch.cat([_ids(part_ids) for part_ids, _ in parts()])
    crcs = [zlib.crc32(_bytes(part)) for part in ids.split(counts.tolist())]
    with DurableFile(disk, path, path.with_suffix(TEMPORARY_SUFFIX)) as file:
        file.write(header.pack())
        file.write(_bytes(ids))
        file.write(bytes(header.landmarks_at - HEADER_SIZE - 8 * header.chunks))
        for lists in _passes(starts, PASS_BYTES // (2 * header.width)):
            first, stop = int(starts[lists.start]), int(starts[lists.stop])
            rows = _sorted_rows(parts, rank, range(first, stop), header.width)
            file.write(_bytes(rows))
            for number, part in zip(
                lists, rows.split(counts[lists.start : lists.stop].tolist()), strict=True
            ):
                crcs[number] = zlib.crc32(_bytes(part), crcs[number])
        gaps = torch.tensor([[gap.start, gap.stop] for gap in plan.gaps], dtype=torch.int64)
        tables = b"".join(
            (
                _bytes(starts),
                _bytes(gaps),
                array.array("I", crcs).tobytes(),
                _bytes(plan.centroids.float()),
            )
        )
        file.write(bytes(header.tables_at - file.size))
        file.write(tables)
    return zlib.crc32(tables, zlib.crc32(header.pack()))


def _passes(starts: Tensor, most_rows: int) -> Iterator[range]:
    """Yield ranges of lists whose landmarks fit into memory together, one list at least."""
    first, count = 0, len(starts) - 1
    while first < count:
        stop = int(torch.searchsorted(starts, starts[first] + most_rows, right=True)) - 1
        stop = min(max(stop, first + 1), count)
        yield range(first, stop)
        first = stop


def _sorted_rows(parts: Parts, rank: Tensor, rows: range, width: int) -> Tensor:
    """Return the landmarks of some consecutive rows of the file."""
    out = torch.empty(len(rows), width, dtype=torch.float16)
    at = 0
    for ids, landmarks in parts():
        places = rank[at : at + len(ids)] - rows.start
        inside = (places >= 0) & (places < len(rows))
        out[places[inside]] = landmarks[inside]
        at += len(ids)
    return out


def _ids(ids: Sequence[int]) -> Tensor:
    if isinstance(ids, range):
        return torch.arange(ids.start, ids.stop)
    return torch.tensor(ids, dtype=torch.int64)


def _bytes(values: Tensor) -> memoryview:
    if not values.numel():
        return memoryview(b"")
    return memoryview(values.contiguous().view(-1).numpy().data).cast("B")
