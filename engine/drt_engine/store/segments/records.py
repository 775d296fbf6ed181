"""Verified bytes of segment files: opening one, copying chunks from some into another.

Records are read, never mapped: a file that is cut short under a mapping ends the process with
SIGBUS. Knows nothing of tensors and changes no row.
"""

from __future__ import annotations

import contextlib
import os
import weakref
import zlib
from collections.abc import Sequence
from pathlib import Path

from drt_engine.errors import CorruptStore, EngineError
from drt_engine.store.catalogue.catalog import Catalog
from drt_engine.store.filesystem.disk import Disk
from drt_engine.store.filesystem.library_folder import (
    SEGMENT_SUFFIX,
    Folder,
    file_error,
    file_errors,
)
from drt_engine.store.segments.format import (
    HEADER_SIZE,
    Section,
    SegmentHeader,
    chunk_is_intact,
    expected_header,
    pack_header,
    parse_header,
)
from drt_engine.store.types import RecordLayout, SegmentRow


class OpenRecords:
    """One validated, open segment file; closed with the last reference to it."""

    def __init__(
        self, folder: Folder, name: str, *, header: SegmentHeader, descriptor: int
    ) -> None:
        self.name = name
        self.header = header
        self._folder = folder
        self._path = folder.segments / name
        self._descriptor = descriptor
        self._closer = weakref.finalize(self, os.close, descriptor)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._closer()

    def read(self, offset: int, size: int) -> bytes:
        """Return the bytes of the file; CorruptStore where it has become shorter."""
        disk = self._folder.disk
        try:
            data = disk.read(self._descriptor, self._path, size=size, offset=offset)
        except OSError as error:
            raise file_error(error, self._folder.path) from error
        if len(data) != size:
            raise CorruptStore(
                f"segment {self.name} of document {self.header.document_id} was cut short while it"
                " was open: repair it with `drt library check --repair`"
            )
        return data

    def copy(
        self, chunks: range, out: memoryview, sections: dict[str, Section], *, slot: int
    ) -> None:
        """Put consecutive chunks into a segment's bytes, from its chunk ``slot`` on; unverified."""
        for name, section in self.header.sections.items():
            begin, end = section.span(chunks.start)[0], section.span(chunks.stop)[0]
            at = sections[name].span(slot)[0]
            out[at : at + end - begin] = self.read(begin, end - begin)

    def copy_verified(
        self, chunks: range, out: memoryview, sections: dict[str, Section], *, slot: int
    ) -> None:
        """Copy chunks like ``copy``; CorruptStore unless each has the bytes it was written with."""
        self.copy(chunks, out, sections, slot=slot)
        for number, index in enumerate(chunks):
            if not chunk_is_intact(out, sections, slot + number):
                raise CorruptStore(
                    f"chunk {self.header.first_ordinal + index} of document"
                    f" {self.header.document_id} is damaged in segment {self.name}: repair it with"
                    " `drt library check --repair`"
                )


def read_header(disk: Disk, descriptor: int, path: Path) -> SegmentHeader:
    """Read and validate the header of an open segment file; CorruptStore."""
    size = os.fstat(descriptor).st_size
    data = disk.read(descriptor, path, size=HEADER_SIZE, offset=0)
    return parse_header(data, file_size=size, where=path.name)


def open_file(folder: Folder, name: str) -> OpenRecords:
    """Open a segment file and validate its header; CorruptStore, FileNotFoundError."""
    path = folder.segments / name
    descriptor = folder.disk.open(path)
    try:
        header = read_header(folder.disk, descriptor, path)
    except BaseException:
        os.close(descriptor)
        raise
    return OpenRecords(folder, name, header=header, descriptor=descriptor)


def open_records(folder: Folder, row: SegmentRow, layout: RecordLayout) -> OpenRecords:
    """Return the open file of a committed segment; CorruptStore when it is missing or another's."""
    with file_errors(folder.path):
        try:
            records = open_file(folder, row.name)
        except FileNotFoundError as error:
            raise missing(row) from error
    try:
        check_identity(records.header, row, layout)
    except CorruptStore:
        records.close()
        raise
    return records


