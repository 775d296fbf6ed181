"""Reads chunk memory and landmarks from segment files and landmark files into tensors.

Knows nothing of models, text or SQL: it is given rows and returns numbers.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from drt_engine.errors import CorruptStore, TooManyOpenFiles
from drt_engine.store.filesystem.library_folder import Folder
from drt_engine.store.index.format import IndexRow
from drt_engine.store.index.reader import InvertedFile, open_inverted_file
from drt_engine.store.segments import open_files
from drt_engine.store.segments.format import Section, plan
from drt_engine.store.segments.landmark_files import MappedLandmarkFile, map_landmark_file
from drt_engine.store.segments.records import OpenRecords, landmark_bytes, open_records
from drt_engine.store.types import ChunkBatch, LandmarkFileRow, RecordLayout, SegmentRow, TokenBatch
from drt_kernels.scan import LandmarkCoder, Landmarks

MAX_COPIED_BYTES = 64 << 20
# below this a segment's landmarks are copied and joined with others', for small documents
SMALL_CHUNKS = 128
SCAN_ROWS = 131_072  # what a part costs beside its landmarks no longer counts
# after a change a folder's time of change may stay the same for as long, even if more follow
_CLOCK_STEP = 2_000_000_000  # ns
_JOINED_ROWS = 1_024  # landmarks of small segments that are copied together

_TOKENS = ("ids", "starts", "ends", "lengths")
_MEMORY = (*_TOKENS, "landmarks", "key_scales", "value_scales", "keys", "values")
DTYPES = {
    "i32": torch.int32,
    "f16": torch.float16,
    "i8": torch.int8,
    "bf16": torch.bfloat16,
}


def section_tensor(data: bytearray, section: Section, chunks: int) -> Tensor:
    """Return a view [C, ...] of one section of a segment's bytes."""
    dtype = DTYPES[section.kind]
    count = chunks * section.stride // dtype.itemsize
    if not count:
        return torch.empty((chunks, *section.shape), dtype=dtype)
    flat = torch.frombuffer(data, dtype=dtype, count=count, offset=section.offset)
    return flat.view(chunks, *section.shape)


