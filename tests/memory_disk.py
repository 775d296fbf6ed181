"""Temporary folders of tests in memory, where a disk for that has room.

A run makes some 10,000 files and folders. To remove them from a disk again takes up to half as
long as the tests.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import MutableMapping
from pathlib import Path

_DISK = Path("/dev/shm")  # Linux
_ROOM = 1 << 30  # bytes; containers often have 64 MiB


def use_memory(
    environment: MutableMapping[str, str] = os.environ, *, disk: Path = _DISK, room: int = _ROOM
) -> None:
    """Let pytest make its temporary folders there, unless the caller chose another place."""
    if os.access(disk, os.W_OK) and shutil.disk_usage(disk).free >= room:
        environment.setdefault("PYTEST_DEBUG_TEMPROOT", str(disk))