def landmark_bytes(folder: Folder, row: SegmentRow, layout: RecordLayout) -> bytearray:
    """Return a segment's landmarks, verified, without mapping the file; CorruptStore."""
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
    """Raise CorruptStore unless these are the landmarks whose checksum the catalogue has."""
    if row.landmarks_crc is not None and zlib.crc32(data) != row.landmarks_crc:
        raise landmarks_damaged(row)


def landmarks_damaged(row: SegmentRow) -> CorruptStore:
    """Return the error for landmarks that do not have the catalogue's checksum."""
    return CorruptStore(
        f"the landmarks of document {row.document_id} are damaged in segment {row.name}: repair"
        " them with `drt library check --repair`"
    )


def landmarks_crc(data: bytearray, header: SegmentHeader) -> int:
    """Return the CRC32 of the landmarks section of a segment's bytes."""
    section = header.sections["landmarks"]
    with memoryview(data) as view:
        return zlib.crc32(view[section.offset : section.offset + section.stride * header.chunks])


def chunk_lengths(data: bytearray, header: SegmentHeader) -> list[int]:
    """Return the tokens of each chunk of a segment's bytes."""
    section = header.sections["lengths"]
    with memoryview(data) as view:
        part = view[section.offset : section.offset + section.stride * header.chunks]
        return part.cast("i").tolist()


def joined(header: SegmentHeader, parts: Sequence[tuple[OpenRecords, range]]) -> bytearray:
    """Return a segment's bytes made of verified chunks of others.

    A chunk's checksum moves with it.
    """
    buffer = bytearray(header.file_size)
    buffer[:HEADER_SIZE] = pack_header(header)
    slot = 0
    with memoryview(buffer) as out:
        for records, chunks in parts:
            records.copy_verified(chunks, out, header.sections, slot=slot)
            slot += len(chunks)
    return buffer


def copied_segment(
    folder: Folder, segments: Sequence[SegmentRow], header: SegmentHeader
) -> bytearray | None:
    """Return the bytes of a segment of the chunks that ``header`` names, copied from ``segments``.

    None where these do not hold all of them. Raises ``CorruptStore`` for a damaged chunk.
    """
    first, stop = header.first_ordinal, header.first_ordinal + header.chunks
    parts = []
    for segment in segments:
        at = segment.first_ordinal
        chunks = range(max(first, at) - at, min(stop, at + segment.chunks) - at)
        if chunks:
            parts.append((open_records(folder, segment, header.layout), chunks))
    if sum(len(chunks) for _, chunks in parts) != header.chunks:
        return None
    return joined(header, parts)


def segment_name(document_id: str, first_ordinal: int) -> str:
    """Return a new name for a segment file."""
    return f"{document_id}-{first_ordinal:08d}-{os.urandom(4).hex()}{SEGMENT_SUFFIX}"


def discard(catalog: Catalog, folder: Folder, name: str) -> None:
    """Delete a file whose commit failed, if the catalogue confirms that it did."""
    folder.leftovers = True
    with contextlib.suppress(EngineError):
        if not catalog.database.in_doubt and not catalog.has_segment(name):
            folder.delete([name])


def missing(row: SegmentRow) -> CorruptStore:
    """Return the error for a committed segment without a file."""
    return CorruptStore(
        f"segment {row.name} of document {row.document_id} is missing: repair it with"
        " `drt library check --repair`"
    )


def check_identity(header: SegmentHeader, row: SegmentRow, layout: RecordLayout) -> None:
    """Raise CorruptStore unless a segment's header is what the catalogue says."""
    expected = expected_header(row, layout)
    if header != expected:
        raise CorruptStore(
            f"segment {row.name} holds {header} where the catalogue says {expected}: repair it with"
            " `drt library check --repair`"
        )
