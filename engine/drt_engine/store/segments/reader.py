"""Reads chunk memory and landmarks from segment files and landmark files into tensors.

Knows nothing of models, text or SQL: it is given rows and returns numbers.
"""

from __future__ import annotations

import bisect
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
_MAX_SLICES = 64  # of a part of a landmark file; a slice costs as much as some hundred landmarks

Run = tuple[int, int]  # rows of a landmark file, from the first to before the last

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
            except OSError:  # the folder is gone
                self.close()
                return
            if changed == self._swept:
                return
            self._swept = changed if time.time_ns() - changed > _CLOCK_STEP else None
            # each is asked for by itself: the folder may have a file for each of many documents
            for name in [name for name in self._files if self._is_deleted(name)]:
                del self._files[name]
            for name in [name for name in self._copied if self._is_deleted(name)]:
                self._copied_bytes -= self._copied.pop(name).nbytes
            self._landmark_files = {
                name: file
                for name, file in self._landmark_files.items()
                if not self._is_deleted(name)
            }
            if self._index is not None and self._is_deleted(self._index[0].name):
                self._index = None

    def _is_deleted(self, name: str) -> bool:
        try:
            os.stat(self._folder.segments / name, follow_symlinks=False)
        except OSError:  # of any kind: it can be opened again
            return True
        return False

    def close(self) -> None:
        """Close all files; tensors that were handed out stay valid."""
        with self._guard:
            self._files.clear()
            self._landmark_files.clear()
            self._copied.clear()
            self._copied_bytes = 0
            self._index = None

    def scan_landmark_file(
        self,
        row: LandmarkFileRow,
        find_runs: Callable[[LandmarkFileRow], Sequence[Run]],
        *,
        code: bool = False,
    ) -> Iterator[tuple[Sequence[int], Landmarks]]:
        """Yield chunk ids with their landmarks [n, E] fp16 of a file, without removed chunks.

        ``find_runs`` is asked for what is left where chunks were removed since the last scan.
        ``code`` says that it will be scanned again.
        """
        landmark_file = self._landmark_file(row)
        if code:
            with self._guard:
                landmark_file.coder.advance()
        whole = zip(landmark_file.ids, tuple(landmark_file.coder.parts), strict=True)
        left = None if row.live == row.chunks else landmark_file.left(row, find_runs)
        for ids, part in whole if left is None else left:
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

    def keep_copies(self, rows: Iterable[SegmentRow]) -> None:
        """Forget copied landmarks of segments that are not among ``rows``, all that need copies."""
        with self._guard:
            names = {row.name for row in rows}
            for name in self._copied.keys() - names:
                self._copied_bytes -= self._copied.pop(name).nbytes

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
        self._left: tuple[int, list[_PartLeft]] | None = None  # how many were left, and which

    def left(
        self, row: LandmarkFileRow, find_runs: Callable[[LandmarkFileRow], Sequence[Run]]
    ) -> Iterator[tuple[Sequence[int], Landmarks]]:
        """Yield what is left of the file: its parts, or slices or copies of them.

        What is left becomes only less, so that its number says which it is.
        """
        left = self._left
        if left is None or left[0] != row.live:
            runs = find_runs(row)
            starts = range(0, row.chunks, SCAN_ROWS)
            parts = zip(starts, self.ids, self.coder.parts, strict=True)
            parts_left = [
                _PartLeft(ids, part.rows, _runs_between(runs, start, start + len(part)))
                for start, ids, part in parts
            ]
            # another number where a document was removed between two looks into the catalogue
            left = self._left = (sum(stop - first for first, stop in runs), parts_left)
        for part_left, part in zip(left[1], tuple(self.coder.parts), strict=True):
            yield from part_left.of(part)


class _PartLeft:
    """What is left of a part of a landmark file after documents were removed.

    Slices of it; where these would be many, a copy, since each takes longer than its landmarks.
    """

    def __init__(self, ids: Sequence[int], rows: Tensor, runs: Sequence[Run]) -> None:
        self._runs = runs
        self._copy: tuple[Sequence[int], Landmarks] | None = None
        if len(runs) > _MAX_SLICES:
            numbers = torch.cat([torch.arange(first, stop) for first, stop in runs])
            self._copy = _numbers(torch.tensor(ids)[numbers]), Landmarks(rows[numbers])
        self._ids = [ids[first:stop] for first, stop in runs] if self._copy is None else []

    def of(self, part: Landmarks) -> Iterator[tuple[Sequence[int], Landmarks]]:
        """Yield chunk ids and landmarks, with the codes that the part has by now."""
        if self._copy is not None:
            yield self._copy
            return
        for ids, (first, stop) in zip(self._ids, self._runs, strict=True):
            yield ids, part[first:stop]


def _runs_between(runs: Sequence[Run], start: int, stop: int) -> list[Run]:
    """Return the parts of spans in order that lie between two rows, counted from the first row."""
    begin = bisect.bisect_right(runs, start, key=lambda run: run[1])
    end = bisect.bisect_left(runs, stop, key=lambda run: run[0])
    return [(max(a, start) - start, min(b, stop) - start) for a, b in runs[begin:end]]


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