class SegmentReader:
    """Opens segments on demand and keeps a bounded number of them open."""

    def __init__(self, folder: Folder, layout: RecordLayout) -> None:
        self._folder = folder
        self._layout = layout
        self._files: OrderedDict[str, OpenRecords] = OrderedDict()
        self._landmark_files: dict[str, _LandmarkFile] = {}
        self._copied: OrderedDict[str, Tensor] = OrderedDict()
        self._copied_bytes = 0
        self._index: tuple[IndexRow, InvertedFile] | None = None
        self._guard = threading.RLock()
        self._swept: int | None = None  # the segment folder's time of change when last swept
        open_files.register(self)

    @property
    def library(self) -> Path:
        """The folder of the library."""
        return self._folder.path

    def drop_deleted(self) -> None:
        """Close files that were deleted; their names are never used again.

        No snapshot needs them: files are deleted while there is none, after their rows.
        """
        with self._guard:
            try:
                changed = os.stat(self._folder.segments).st_mtime_ns
                if changed == self._swept:
                    return
                names = set(os.listdir(self._folder.segments))
            except OSError:  # no descriptor is left, or the folder is gone
                self.close()
                return
            self._swept = changed if time.time_ns() - changed > _CLOCK_STEP else None
            for name in [name for name in self._files if name not in names]:
                del self._files[name]
            for name in [name for name in self._copied if name not in names]:
                self._copied_bytes -= self._copied.pop(name).nbytes
            self._landmark_files = {n: f for n, f in self._landmark_files.items() if n in names}
            if self._index is not None and self._index[0].name not in names:
                self._index = None

    def close(self) -> None:
        """Close all files; tensors that were handed out stay valid."""
        with self._guard:
            self._files.clear()
            self._landmark_files.clear()
            self._copied.clear()
            self._copied_bytes = 0
            self._index = None

    def scan_landmark_file(
        self, row: LandmarkFileRow, *, code: bool = False
    ) -> Iterator[tuple[Sequence[int], Landmarks]]:
        """Yield chunk ids with their landmarks [n, E] fp16 of a file without removed chunks.

        ``code`` says that it will be scanned again.
        """
        landmark_file = self._landmark_file(row)
        if code:
            with self._guard:
                landmark_file.coder.advance()
        for ids, part in zip(landmark_file.ids, tuple(landmark_file.coder.parts), strict=True):
            landmark_file.mapped.expect_whole()
            yield ids, part

    def scan(
        self,
        rows: Iterable[SegmentRow],
        is_gone: Callable[[SegmentRow], bool],
        *,
        landmark_files: dict[int, LandmarkFileRow],
    ) -> Iterator[tuple[Sequence[int], Landmarks]]:
        """Yield chunk ids with their landmarks [n, E] fp16: mapped views, small segments joined.

        A segment whose file has gone is left out if ``is_gone`` says that its rows have too.
        """
        ids: list[int] = []
        pending: list[Tensor] = []
        for row in _side_by_side(rows, landmark_files):
            landmarks = self._landmarks(row, is_gone, landmark_files)
            if landmarks is None:
                continue
            chunk_ids = range(row.first_chunk, row.first_chunk + row.chunks)
            small = row.chunks < SMALL_CHUNKS
            if pending and (not small or len(ids) + row.chunks > _JOINED_ROWS):
                yield _numbers(torch.tensor(ids)), Landmarks(torch.cat(pending))
                ids, pending = [], []
            if small:
                ids += chunk_ids
                pending.append(landmarks)
            else:
                yield chunk_ids, Landmarks(landmarks)
        if pending:
            yield _numbers(torch.tensor(ids)), Landmarks(torch.cat(pending))

    def read(self, places: Sequence[tuple[SegmentRow, int]]) -> ChunkBatch:
        """Return verified, dequantised chunks, given as (segment, index in it), in that order."""
        rows = self._gather(places, _MEMORY)
        return ChunkBatch(
            **{name: rows[name] for name in _TOKENS},
            keys=_numbers_of(rows, "keys", "key_scales"),
            values=_numbers_of(rows, "values", "value_scales"),
            landmarks=rows["landmarks"].float(),
        )

    def tokens(self, places: Sequence[tuple[SegmentRow, int]]) -> TokenBatch:
        """Return verified tokens of chunks, given as (segment, index in it), in that order."""
        return TokenBatch(**self._gather(places, _TOKENS))

    def landmarks(self, places: Sequence[tuple[SegmentRow, int]]) -> Tensor:
        """Return verified landmarks [n, E] fp16 of chunks, given as (segment, index in it)."""
        return self._gather(places, ("landmarks",))["landmarks"]

    def index(self, row: IndexRow, fingerprint: str | None) -> InvertedFile:
        """Return the approximate index, which stays open until there is another."""
        with self._guard:
            if self._index is None or self._index[0].name != row.name:
                width = self._layout.landmark_size
                file = open_inverted_file(
                    self._folder, row, width=width, fingerprint=fingerprint or ""
                )
                self._index = (row, file)
            return self._index[1]

    def _gather(
        self, places: Sequence[tuple[SegmentRow, int]], names: Sequence[str]
    ) -> dict[str, Tensor]:
        """Return the sections [n, ...] of verified chunks, those of them that the layout has."""
        sections, size = plan(self._layout, len(places))
        buffer = bytearray(size)  # a segment of just these chunks
        with memoryview(buffer) as out:
            for row, runs in _by_segment(places):
                records = self._open(row)
                for slot, chunks in runs:
                    records.copy_verified(chunks, out, sections, slot=slot)
        rows = {
            name: section_tensor(buffer, section, len(places))
            for name, section in sections.items()
            if name in names
        }
        if "keys" in rows:
            return rows
        # tokens are a hundredth of the buffer, which would live as long as views of it
        return {name: numbers.clone() for name, numbers in rows.items()}

    def _landmarks(
        self,
        row: SegmentRow,
        is_gone: Callable[[SegmentRow], bool],
        landmark_files: dict[int, LandmarkFileRow],
    ) -> Tensor | None:
        try:
            landmark_file = (
                landmark_files.get(row.landmark_file) if row.landmark_file is not None else None
            )
            if landmark_file is not None and row.landmark_file_row is not None:
                at = row.landmark_file_row
                return self._landmark_file(landmark_file).landmarks[at : at + row.chunks]
            return self._copied_landmarks(row)
        except CorruptStore:
            if is_gone(row):
                return None
            raise

    def _landmark_file(self, row: LandmarkFileRow) -> _LandmarkFile:
        with self._guard:
            landmark_file = self._landmark_files.get(row.name)
            if landmark_file is None:
                mapped = map_landmark_file(self._folder, row, self._layout)
                landmark_file = _LandmarkFile(mapped, self._layout.landmark_size)
                self._landmark_files[row.name] = landmark_file
            landmark_file.mapped.expect_whole()
            return landmark_file

    def keep_landmark_files(self, rows: Iterable[LandmarkFileRow]) -> None:
        """Close landmark files that are not among ``rows``."""
        with self._guard:
            names = {row.name for row in rows}
            self._landmark_files = {
                n: landmark_file for n, landmark_file in self._landmark_files.items() if n in names
            }

    def _open(self, row: SegmentRow) -> OpenRecords:
        with self._guard:
            records = self._files.get(row.name)
            if records is not None:
                self._files.move_to_end(row.name)
                return records
        try:
            records = open_records(self._folder, row, self._layout)
        except TooManyOpenFiles:
            open_files.close_files()  # not under the guard: those of other readers, too
            records = open_records(self._folder, row, self._layout)
        with self._guard:
            self._files[row.name] = records
            while len(self._files) > open_files.max_open_files():
                self._files.popitem(last=False)
            return records

    def _copied_landmarks(self, row: SegmentRow) -> Tensor:
        with self._guard:
            landmarks = self._copied.get(row.name)
            if landmarks is None:
                data = landmark_bytes(self._folder, row, self._layout)
                landmarks = torch.frombuffer(data, dtype=torch.float16).view(row.chunks, -1)
                self._copied[row.name] = landmarks
                self._copied_bytes += landmarks.nbytes
            self._copied.move_to_end(row.name)
            while self._copied_bytes > MAX_COPIED_BYTES:
                self._copied_bytes -= self._copied.popitem(last=False)[1].nbytes
            return landmarks


