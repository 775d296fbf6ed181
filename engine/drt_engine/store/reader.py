"""Maps chunk memory and landmarks from segment files into tensors.

Knows nothing of models, text or SQL: it is given segment rows and returns numbers.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from drt_engine.errors import CorruptStore
from drt_engine.store.format import (
    Section,
    SegmentHeader,
    chunk_is_intact,
    expected_header,
    map_segment,
    read_header,
)
from drt_engine.store.types import ChunkBatch, RecordLayout, SegmentRow

# a mapping holds a file descriptor; 16 million tokens in full segments need 250
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


@dataclass(frozen=True)
class MappedSegment:
    """One validated, mapped segment file."""

    name: str
    header: SegmentHeader
    data: mmap.mmap

    def tensor(self, name: str) -> Tensor:
        """Section `name` as a mapped view [C, ...]."""
        return section_tensor(self.data, self.header.sections[name], self.header.chunks)

    def verify(self, index: int) -> None:
        """Raise CorruptStore unless chunk `index` has the bytes it was written with."""
        with memoryview(self.data) as data:
            if not chunk_is_intact(data, self.header.sections, index):
                raise CorruptStore(
                    f"chunk {self.header.first_ordinal + index} of document"
                    f" {self.header.document_id} is damaged in segment {self.name}: remove the"
                    " document and read it again"
                )


class SegmentReader:
    """Opens segments on demand and keeps a bounded number of them open."""

    def __init__(self, folder: Path, layout: RecordLayout) -> None:
        self._folder = folder
        self._layout = layout
        self._mapped: OrderedDict[str, MappedSegment] = OrderedDict()
        self._copied: OrderedDict[str, Tensor] = OrderedDict()
        self._copied_bytes = 0
        self._guard = threading.RLock()

    def scan(
        self, rows: Iterable[SegmentRow], is_gone: Callable[[SegmentRow], bool]
    ) -> Iterator[tuple[list[int], Tensor]]:
        """Chunk ids with their landmarks [n, E] fp16: mapped views, small segments joined.

        A segment whose file has gone is left out if `is_gone` says that its rows have too.
        """
        ids: list[int] = []
        pending: list[Tensor] = []
        for row in rows:
            landmarks = self._landmarks(row, is_gone)
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

    def _landmarks(self, row: SegmentRow, is_gone: Callable[[SegmentRow], bool]) -> Tensor | None:
        try:
            if row.chunks >= SMALL_CHUNKS:
                return self._open(row).tensor("landmarks")
            return self._copied_landmarks(row)
        except CorruptStore:
            if is_gone(row):
                return None
            raise

    def _open(self, row: SegmentRow) -> MappedSegment:
        with self._guard:
            segment = self._mapped.get(row.name)
            if segment is None:
                try:
                    segment = MappedSegment(row.name, *map_segment(self._folder / row.name))
                except FileNotFoundError as error:
                    raise missing(row) from error
                check_identity(segment.header, row, self._layout)
                self._mapped[row.name] = segment
            self._mapped.move_to_end(row.name)
            while len(self._mapped) > MAX_MAPPED:
                self._mapped.popitem(last=False)
            return segment

    def _copied_landmarks(self, row: SegmentRow) -> Tensor:
        with self._guard:
            landmarks = self._copied.get(row.name)
            if landmarks is None:
                landmarks = self._copy_landmarks(row)
                self._copied[row.name] = landmarks
                self._copied_bytes += landmarks.nbytes
            self._copied.move_to_end(row.name)
            while self._copied_bytes > MAX_COPIED_BYTES:
                self._copied_bytes -= self._copied.popitem(last=False)[1].nbytes
            return landmarks

    def _copy_landmarks(self, row: SegmentRow) -> Tensor:
        try:
            descriptor = os.open(self._folder / row.name, os.O_RDONLY)
        except FileNotFoundError as error:
            raise missing(row) from error
        try:
            header = read_header(descriptor, row.name)
            check_identity(header, row, self._layout)
            section = header.sections["landmarks"]
            data = bytearray(os.pread(descriptor, section.stride * row.chunks, section.offset))
        finally:
            os.close(descriptor)
        return torch.frombuffer(data, dtype=torch.float16).view(row.chunks, *section.shape)


def missing(row: SegmentRow) -> CorruptStore:
    """The error for a committed segment without a file."""
    return CorruptStore(
        f"segment {row.name} of document {row.document_id} is missing: remove the document and"
        " read it again"
    )


def check_identity(header: SegmentHeader, row: SegmentRow, layout: RecordLayout) -> None:
    """Raise CorruptStore unless a segment's header is what the catalogue says."""
    expected = expected_header(row, layout)
    if header != expected:
        raise CorruptStore(
            f"segment {row.name} holds {header} where the catalogue says {expected}: remove"
            f" document {row.document_id} and read it again"
        )


def _by_segment(
    places: Sequence[tuple[SegmentRow, int]],
) -> Iterator[tuple[SegmentRow, list[tuple[int, int]]]]:
    """Per segment: its (place in the batch, index in the segment) pairs."""
    groups: dict[SegmentRow, list[tuple[int, int]]] = {}
    for slot, (row, index) in enumerate(places):
        groups.setdefault(row, []).append((slot, index))
    yield from groups.items()


def _read_into(batch: ChunkBatch, segment: MappedSegment, slots: list[tuple[int, int]]) -> None:
    for _, index in slots:
        segment.verify(index)
    to = torch.tensor([slot for slot, _ in slots])
    at = torch.tensor([index for _, index in slots])
    for name in ("ids", "starts", "ends", "lengths", "landmarks"):
        target: Tensor = getattr(batch, name)
        target[to] = segment.tensor(name)[at].to(target.dtype)
    batch.keys[to] = _memory(segment, "keys", "key_scales", at)
    batch.values[to] = _memory(segment, "values", "value_scales", at)


def _memory(segment: MappedSegment, name: str, scales: str, at: Tensor) -> Tensor:
    numbers = segment.tensor(name)[at].float()  # [n, S, Hk, D]
    if segment.header.layout.encoding == "int8":
        numbers *= segment.tensor(scales)[at].float().unsqueeze(-1)
    return numbers
