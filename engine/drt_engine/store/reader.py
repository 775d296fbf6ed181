"""Maps chunk memory and landmarks from segment files and shelves into tensors.

Knows nothing of models, text or SQL: it is given rows and returns numbers.
"""

from __future__ import annotations

import mmap
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor

from drt_engine.errors import CorruptStore
from drt_engine.store.files import Folder
from drt_engine.store.format import Section
from drt_engine.store.records import (
    MappedRecords,
    landmark_bytes,
    open_records,
    verify_landmarks,
)
from drt_engine.store.shelves import MappedShelf, map_shelf
from drt_engine.store.types import ChunkBatch, RecordLayout, SegmentRow, ShelfRow, TokenBatch

# a mapping holds a file descriptor
MAX_MAPPED = 256
MAX_COPIED_BYTES = 64 << 20
# below this a segment's landmarks are copied and joined with others', for small documents
SMALL_CHUNKS = 128
SCAN_ROWS = 1_024

DTYPES = {
    "i32": torch.int32,
    "f16": torch.float16,
    "i8": torch.int8,
    "bf16": torch.bfloat16,
}


def section_tensor(data: mmap.mmap | bytearray, section: Section, chunks: int) -> Tensor:
    """A view [C, ...] of one section of a segment's bytes."""
    dtype = DTYPES[section.kind]
    count = chunks * section.stride // dtype.itemsize
    flat = torch.frombuffer(data, dtype=dtype, count=count, offset=section.offset)
    return flat.view(chunks, *section.shape)


def tensor(records: MappedRecords, name: str) -> Tensor:
    """Section `name` of a segment as a mapped view [C, ...]."""
    return section_tensor(records.data, records.header.sections[name], records.header.chunks)


class SegmentReader:
    """Opens segments on demand and keeps a bounded number of them open."""

    def __init__(self, folder: Folder, layout: RecordLayout) -> None:
        self._folder = folder
        self._layout = layout
        self._mapped: OrderedDict[str, MappedRecords] = OrderedDict()
        self._verified: set[str] = set()  # segments whose landmarks were
        self._shelves: dict[str, MappedShelf] = {}
        self._copied: OrderedDict[str, Tensor] = OrderedDict()
        self._copied_bytes = 0
        self._guard = threading.RLock()

    def scan_shelf(self, row: ShelfRow) -> Iterator[tuple[list[int], Tensor]]:
        """Chunk ids with their landmarks [n, E] fp16 of a shelf without removed chunks."""
        shelf = self._shelf(row)
        landmarks = self._shelf_landmarks(shelf)
        for at in range(0, len(landmarks), SCAN_ROWS):
            part = slice(at, at + SCAN_ROWS)
            yield list(shelf.ids[part]), landmarks[part]

    def scan(
        self,
        rows: Iterable[SegmentRow],
        is_gone: Callable[[SegmentRow], bool],
        *,
        shelves: dict[int, ShelfRow],
    ) -> Iterator[tuple[list[int], Tensor]]:
        """Chunk ids with their landmarks [n, E] fp16: mapped views, small segments joined.

        A segment whose file has gone is left out if `is_gone` says that its rows have too.
        """
        ids: list[int] = []
        pending: list[Tensor] = []
        for row in rows:
            landmarks = self._landmarks(row, is_gone, shelves)
            if landmarks is None:
                continue
            chunk_ids = list(range(row.first_chunk, row.first_chunk + row.chunks))
            small = row.chunks < SMALL_CHUNKS
            if pending and (not small or len(ids) + row.chunks > SCAN_ROWS):
                yield ids, torch.cat(pending)
                ids, pending = [], []
            if small:
                ids += chunk_ids
                pending.append(landmarks)
            else:
                yield chunk_ids, landmarks
        if pending:
            yield ids, torch.cat(pending)

    def read(self, places: Sequence[tuple[SegmentRow, int]]) -> ChunkBatch:
        """Verified, dequantised chunks, given as (segment, index in it), in that order."""
        layout, count = self._layout, len(places)
        tokens = (count, layout.chunk_tokens)
        memory = (*tokens, layout.kv_heads, layout.head_size)
        batch = ChunkBatch(
            ids=torch.empty(tokens, dtype=torch.int32),
            starts=torch.empty(tokens, dtype=torch.int32),
            ends=torch.empty(tokens, dtype=torch.int32),
            lengths=torch.empty(count, dtype=torch.int32),
            keys=torch.empty(memory, dtype=torch.float32),
            values=torch.empty(memory, dtype=torch.float32),
            landmarks=torch.empty((count, layout.landmark_size), dtype=torch.float32),
        )
        for row, slots in _by_segment(places):
            _read_into(batch, self._open(row), slots)
        return batch

    def tokens(self, places: Sequence[tuple[SegmentRow, int]]) -> TokenBatch:
        """Verified tokens of chunks, given as (segment, index in it), in that order."""
        count, size = len(places), self._layout.chunk_tokens
        ids, starts, ends = (torch.empty((count, size), dtype=torch.int32) for _ in range(3))
        batch = TokenBatch(ids, starts, ends, torch.empty(count, dtype=torch.int32))
        for row, slots in _by_segment(places):
            _read_tokens(batch, self._open(row), slots)
        return batch

    def _landmarks(
        self,
        row: SegmentRow,
        is_gone: Callable[[SegmentRow], bool],
        shelves: dict[int, ShelfRow],
    ) -> Tensor | None:
        try:
            shelf = shelves.get(row.shelf) if row.shelf is not None else None
            if shelf is not None and row.shelf_row is not None:
                at = row.shelf_row
                return self._shelf_landmarks(self._shelf(shelf))[at : at + row.chunks]
            if row.chunks >= SMALL_CHUNKS:
                return self._mapped_landmarks(row)
            return self._copied_landmarks(row)
        except CorruptStore:
            if is_gone(row):
                return None
            raise

    def _shelf(self, row: ShelfRow) -> MappedShelf:
        with self._guard:
            shelf = self._shelves.get(row.name)
            if shelf is None:
                shelf = map_shelf(self._folder, row, self._layout)
                self._shelves[row.name] = shelf
            return shelf

    def keep_shelves(self, rows: Iterable[ShelfRow]) -> None:
        """Let go of shelves that are not among `rows`."""
        with self._guard:
            names = {row.name for row in rows}
            self._shelves = {n: shelf for n, shelf in self._shelves.items() if n in names}

    def _shelf_landmarks(self, shelf: MappedShelf) -> Tensor:
        width = self._layout.landmark_size
        count = len(shelf.ids) * width
        flat = torch.frombuffer(shelf.data, dtype=torch.float16, count=count, offset=shelf.offset)
        return flat.view(-1, width)

    def _mapped_landmarks(self, row: SegmentRow) -> Tensor:
        records = self._open(row)
        if row.name not in self._verified:
            section = records.header.sections["landmarks"]
            with memoryview(records.data) as view:
                end = section.offset + section.stride * row.chunks
                verify_landmarks(view[section.offset : end], row)
            self._verified.add(row.name)
        return tensor(records, "landmarks")

    def _open(self, row: SegmentRow) -> MappedRecords:
        with self._guard:
            records = self._mapped.get(row.name)
            if records is None:
                records = open_records(self._folder, row, self._layout)
                self._mapped[row.name] = records
            self._mapped.move_to_end(row.name)
            while len(self._mapped) > MAX_MAPPED:
                self._mapped.popitem(last=False)
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