class _LandmarkFile:
    """A mapped landmark file: landmarks [C, E] and, per ``SCAN_ROWS`` of them, the chunk ids."""

    def __init__(self, mapped: MappedLandmarkFile, width: int) -> None:
        self.mapped = mapped
        count = mapped.row.chunks
        ids = torch.frombuffer(mapped.data, dtype=torch.int64, count=count, offset=mapped.ids_at)
        flat = torch.frombuffer(
            mapped.data, dtype=torch.float16, count=count * width, offset=mapped.offset
        )
        self.landmarks = flat.view(count, width)
        self.ids = tuple(map(_numbers, torch.split(ids, SCAN_ROWS)))
        self.coder = LandmarkCoder(torch.split(self.landmarks, SCAN_ROWS))


def _numbers(ids: Tensor) -> Sequence[int]:
    """Return ids [n], n > 0, as a range where they count up, which needs no memory."""
    first = int(ids[0])
    steady = bool((ids.diff() == 1).all())
    return range(first, first + len(ids)) if steady else ids.tolist()


def _side_by_side(
    rows: Iterable[SegmentRow], landmark_files: Mapping[int, LandmarkFileRow]
) -> Iterator[SegmentRow]:
    """Yield the rows, joining those of a document that are adjacent in a landmark file."""
    last: SegmentRow | None = None
    for row in rows:
        if last is not None and _follows(last, row) and row.landmark_file in landmark_files:
            last = last._replace(chunks=last.chunks + row.chunks)
            continue
        if last is not None:
            yield last
        last = row
    if last is not None:
        yield last


def _follows(last: SegmentRow, row: SegmentRow) -> bool:
    if row.landmark_file_row is None or last.landmark_file_row is None:
        return False
    return (
        row.document_id == last.document_id
        and row.landmark_file == last.landmark_file
        and row.landmark_file_row == last.landmark_file_row + last.chunks
        and row.first_chunk == last.first_chunk + last.chunks
        and last.chunks + row.chunks <= SCAN_ROWS
    )


def _by_segment(
    places: Sequence[tuple[SegmentRow, int]],
) -> Iterator[tuple[SegmentRow, list[tuple[int, range]]]]:
    """Yield each segment with (slot in the batch, chunks of the segment) pairs to read at once.

    Chunks that follow each other in both are, as when a document is gone through.
    """
    groups: dict[SegmentRow, list[tuple[int, range]]] = {}
    for slot, (row, index) in enumerate(places):
        runs = groups.setdefault(row, [])
        if runs and runs[-1][1].stop == index and runs[-1][0] + len(runs[-1][1]) == slot:
            runs[-1] = (runs[-1][0], range(runs[-1][1].start, index + 1))
        else:
            runs.append((slot, range(index, index + 1)))
    yield from groups.items()


def _numbers_of(rows: dict[str, Tensor], name: str, scales: str) -> Tensor:
    numbers = rows[name].float()  # [n, S, Hk, D]
    if scales in rows:
        numbers *= rows[scales].float().unsqueeze(-1)
    return numbers
