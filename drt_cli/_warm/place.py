"""Where the helper is: a folder of the user's, its socket, and the lock that the helper holds.

Sockets are reached through the open folder (``/proc/self/fd``): what is checked is what is used,
and no path is too long for an address.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from drt_cli._state import state_folder

SOCKET, LOCK = "socket", "lock"
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


@dataclass(frozen=True)
class HelperInfo:
    """What a helper says of itself: its process, what it serves, and when it began.

    ``server`` is the library of the ``drt serve`` that it belongs to, if it does.
    """

    pid: int
    identity: str
    model: str
    device: str
    dtype: str
    version: str
    began: float
    idle_minutes: float
    ready: bool = False
    server: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return what a user may want to know."""
        values = asdict(self)
        del values["identity"]
        if self.server is not None:  # with which it ends
            values["idle_minutes"] = None
        return {**values, "memory_bytes": _memory(self.pid)}

    def same_work(self, other: HelperInfo) -> bool:
        """Return whether a helper may stay where another one was to start."""
        mine = (self.identity, self.model, self.device, self.dtype)
        if mine != (other.identity, other.model, other.device, other.dtype):
            return False
        if self.server is not None:
            return True
        return other.server is None and self.idle_minutes == other.idle_minutes


def _memory(pid: int) -> int | None:
    """Return the bytes of memory that a process has for itself or shares, if the system tells."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def warm_folder() -> Path:
    """Return the folder of the helper's files."""
    return state_folder() / "warm"


@contextmanager
def opened_folder(*, create: bool = False) -> Iterator[int]:
    """Yield a descriptor of the folder; raise ``OSError`` unless it is the user's alone."""
    path = warm_folder()
    if create:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise PermissionError(f"{path} is not this user's alone")
        yield descriptor
    finally:
        os.close(descriptor)


def socket_address(folder: int) -> str:
    """Return the address of the socket in an open folder."""
    return f"/proc/self/fd/{folder}/{SOCKET}"


def is_own_peer(connection: socket.socket) -> bool:
    """Return whether the process at the other end is of the same user."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(raw)
    return bool(uid == os.geteuid())


def take_lock(folder: int) -> int | None:
    """Return a descriptor that holds the lock until it is closed, or None if another has it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(LOCK, flags, 0o600, dir_fd=folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def write_info(lock: int, info: HelperInfo) -> None:
    """Write who holds the lock into its file."""
    data = json.dumps(asdict(info)).encode()
    os.pwrite(lock, data, 0)
    os.ftruncate(lock, len(data))


def running_helper(folder: int) -> HelperInfo | None:
    """Return who holds the lock, or None; raise ``OSError`` where that cannot be read."""
    lock = take_lock(folder)
    if lock is not None:
        os.close(lock)
        return None
    descriptor = os.open(LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        return HelperInfo(**json.loads(os.read(descriptor, 1 << 16)))
    except (ValueError, TypeError) as error:  # it has just taken the lock
        raise OSError(f"{warm_folder() / LOCK} is not yet written") from error
    finally:
        os.close(descriptor)
