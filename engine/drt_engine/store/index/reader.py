"""Reads an inverted file: the lists nearest to a query, each verified when it is first used.

Opening reads the tables alone, so it takes as long for a large library as for a small one.
"""

from __future__ import annotations

import array
import mmap
import os
import threading
import zlib
from collections.abc import Iterator

import torch
from torch import Tensor

from drt_engine.store.filesystem.library_folder import Folder
from drt_engine.store.index.format import (
    HEADER_SIZE,
    IndexHeader,
    IndexRow,
    damaged,
    parse_header,
)
from drt_kernels.scan import Landmarks

_PART = 4 << 20  # bytes read at a time


class InvertedFile:
    """An open inverted file: ``centroids`` [L, E] fp32, and the landmarks of each list."""

    def __init__(
        self, name: str, header: IndexHeader, data: mmap.mmap, tables: bytes, *, folder: Folder
    ) -> None:
        self.name, self.header = name, header
        self._data, self._folder = data, folder
        self._starts, self.gaps, self._checksums, self.centroids = _tables(header, tables, name)
        self._verified = [False] * header.lists
        self._guard = threading.Lock()

    def nearest(self, query: Tensor, probes: int) -> list[int]:
        """Return the lists whose centroids have the highest dot products with a query [E]."""
        scores = self.centroids @ query.float()
        return scores.topk(min(probes, self.header.lists)).indices.tolist()

    def parts(self, lists: list[int]) -> Iterator[tuple[array.array[int], Landmarks]]:
        """Yield chunk ids and landmarks [n, E] fp16 of lists, mapped views; CorruptStore."""
        width = self.header.width
        for number in lists:
            first, stop = self._starts[number], self._starts[number + 1]
            if first == stop:
                continue
            self._verify(number)
            if self._data.size() != len(self._data):
                raise damaged(self.name, "it was cut short or grew while it was open")
            at = HEADER_SIZE + 8 * first
            ids = array.array("q", self._data[at : at + 8 * (stop - first)])
            offset = self.header.landmarks_at + 2 * width * first
            count = (stop - first) * width
            flat = torch.frombuffer(self._data, dtype=torch.float16, count=count, offset=offset)
            yield ids, Landmarks(flat.view(stop - first, width))

    def check(self) -> None:
        """Verify all lists; CorruptStore."""
        for number in range(self.header.lists):
            self._verify(number)

    def _verify(self, number: int) -> None:
        """Compare a list's checksum the first time, by reading: a mapping could end the process."""
        if self._verified[number]:
            return
        first, stop = self._starts[number], self._starts[number + 1]
        width = 2 * self.header.width
        crc = 0
        path = self._folder.segments / self.name
        disk = self._folder.disk
        with self._guard, disk.reading(path) as descriptor:
            for at, size in (
                (HEADER_SIZE + 8 * first, 8 * (stop - first)),
                (self.header.landmarks_at + width * first, width * (stop - first)),
            ):
                for offset in range(at, at + size, _PART):
                    length = min(_PART, at + size - offset)
                    data = disk.read(descriptor, path, size=length, offset=offset)
                    crc = zlib.crc32(data, crc)
        if crc != self._checksums[number]:
            raise damaged(self.name, f"list {number} is not what was written")
        self._verified[number] = True


def open_inverted_file(
    folder: Folder, row: IndexRow, *, width: int, fingerprint: str
) -> InvertedFile:
    """Open an inverted file and verify its header and tables; CorruptStore."""
    path = folder.segments / row.name
    try:
        with folder.disk.reading(path) as descriptor:
            size = os.fstat(descriptor).st_size
            front = folder.disk.read(descriptor, path, size=HEADER_SIZE, offset=0)
            header = parse_header(
                front, name=row.name, file_size=size, width=width, fingerprint=fingerprint
            )
            at, length = header.tables_at, header.tables_size
            tables = folder.disk.read(descriptor, path, size=length, offset=at)
            if zlib.crc32(tables, zlib.crc32(front)) != row.crc:
                raise damaged(row.name, "its tables are not what was written")
            data = folder.disk.map(descriptor, path, size)
    except FileNotFoundError as error:
        raise damaged(row.name, "its file is missing") from error
    except OSError as error:
        raise damaged(row.name, f"it cannot be read ({error.strerror})") from error
    return InvertedFile(row.name, header, data, tables, folder=folder)


def _tables(
    header: IndexHeader, data: bytes, name: str
) -> tuple[list[int], list[range], list[int], Tensor]:
    """Return starts [L + 1], gaps, checksums [L] and centroids [L, E]; CorruptStore."""
    lists = header.lists
    starts = array.array("q", data[: 8 * (lists + 1)]).tolist()
    at = 8 * (lists + 1)
    bounds = array.array("q", data[at : at + 16 * header.gaps]).tolist()
    at += 16 * header.gaps
    crcs = array.array("I", data[at : at + 4 * lists]).tolist()
    at += 4 * lists
    flat = torch.frombuffer(bytearray(data[at:]), dtype=torch.float32)
    if starts[0] != 0 or starts[-1] != header.chunks or starts != sorted(starts):
        raise damaged(name, "its lists do not cover its chunks")
    if not bool(flat.isfinite().all()):
        raise damaged(name, "its centroids are not numbers")
    gaps = [range(*pair) for pair in zip(bounds[::2], bounds[1::2], strict=True)]
    return starts, gaps, crcs, flat.view(lists, header.width)
