"""The layout of an inverted file, as in FORMAT.md: header, sections, and what is refused.

Knows nothing of tensors, of the catalogue, or of how landmarks were grouped.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import zlib
from dataclasses import asdict, dataclass

from drt_engine.errors import CorruptStore
from drt_engine.store.filesystem.library_folder import INDEX_SUFFIX

MAGIC = b"\x89DRTIVF\n"
VERSION = 1
MAX_LISTS = 65_536
SETTING = "approximate_index"
_ALIGNMENT = 64
_HEADER = struct.Struct("<8sIIIIQQQQ32s36xI")
_CRC = struct.Struct("<I")
_NAME = re.compile(r"index-[0-9a-f]{12}" + re.escape(INDEX_SUFFIX))
REMEDY = "make it again with `drt library index --approximate`"


@dataclass(frozen=True)
class IndexRow:
    """The setting that names a library's inverted file.

    ``crc`` is that of its header and tables, ``probes`` how many lists a question scans.
    """

    name: str
    crc: int
    probes: int

    @classmethod
    def parse(cls, text: str) -> IndexRow:
        """Return the row that a setting's text holds; CorruptStore for any other text."""
        try:
            row = cls(**json.loads(text))
        except (ValueError, TypeError, RecursionError) as error:
            raise damaged("the setting", f"it cannot be read ({error})") from error
        numbers = (row.crc, row.probes)
        if not all(type(number) is int for number in numbers) or not isinstance(row.name, str):
            raise damaged("the setting", f"it holds {text!r:.80}")
        if not _NAME.fullmatch(row.name) or not 1 <= row.probes <= MAX_LISTS:
            raise damaged("the setting", f"it holds {text!r:.80}")
        return row

    def text(self) -> str:
        """Return the setting's text."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class IndexHeader:
    """What an inverted file holds: ``chunks`` landmarks of ``width`` numbers, in ``lists`` lists.

    They are those of all chunks up to ``last_chunk``, but for ``gaps`` ranges of ids, of documents
    that were not read in full.
    """

    width: int
    lists: int
    chunks: int
    last_chunk: int
    gaps: int
    fingerprint: str

    @property
    def landmarks_at(self) -> int:
        """Where the landmarks begin; the chunk ids are before them, after the header."""
        return _aligned(_HEADER.size + 8 * self.chunks)

    @property
    def tables_at(self) -> int:
        """Where the tables begin: starts, checksums, gaps and centroids."""
        return _aligned(self.landmarks_at + 2 * self.chunks * self.width)

    @property
    def tables_size(self) -> int:
        """The bytes of the tables."""
        return 8 * (self.lists + 1) + 4 * self.lists + 16 * self.gaps + 4 * self.lists * self.width

    @property
    def file_size(self) -> int:
        """The bytes of the file."""
        return self.tables_at + self.tables_size

    def pack(self) -> bytes:
        """Return the header's 128 bytes."""
        packed = _HEADER.pack(
            MAGIC,
            VERSION,
            _HEADER.size,
            self.width,
            self.lists,
            self.chunks,
            self.last_chunk,
            self.gaps,
            self.file_size,
            _digest(self.fingerprint),
            0,
        )
        body = packed[: -_CRC.size]
        return body + _CRC.pack(zlib.crc32(body))


HEADER_SIZE = _HEADER.size


def parse_header(
    data: bytes, *, name: str, file_size: int, width: int, fingerprint: str
) -> IndexHeader:
    """Return the header of an inverted file; CorruptStore for one that this library cannot use."""
    if len(data) != _HEADER.size or data[:8] != MAGIC:
        raise damaged(name, "it is no inverted file")
    fields = _HEADER.unpack(data)
    (_, version, header_size, numbers, lists, chunks, last_chunk, gaps, size, digest, crc) = fields
    if zlib.crc32(data[: -_CRC.size]) != crc or header_size != _HEADER.size:
        raise damaged(name, "its header has another checksum")
    if version != VERSION:
        raise damaged(name, f"its version is {version}, expected {VERSION}")
    if digest != _digest(fingerprint) or numbers != width:
        raise damaged(name, "it was made with another model")
    header = IndexHeader(width, lists, chunks, last_chunk, gaps, fingerprint)
    if not 1 <= lists <= MAX_LISTS or not header.file_size == size == file_size:
        raise damaged(name, f"it has {file_size} bytes, expected {header.file_size}")
    return header


def new_name() -> str:
    """Return a new name for an inverted file."""
    return f"index-{os.urandom(6).hex()}{INDEX_SUFFIX}"


def damaged(name: str, reason: str) -> CorruptStore:
    """Return the error for an inverted file that cannot be used."""
    return CorruptStore(f"the approximate index ({name}) is damaged: {reason}; {REMEDY}")


def _digest(fingerprint: str) -> bytes:
    return hashlib.sha256(fingerprint.encode()).digest()


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT
