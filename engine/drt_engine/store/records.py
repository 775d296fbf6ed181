"""Verified bytes of segment files: mapping one, copying chunks from some into another.

Knows nothing of tensors and changes no row.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from drt_engine.errors import CorruptStore, EngineError
from drt_engine.store.catalog import Catalog
from drt_engine.store.disk import Disk
from drt_engine.store.files import SEGMENT_SUFFIX, Folder, file_errors
from drt_engine.store.format import (
    HEADER_SIZE,
    SegmentHeader,
    chunk_is_intact,
    expected_header,
    pack_header,
    parse_header,
)
from drt_engine.store.types import RecordLayout, SegmentRow


@dataclass(frozen=True)
class MappedRecords:
    """One validated, mapped segment file."""

    name: str
    header: SegmentHeader
    data: mmap.mmap

    def verify(self, index: int) -> None:
        """Raise CorruptStore unless chunk `index` has the bytes it was written with."""
        with memoryview(self.data) as data:
            if not chunk_is_intact(data, self.header.sections, index):
                raise CorruptStore(
                    f"chunk {self.header.first_ordinal + index} of document"
                    f" {self.header.document_id} is damaged in segment {self.name}: mend it with"
                    " `drt library check --repair`"
                )

    def section(self, name: str, chunks: range) -> bytes:
        """Some consecutive chunks' part of a section."""
        section = self.header.sections[name]
        return self.data[section.span(chunks.start)[0] : section.span(chunks.stop)[0]]


def read_header(disk: Disk, descriptor: int, path: Path) -> SegmentHeader:
    """Read and validate the header of an open segment file; CorruptStore."""
    size = os.fstat(descriptor).st_size
    data = disk.read(descriptor, path, size=HEADER_SIZE, offset=0)
    return parse_header(data, file_size=size, where=path.name)


def map_records(folder: Folder, name: str) -> MappedRecords:
    """Validate a segment file, then map it; CorruptStore, FileNotFoundError."""
    path = folder.segments / name
    with folder.disk.reading(path) as descriptor:
        header = read_header(folder.disk, descriptor, path)
        return MappedRecords(name, header, folder.disk.map(descriptor, path, header.file_size))


def open_records(folder: Folder, row: SegmentRow, layout: RecordLayout) -> MappedRecords:
    """The mapped file of a committed segment; CorruptStore when it is missing or another's."""
    with file_errors(folder.path):
        try:
            records = map_records(folder, row.name)
        except FileNotFoundError as error:
            raise missing(row) from error
    check_identity(records.header, row, layout)
    return records


def landmark_bytes(folder: Folder, row: SegmentRow, layout: RecordLayout) -> bytearray:
    """A segment's landmarks, verified, without mapping the file; CorruptStore."""
    path = folder.segments / row.name
    with file_errors(folder.path):
        try:
            with folder.disk.reading(path) as descriptor:
                header = read_header(folder.disk, descriptor, path)
                check_identity(header, row, layout)
                section = header.sections["landmarks"]
                size = section.stride * row.chunks
                data = folder.disk.read(descriptor, path, size=size, offset=section.offset)
        except FileNotFoundError as error:
            raise missing(row) from error
    verify_landmarks(data, row)
    return bytearray(data)


def verify_landmarks(data: bytes | memoryview, row: SegmentRow) -> None:
    """Raise CorruptStore unless these are the landmarks that the catalogue sealed."""
    if row.landmarks_crc is not None and zlib.crc32(data) != row.landmarks_crc:
        raise CorruptStore(
            f"the landmarks of document {row.document_id} are damaged in segment {row.name}: mend"
            " them with `drt library check --repair`"
        )


def landmarks_crc(data: bytearray, header: SegmentHeader) -> int:
    """CRC32 of the landmarks section of a segment's bytes."""
    section = header.sections["landmarks"]
    with memoryview(data) as view:
        return zlib.crc32(view[section.offset : section.offset + section.stride * header.chunks])


def chunk_lengths(data: bytearray | mmap.mmap, header: SegmentHeader) -> list[int]:
    """Tokens of each chunk of a segment's bytes."""
    section = header.sections["lengths"]
    with memoryview(data) as view:
        part = view[section.offset : section.offset + section.stride * header.chunks]
        return part.cast("i").tolist()


def joined(header: SegmentHeader, parts: Sequence[tuple[MappedRecords, range]]) -> bytearray:
    """A segment's bytes made of verified chunks of others; a chunk's checksum moves with it."""
    for records, chunks in parts:
        for index in chunks:
            records.verify(index)
    buffer = bytearray(header.file_size)
    buffer[:HEADER_SIZE] = pack_header(header)
    for name, section in header.sections.items():
        at = section.offset
        for records, chunks in parts:
            data = records.section(name, chunks)
            buffer[at : at + len(data)] = data
            at += len(data)
    return buffer


def segment_name(document_id: str, first_ordinal: int) -> str:
    """A new name for a segment file."""
    return f"{document_id}-{first_ordinal:08d}-{os.urandom(4).hex()}{SEGMENT_SUFFIX}"


def discard(catalog: Catalog, folder: Folder, name: str) -> None:
    """Delete a file whose commit failed, if the catalogue confirms that it did."""
    folder.leftovers = True
    with contextlib.suppress(EngineError):
        if not catalog.database.in_doubt and not catalog.has_segment(name):
            folder.delete([name])


def missing(row: SegmentRow) -> CorruptStore:
    """The error for a committed segment without a file."""
    return CorruptStore(
        f"segment {row.name} of document {row.document_id} is missing: mend it with"
        " `drt library check --repair`"
    )


def check_identity(header: SegmentHeader, row: SegmentRow, layout: RecordLayout) -> None:
    """Raise CorruptStore unless a segment's header is what the catalogue says."""
    expected = expected_header(row, layout)
    if header != expected:
        raise CorruptStore(
            f"segment {row.name} holds {header} where the catalogue says {expected}: mend it with"
            " `drt library check --repair`"
        )
