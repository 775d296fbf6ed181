"""The frames of an archive, as FORMAT.md says: kinds, lengths, checksums, the digest at the end.

Knows nothing of what the payloads mean.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections.abc import Iterator
from typing import IO

from drt_engine.errors import CorruptStore, StoreError

MAGIC = b"\x89DRTARC\n"
VERSION = 5
# 1 had no ORIG, 2 no author and date, 3 no tags, 4 no BLOC
_KNOWN_VERSIONS = (1, 2, 3, 4, VERSION)
_FRAME = struct.Struct("<4sQI")  # kind, length of the payload, CRC32 of kind, length and payload
CHUNK_HEADER = struct.Struct("<QIqII")  # start, tokens, page, bytes of section, bytes of text
PLACE_HEADER = struct.Struct("<QqI")  # start, page, bytes of section
GROUP_HEADER = struct.Struct("<QI")  # start, bytes of anchors or nodes
NO_PAGE = -(1 << 63)
NO_SECTION = 0xFFFFFFFF
_LIMITS = {
    b"LIBR": 1 << 28,
    b"DOCU": 1 << 20,
    b"PLAC": 1 << 28,
    b"ORIG": 1 << 28,
    b"BLOC": 1 << 28,
    b"TEXT": 1 << 28,
    b"RECS": 1 << 40,  # the layout says how many bytes a number of chunks takes
    b"SESS": 1 << 26,
    b"STAT": 1 << 30,
    b"DONE": 32,
}


class Frames:
    """Writes or reads frames, keeping the digest of all bytes so far."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def packed(self, kind: bytes, payload: bytes | bytearray) -> Iterator[bytes | bytearray]:
        """Yield the pieces of one frame."""
        if len(payload) > _LIMITS[kind]:
            raise StoreError(
                f"{len(payload):,} bytes cannot be one part of an archive, expected at most"
                f" {_LIMITS[kind]:,}: is this a document?"
            )
        head = struct.pack("<4sQ", kind, len(payload))
        crc = zlib.crc32(payload, zlib.crc32(head))
        for piece in (head + struct.pack("<I", crc), payload):
            self._digest.update(piece)
            yield piece

    def digest(self) -> bytes:
        """Return the SHA-256 of everything so far."""
        return self._digest.digest()

    def start(self, version: int = VERSION) -> bytes:
        """Return the file's first bytes."""
        first = MAGIC + struct.pack("<I", version)
        self._digest.update(first)
        return first

    def read(self, file: IO[bytes], name: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield kind and payload of each frame, the last being DONE at the file's end.

        Raises CorruptStore.
        """
        size = os.fstat(file.fileno()).st_size
        first = file.read(len(MAGIC) + 4)
        if first[: len(MAGIC)] != MAGIC:
            raise damaged(name, "it does not start like an archive")
        if first[len(MAGIC) :] not in [struct.pack("<I", version) for version in _KNOWN_VERSIONS]:
            raise damaged(name, f"its version is not 1 to {VERSION}")
        self._digest.update(first)
        while True:
            before = self.digest()
            head = file.read(_FRAME.size)
            if len(head) < _FRAME.size:
                raise damaged(name, "it ends too early")
            kind, length, crc = _FRAME.unpack(head)
            if kind not in _LIMITS or length > min(_LIMITS[kind], size - file.tell()):
                raise damaged(name, f"a part at byte {file.tell()} is longer than what is left")
            payload = file.read(length)
            if len(payload) != length or zlib.crc32(payload, zlib.crc32(head[:12])) != crc:
                raise damaged(name, f"the checksum of the part before byte {file.tell()} is wrong")
            self._digest.update(head)
            self._digest.update(payload)
            if kind == b"DONE":
                if payload != before or file.read(1):
                    raise damaged(name, "its digest is wrong or something follows it")
                return
            yield kind, payload


def damaged(name: str, reason: str) -> CorruptStore:
    """Return the error for an archive that is not as it was written."""
    return CorruptStore(f"the archive {name} is damaged: {reason}; export the library again")
