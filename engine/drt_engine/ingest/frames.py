"""Messages between a process and its workers: a line of JSON, and bytes behind it.

16 hexadecimal digits say how long each of the two is. Nothing is unpickled. Knows no documents.
"""

from __future__ import annotations

import json
import os
from typing import IO, Any

MOST_JSON = 1 << 30  # a map of a source of 16M tokens has a tenth of it
_DIGITS = 16
Frame = tuple[dict[str, Any], bytearray]


def send_frame(descriptor: int, message: dict[str, Any], data: bytes | bytearray = b"") -> None:
    """Write a message whole; raises BrokenPipeError where nobody reads."""
    # A file's name may hold bytes that are not UTF-8, which Python keeps as lone surrogates.
    head = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    payload = head.encode("utf-8", "surrogatepass")
    _write(descriptor, b"%08x%08x" % (len(payload), len(data)) + payload)
    if data:
        _write(descriptor, data)


def read_frame(file: IO[bytes]) -> Frame:
    """Return the next message and its bytes; raises EOFError where the sender has ended."""
    digits = bytes(_read(file, _DIGITS))
    head, size = int(digits[:8], 16), int(digits[8:], 16)
    if head > MOST_JSON:
        raise EOFError(f"a message of {head} bytes")
    message = json.loads(_read(file, head).decode("utf-8", "surrogatepass"))
    return message, _read(file, size)


def _write(descriptor: int, data: bytes | bytearray) -> None:
    with memoryview(data) as left:
        at = 0
        while at < len(data):
            at += os.write(descriptor, left[at:])


def _read(file: IO[bytes], size: int) -> bytearray:
    buffer = bytearray(size)
    with memoryview(buffer) as left:
        at = 0
        while at < size:
            count = file.readinto(left[at:])  # type: ignore[attr-defined]
            if not count:
                raise EOFError
            at += count
    return buffer
