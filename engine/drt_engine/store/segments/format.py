"""The bytes of a segment file, as FORMAT.md says: header, sections, checksums, validation.

Knows nothing of tensors, models or the catalogue; works on plain buffers.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from operator import le
from typing import Literal

from drt_engine.errors import ConfigError, CorruptStore
from drt_engine.store.types import ENCODINGS, MAX_CHUNKS, RecordLayout, SegmentRow

MAGIC = b"\x89DRTSEG\n"
VERSION = 1
HEADER_SIZE = 128
ALIGNMENT = 64
MAX_SEGMENT_CHUNKS = 1_024  # that we write
MAX_TOKEN_IDS = 1 << 20  # of any model
MAX_NUMBER = 1 << 23  # no number of chunk memory reaches it

_HEADER = struct.Struct("<8s8I16sQQ52xI")
_HEADER_CRC = struct.Struct("<I")
_ITEM_SIZE = {"u32": 4, "i32": 4, "f16": 2, "i8": 1, "bf16": 2}

Kind = Literal["u32", "i32", "f16", "i8", "bf16"]


@dataclass(frozen=True)
class Section:
    """A contiguous array with one entry per chunk."""

    name: str
    kind: Kind
    shape: tuple[int, ...]  # of one chunk's entry
    offset: int
    stride: int  # bytes per chunk

    def span(self, index: int) -> tuple[int, int]:
        """Return first and last-plus-one byte of chunk ``index`` in the file."""
        begin = self.offset + index * self.stride
        return begin, begin + self.stride


@dataclass(frozen=True)
class SegmentHeader:
    """What a segment file says of itself."""

    layout: RecordLayout
    document_id: str
    first_ordinal: int
    chunks: int

    @property
    def sections(self) -> dict[str, Section]:
        return plan(self.layout, self.chunks)[0]

    @property
    def file_size(self) -> int:
        return plan(self.layout, self.chunks)[1]


def _entries(layout: RecordLayout) -> Iterator[tuple[str, Kind, tuple[int, ...]]]:
    tokens = (layout.chunk_tokens,)
    heads = (*tokens, layout.kv_heads)
    yield "checksums", "u32", ()
    yield "lengths", "i32", ()
    yield "landmarks", "f16", (layout.landmark_size,)
    yield "ids", "i32", tokens
    yield "starts", "i32", tokens
    yield "ends", "i32", tokens
    if layout.encoding == "int8":
        yield "key_scales", "f16", heads
        yield "value_scales", "f16", heads
    memory: Kind = "i8" if layout.encoding == "int8" else "bf16"
    yield "keys", memory, (*heads, layout.head_size)
    yield "values", memory, (*heads, layout.head_size)


@lru_cache(maxsize=256)
def plan(layout: RecordLayout, chunks: int) -> tuple[dict[str, Section], int]:
    """Return where each section of a segment with ``chunks`` chunks lies, and the file's size."""
    sections: dict[str, Section] = {}
    end = HEADER_SIZE
    for name, kind, shape in _entries(layout):
        stride = _ITEM_SIZE[kind]
        for length in shape:
            stride *= length
        offset = -(-end // ALIGNMENT) * ALIGNMENT
        sections[name] = Section(name, kind, shape, offset, stride)
        end = offset + stride * chunks
    return sections, end


def expected_header(row: SegmentRow, layout: RecordLayout) -> SegmentHeader:
    """Return the header that a segment must have by the catalogue."""
    return SegmentHeader(layout, row.document_id, row.first_ordinal, row.chunks)


def pack_header(header: SegmentHeader) -> bytes:
    """Return the header's 128 bytes."""
    layout = header.layout
    packed = _HEADER.pack(
        MAGIC,
        VERSION,
        HEADER_SIZE,
        ENCODINGS.index(layout.encoding) + 1,
        layout.chunk_tokens,
        layout.kv_heads,
        layout.head_size,
        layout.landmark_size,
        header.chunks,
        header.document_id.encode("ascii"),
        header.first_ordinal,
        header.file_size,
        0,
    )
    body = packed[: -_HEADER_CRC.size]
    return body + _HEADER_CRC.pack(zlib.crc32(body))


def parse_header(data: bytes | bytearray, *, file_size: int, where: str) -> SegmentHeader:
    """Validate a header against the file's real size.

    Raises CorruptStore, naming ``where`` and the first thing that is wrong.
    """
    if len(data) < HEADER_SIZE:
        raise _corrupt(where, f"it has {file_size} bytes, fewer than its header")
    fields = _HEADER.unpack(data[:HEADER_SIZE])
    magic, version, header_size, encoding, *shape, chunks, document_id = fields[:10]
    first_ordinal, stated_size, crc = fields[10:]
    if magic != MAGIC:
        raise _corrupt(where, "it does not start like a segment file")
    if version != VERSION:
        raise _corrupt(where, f"its version is {version}, this program reads {VERSION}")
    if crc != zlib.crc32(data[: HEADER_SIZE - _HEADER_CRC.size]):
        raise _corrupt(where, "its header's checksum is wrong")
    if header_size != HEADER_SIZE or any(data[72 : HEADER_SIZE - _HEADER_CRC.size]):
        raise _corrupt(where, "its header has an unknown size or reserved bytes in use")
    header = _checked_fields(where, encoding, shape, chunks, document_id, first_ordinal)
    if not file_size == stated_size == header.file_size:
        raise _corrupt(
            where,
            f"it has {file_size} bytes, its header says {stated_size} and its contents need"
            f" {header.file_size}",
        )
    return header


def _checked_fields(  # one argument per header field
    where: str,
    encoding: int,
    shape: list[int],
    chunks: int,
    document_id: bytes,
    first_ordinal: int,
) -> SegmentHeader:
    if not 1 <= encoding <= len(ENCODINGS):
        raise _corrupt(where, f"its encoding is {encoding}, expected 1 to {len(ENCODINGS)}")
    if not 1 <= chunks <= MAX_CHUNKS:
        raise _corrupt(where, f"it claims {chunks} chunks, expected 1 to {MAX_CHUNKS}")
    try:
        tokens, heads, head_size, landmark_size = shape
        layout = RecordLayout(tokens, heads, head_size, landmark_size, ENCODINGS[encoding - 1])
        name = document_id.decode("ascii")
    except (ConfigError, UnicodeDecodeError) as error:
        raise _corrupt(where, f"its header is out of range ({error})") from error
    return SegmentHeader(layout, name, first_ordinal, chunks)


def _corrupt(where: str, reason: str) -> CorruptStore:
    return CorruptStore(
        f"segment {where} is damaged: {reason}; repair it with `drt library check --repair`"
    )


def chunk_crc(data: memoryview, sections: dict[str, Section], index: int) -> int:
    """Return the CRC32 over chunk ``index``'s part of every section but the checksums."""
    crc = 0
    for section in sections.values():
        if section.name != "checksums":
            # written out: ``span`` would cost as much as the checksum of a small section
            begin = section.offset + index * section.stride
            crc = zlib.crc32(data[begin : begin + section.stride], crc)
    return crc


def stored_crc(data: memoryview, sections: dict[str, Section], index: int) -> int:
    """Return the checksum that the file holds for chunk ``index``."""
    begin, end = sections["checksums"].span(index)
    return int.from_bytes(data[begin:end], "little")


def chunk_is_intact(data: memoryview, sections: dict[str, Section], index: int) -> bool:
    """Return whether chunk ``index`` still has the bytes it was written with."""
    return chunk_crc(data, sections, index) == stored_crc(data, sections, index)


def chunk_fault(
    data: memoryview,
    sections: dict[str, Section],
    index: int,
    *,
    characters: int | None,
    vocabulary: int | None,
) -> str | None:
    """Describe a number of chunk ``index`` that no library writes; None where all are right.

    ``characters`` is the length of its text, ``vocabulary`` how many token ids the model has, each
    None where it is unknown. A checksum says only that the bytes are those somebody wrote.
    """

    def part(name: str) -> memoryview:
        return data[slice(*sections[name].span(index))]

    length = part("lengths").cast("i")[0]
    slots = sections["ids"].shape[0]
    if not 0 <= length <= slots:
        return f"it has {length} tokens, expected 0 to {slots}"
    ids, starts, ends = (part(name).cast("I") for name in ("ids", "starts", "ends"))
    if max(ids) >= min(vocabulary or MAX_TOKEN_IDS, MAX_TOKEN_IDS):
        return f"its token id {max(ids)} is not the model's"
    # of a character that is several tokens, the first may end one chunk whose text it only follows
    if not all(map(le, starts, ends)) or (characters is not None and max(ends) > characters + 1):
        return "its tokens leave its text"
    if length < slots and not _is_empty(data, sections, index, length):
        return f"it has numbers behind its {length} tokens"
    numbers = [name for name in sections if name not in _INTEGERS]
    for name in numbers:
        section = sections[name]
        if section.kind == "i8":
            if b"\x80" in bytes(part(name)):
                return f"its {name} are outside -127 to 127"
        # the high byte of a number holds its sign and the most of its exponent
        elif bytes(part(name)[1::2]).translate(None, _IN_RANGE[section.kind]):
            return f"its {name} are not finite or too large"
    return None


def _is_empty(data: memoryview, sections: dict[str, Section], index: int, length: int) -> bool:
    """Return whether all slots of chunk ``index`` from ``length`` on are zero."""
    for section in sections.values():
        if section.name in ("checksums", "lengths", "landmarks"):
            continue
        begin, end = section.span(index)
        begin += section.stride // section.shape[0] * length
        if data[begin:end] != bytes(end - begin):
            return False
    return True


_INTEGERS = ("checksums", "lengths", "ids", "starts", "ends")
# High bytes of finite f16, and of bf16 below 2^23 in magnitude, which no int8 with its scale
# exceeds.
_IN_RANGE = {
    "f16": bytes(byte for byte in range(256) if byte & 0x7F < 0x7C),
    "bf16": bytes(byte for byte in range(256) if byte & 0x7F < 0x4B),
}


def write_header_and_checksums(buffer: bytearray, header: SegmentHeader) -> None:
    """Fill in the header and every chunk's checksum, once all other sections are in place."""
    buffer[:HEADER_SIZE] = pack_header(header)
    sections = header.sections
    with memoryview(buffer) as data:
        for index in range(header.chunks):
            begin, end = sections["checksums"].span(index)
            data[begin:end] = chunk_crc(data, sections, index).to_bytes(4, "little")


def gaps(header: SegmentHeader) -> Iterator[tuple[int, int]]:
    """Yield the byte ranges between sections, which are zero."""
    end = HEADER_SIZE
    for section in header.sections.values():
        if section.offset > end:
            yield end, section.offset
        end = section.offset + section.stride * header.chunks
