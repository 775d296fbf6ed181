"""What the two processes say to each other: a request, then messages of a letter and a number.

The command passes a request with its standard streams and its folder; the helper's fork accepts or
refuses it; the command says go, so that none that has given up waiting is run a second time. The
fork tells before its first output, and how it ended.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from dataclasses import asdict, dataclass

ACCEPTED, REFUSED, GO, WRITING = b"A", b"R", b"G", b"W"
EXIT, KILLED, INTERRUPT = b"X", b"K", b"I"
MESSAGE = struct.Struct("=ci")
_HEAD = struct.Struct("=8sI")
_MAGIC = b"drt-warm"
_LARGEST = 1 << 26  # bytes of a request: arguments and environment
STREAMS = 4  # standard input, output and error, and the current folder


@dataclass(frozen=True)
class Request:
    """A command as it was called, and what its process passes on besides its streams."""

    identity: str
    arguments: list[str]
    environment: dict[str, str]
    terminal: str
    encodings: list[str]
    processors: list[int]
    umask: int


def send_request(connection: socket.socket, request: Request, streams: list[int]) -> None:
    """Send a request and the descriptors of its streams."""
    data = json.dumps(asdict(request)).encode()  # lone surrogates, which paths may have, as escapes
    socket.send_fds(connection, [_HEAD.pack(_MAGIC, len(data))], streams)
    connection.sendall(data)


def receive_request(connection: socket.socket) -> tuple[Request, list[int]]:
    """Return a request and its streams; raise ``ValueError`` for anything else."""
    head, descriptors, _, _ = socket.recv_fds(connection, _HEAD.size, STREAMS)
    try:
        if len(head) != _HEAD.size or len(descriptors) != STREAMS:
            raise ValueError("it is not a request")
        magic, size = _HEAD.unpack(head)
        if magic != _MAGIC or size > _LARGEST:
            raise ValueError("it is not a request")
        return Request(**json.loads(_exactly(connection, size))), descriptors
    except (ValueError, TypeError) as error:
        for descriptor in descriptors:
            os.close(descriptor)
        raise ValueError("it is not a request") from error


def send(connection: socket.socket, letter: bytes, number: int = 0) -> None:
    """Send a message; raise ``OSError`` if nobody is there."""
    connection.sendall(MESSAGE.pack(letter, number))


def receive(connection: socket.socket) -> tuple[bytes, int] | None:
    """Return the next message, or None at the end; ``ValueError`` for a part of one."""
    data = connection.recv(MESSAGE.size, socket.MSG_WAITALL)
    if not data:
        return None
    if len(data) != MESSAGE.size:
        raise ValueError("it is not a message")
    letter, number = MESSAGE.unpack(data)
    return letter, number


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(min(size - len(data), 1 << 20))
        if not part:
            raise ValueError("it ends early")
        data += part
    return bytes(data)
