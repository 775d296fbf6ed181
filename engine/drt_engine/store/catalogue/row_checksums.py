"""Checksums of the catalogue's rows, and the texts' compressed form.

A checksum is a CRC32 over a row's values: SQLite's own check sees a broken page, not a flipped bit
inside a value. Knows nothing of SQL.
"""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Iterable, Sequence
from functools import cache

from drt_engine.errors import CorruptStore

# of one chunk's text in UTF-8; far above what 64 tokens need, below what could exhaust memory
MAX_TEXT_BYTES = 64 << 20
_WINDOW_BITS, _MEMORY_LEVEL = 12, 5

Value = str | int | float | None


def row_checksum(values: Sequence[Value | Sequence[Value]]) -> int:
    """Return the CRC32 over values, nested at most once, in their order."""
    text = json.dumps(values, separators=(",", ":"), default=repr)
    return zlib.crc32(text.encode("ascii"))


_KINDS = {"s": (str,), "i": (int,), "b": (bytes,), "n": (int, type(None)), "t": (str, type(None))}


def expect(row: Sequence[object], kinds: str) -> None:
    """Raise CorruptStore unless a row's values are of these kinds, one letter each.

    s text, i integer, b bytes, n integer or nothing, t text or nothing. SQLite itself takes any
    kind in any column, and no length in a catalogue is believed before it is known to be one.
    """
    if tuple(map(type, row)) not in _allowed(kinds):
        raise CorruptStore(
            "the catalogue holds a row that no library writes: run `drt library check`"
        )


@cache
def _allowed(kinds: str) -> frozenset[tuple[type, ...]]:
    """Return the types that a row of these kinds may have; looked up once for each query."""
    return frozenset(itertools.product(*(_KINDS[kind] for kind in kinds)))


def pack_text(text: str) -> bytes:
    """Return a chunk's text as it is stored: UTF-8 in a zlib stream."""
    # a small window and table: setting up zlib's usual 256 KB takes longer than a chunk's text
    deflater = zlib.compressobj(6, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL)
    return deflater.compress(text.encode("utf-8")) + deflater.flush()


def unpack_text(packed: bytes | str) -> str:
    """Return the text; CorruptStore when the stream is damaged or longer than any text."""
    try:
        inflater = zlib.decompressobj()
        data = inflater.decompress(packed, MAX_TEXT_BYTES)  # type: ignore[arg-type]
        if not inflater.eof or inflater.unused_data:
            raise ValueError("the stream does not end where it should")
        return data.decode("utf-8")
    except (zlib.error, ValueError, TypeError) as error:
        raise CorruptStore(
            f"a chunk's text in the catalogue is damaged ({error}): run `drt library check`"
        ) from error


def blob_crc(value: object) -> int:
    """Return a blob's CRC32; -1 for what is no blob, which no checksum has."""
    return zlib.crc32(value) if isinstance(value, bytes) else -1


def chunk_rows_checksum(
    rows: Iterable[tuple[int, int, int, int, int | None, str | None, bytes]],
) -> int:
    """Return the part of a segment's checksum that covers its chunks' rows.

    A row is (id, ordinal, start, tokens, page, section, packed text).
    """
    plain = [(*row[:6], blob_crc(row[6])) for row in rows]
    return row_checksum(plain)
