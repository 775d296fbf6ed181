"""Consolidated landmark files: the landmarks of many segments, so that one scan maps few files.

Such a file repeats what segments hold and can be made again from them at any time. Knows nothing
of tensors.
"""

from __future__ import annotations

import array
import contextlib
import mmap
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from drt_engine.errors import CorruptStore
from drt_engine.store.catalogue.catalog import Catalog
from drt_engine.store.filesystem.disk import DurableFile
from drt_engine.store.filesystem.library_folder import LANDMARK_FILE_SUFFIX, Folder, file_errors
from drt_engine.store.segments.format import ALIGNMENT
from drt_engine.store.segments.records import landmark_bytes, verify_landmarks
from drt_engine.store.types import LandmarkFileRow, RecordLayout, SegmentRow

MAGIC = b"\x89DRTLMK\n"
VERSION = 1
MIN_LOOSE_SEGMENTS = 64  # from so many on, their landmarks are consolidated
_HEADER = struct.Struct("<8sIIIIQQ20xI")
_CRC = struct.Struct("<I")


@dataclass(frozen=True)
class MappedLandmarkFile:
    """A verified, mapped landmark file: chunk ids from ``ids_at`` on, landmarks from ``offset``."""

    row: LandmarkFileRow
    data: mmap.mmap
    ids_at: int
    offset: int

    def expect_whole(self) -> None:
        """Raise CorruptStore where the file has changed its size; to be called before each use.

        Touching a mapped page behind the end of its file ends the process with SIGBUS.
        """
        if self.data.size() != len(self.data):
            raise _damaged(self.row, "it was cut short or grew while it was open")


@dataclass(frozen=True)
class OpenLandmarkFile:
    """One validated, verified, open landmark file; ``read`` takes an offset and a size."""

    row: LandmarkFileRow
    layout: RecordLayout
    descriptor: int
    read: Callable[[int, int], bytes]

    def ids(self, at: int, count: int) -> list[int]:
        """Return the ids of some consecutive chunks."""
        return array.array("q", self.read(_HEADER.size + 8 * at, 8 * count)).tolist()

    def landmarks(self, at: int, count: int) -> bytes:
        """Return the landmarks of some consecutive chunks."""
        size = 2 * self.layout.landmark_size
        return self.read(_landmarks_at(self.row.chunks) + size * at, size * count)


def landmark_file_header(chunks: int, landmark_size: int) -> bytes:
    """Return the header's 64 bytes."""
    size = _landmarks_at(chunks) + 2 * chunks * landmark_size
    packed = _HEADER.pack(MAGIC, VERSION, _HEADER.size, landmark_size, 0, chunks, size, 0)
    body = packed[: -_CRC.size]
    return body + _CRC.pack(zlib.crc32(body))


def map_landmark_file(
    folder: Folder, row: LandmarkFileRow, layout: RecordLayout
) -> MappedLandmarkFile:
    """Map a landmark file after verifying its checksum; CorruptStore."""
    path = folder.segments / row.name
    with file_errors(folder.path), open_landmark_file(folder, row, layout) as landmark_file:
        data = folder.disk.map(landmark_file.descriptor, path, _size(row.chunks, layout))
        return MappedLandmarkFile(row, data, _HEADER.size, _landmarks_at(row.chunks))


@contextlib.contextmanager
def open_landmark_file(
    folder: Folder, row: LandmarkFileRow, layout: RecordLayout
) -> Iterator[OpenLandmarkFile]:
    """Open a landmark file and verify its checksum; CorruptStore.

    It is verified by reading, which a file that is cut short meanwhile cannot turn into a signal.
    """
    path = folder.segments / row.name
    with contextlib.ExitStack() as stack:
        try:
            descriptor = stack.enter_context(folder.disk.reading(path))
        except FileNotFoundError as error:
            raise _damaged(row, "it is missing") from error

        def read(offset: int, size: int) -> bytes:
            data = folder.disk.read(descriptor, path, size=size, offset=offset)
            if len(data) != size:
                raise _damaged(row, "it was cut short while it was read")
            return data

        size = _size(row.chunks, layout)
        if os.fstat(descriptor).st_size != size:
            raise _damaged(row, "its size is not what the catalogue says")
        if read(0, _HEADER.size) != landmark_file_header(row.chunks, layout.landmark_size):
            raise _damaged(row, "its header is not what the catalogue says")
        crc = 0
        for at in range(_HEADER.size, size, _PART):
            crc = zlib.crc32(read(at, min(_PART, size - at)), crc)
        if crc != row.crc:
            raise _damaged(row, "its checksum is wrong")
        yield OpenLandmarkFile(row, layout, descriptor, read)