def _by_segment(
    places: Sequence[tuple[SegmentRow, int]],
) -> Iterator[tuple[SegmentRow, list[tuple[int, int]]]]:
    """Per segment: its (place in the batch, index in the segment) pairs."""
    groups: dict[SegmentRow, list[tuple[int, int]]] = {}
    for slot, (row, index) in enumerate(places):
        groups.setdefault(row, []).append((slot, index))
    yield from groups.items()


def _read_tokens(
    batch: ChunkBatch | TokenBatch, segment: MappedRecords, slots: list[tuple[int, int]]
) -> tuple[Tensor, Tensor]:
    """Copy verified tokens; returns places in the batch and indices in the segment."""
    for _, index in slots:
        segment.verify(index)
    to = torch.tensor([slot for slot, _ in slots])
    at = torch.tensor([index for _, index in slots])
    for name in ("ids", "starts", "ends", "lengths"):
        target: Tensor = getattr(batch, name)
        target[to] = tensor(segment, name)[at]
    return to, at


def _read_into(batch: ChunkBatch, segment: MappedRecords, slots: list[tuple[int, int]]) -> None:
    to, at = _read_tokens(batch, segment, slots)
    batch.landmarks[to] = tensor(segment, "landmarks")[at].float()
    batch.keys[to] = _memory(segment, "keys", "key_scales", at)
    batch.values[to] = _memory(segment, "values", "value_scales", at)


def _memory(segment: MappedRecords, name: str, scales: str, at: Tensor) -> Tensor:
    numbers = tensor(segment, name)[at].float()  # [n, S, Hk, D]
    if segment.header.layout.encoding == "int8":
        numbers *= tensor(segment, scales)[at].float().unsqueeze(-1)
    return numbers