def write_landmark_file(
    folder: Folder,
    rows: Sequence[SegmentRow],
    layout: RecordLayout,
    *,
    instead: Sequence[LandmarkFileRow] = (),
) -> tuple[str, int]:
    """Write the landmarks of some segments; returns the file's name and checksum.

    Those that the files have which it is to be there ``instead`` of are copied from there: each of
    many small documents is a file of its own, which takes ten times as long to open.
    """
    name = f"shelf-{os.urandom(6).hex()}{LANDMARK_FILE_SUFFIX}"
    path = folder.segments / name
    chunks = sum(row.chunks for row in rows)
    ids = array.array("q")
    for row in rows:
        ids.extend(range(row.first_chunk, row.first_chunk + row.chunks))
    front = ids.tobytes()
    front += bytes(_landmarks_at(chunks) - _HEADER.size - len(front))
    crc = zlib.crc32(front)
    with (
        _opened(folder, instead, layout) as sources,
        file_errors(folder.path),
        DurableFile(folder.disk, path, path.with_suffix(".tmp")) as file,
    ):
        file.write(landmark_file_header(chunks, layout.landmark_size) + front)
        part = bytearray()
        for row in rows:
            part += _copied(row, sources) or landmark_bytes(folder, row, layout)
            if len(part) > _PART or row is rows[-1]:
                crc = zlib.crc32(part, crc)
                file.write(part)
                part = bytearray()
    return name, crc


@contextlib.contextmanager
def _opened(
    folder: Folder, files: Sequence[LandmarkFileRow], layout: RecordLayout
) -> Iterator[dict[int, OpenLandmarkFile]]:
    """Yield landmark files by their number, without damaged ones."""
    with contextlib.ExitStack() as stack:
        opened: dict[int, OpenLandmarkFile] = {}
        for row in files:
            with contextlib.suppress(CorruptStore):  # its segments have the same
                opened[row.id] = stack.enter_context(open_landmark_file(folder, row, layout))
        yield opened


def _copied(row: SegmentRow, sources: Mapping[int, OpenLandmarkFile]) -> bytes | None:
    """Return a segment's landmarks as a landmark file has them, verified; ``None`` if none does."""
    source, at = sources.get(row.landmark_file or 0), row.landmark_file_row
    if source is None or at is None or not 0 <= at <= source.row.chunks - row.chunks:
        return None
    try:
        data = source.landmarks(at, row.chunks)
        verify_landmarks(data, row)
    except CorruptStore:
        return None
    return data


_PART = 4 << 20  # bytes read or written at a time


def consolidate_landmark_files(
    catalog: Catalog, folder: Folder, layout: RecordLayout, *, everything: bool = False
) -> None:
    """Consolidate landmarks that are due into one file; with ``everything``, all landmarks.

    Called by a writer, under the lock. A damaged segment is left for ``check`` to report: asking
    still scans the others' landmarks where they stand.
    """
    landmark_files = catalog.landmark_files()
    loose, chunks = catalog.count_loose_segments()
    if everything:
        instead = landmark_files
        due = len(landmark_files) > 1 or any(s.live < s.chunks for s in landmark_files)
        due = due or loose >= (1 if landmark_files else MIN_LOOSE_SEGMENTS)
    else:
        instead = _outgrown(landmark_files, chunks)
        due = loose >= MIN_LOOSE_SEGMENTS
    if not due:
        return
    rows = catalog.loose_segments([landmark_file.id for landmark_file in instead])
    if not rows:
        catalog.drop_landmark_files(instead)
    else:
        try:
            name, crc = write_landmark_file(folder, rows, layout, instead=instead)
        except CorruptStore:
            return
        if not catalog.add_landmark_file(name, rows, crc=crc, instead=instead):
            folder.delete([name])
            return
    folder.delete([landmark_file.name for landmark_file in instead])


def _outgrown(landmark_files: Sequence[LandmarkFileRow], chunks: int) -> list[LandmarkFileRow]:
    """Return the newest landmark files that are no larger than what would join them.

    So there are never more than the logarithm of the chunks, and each is copied as seldom.
    """
    outgrown: list[LandmarkFileRow] = []
    for landmark_file in reversed(landmark_files):
        if landmark_file.chunks > chunks:
            break
        outgrown.append(landmark_file)
        chunks += landmark_file.live
    return outgrown


def _size(chunks: int, layout: RecordLayout) -> int:
    return _landmarks_at(chunks) + 2 * chunks * layout.landmark_size


def _landmarks_at(chunks: int) -> int:
    return -(-(_HEADER.size + 8 * chunks) // ALIGNMENT) * ALIGNMENT


def _damaged(row: LandmarkFileRow, reason: str) -> CorruptStore:
    return CorruptStore(
        f"landmark file {row.name} is damaged: {reason}; repair it with"
        " `drt library check --repair`"
    )
