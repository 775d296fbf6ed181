"""Files in the folder of uploads, which several servers of one library share.

A server deletes the folder where it finds it empty. Knows nothing of HTTP.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TypeVar

from .. import _engine

Made = TypeVar("Made")
PATIENCE = 30.0  # seconds that a conversation waits for another server
_POLL_SECONDS = 0.02
_MAKING = 100  # times that a file is tried to be made in a folder that others delete


def new_file(folder: Path) -> tuple[int, str]:
    """Make a file in the folder; return its descriptor and its path."""
    return _made_in(folder, lambda: tempfile.mkstemp(prefix=".", dir=folder))


def conversation_lock(folder: Path, name: str) -> contextlib.AbstractContextManager[None]:
    """Wait until no other server of the library answers in a conversation.

    Raises ``TimeoutError`` after ``PATIENCE`` seconds: the other one may have been stopped.
    """
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return only_one(folder / digest, patience=PATIENCE)  # a name may be longer than a file's


@contextlib.contextmanager
def only_one(place: Path, *, patience: float | None = None) -> Iterator[None]:
    """Wait until no other server of the library uses this place in the folder.

    Raises ``TimeoutError`` after ``patience`` seconds, where there is a limit.
    """
    path = place.with_name(f".{place.name}.lock")
    while True:
        file: IO[bytes] = _made_in(path.parent, lambda: path.open("ab"))
        try:
            _wait_for(file, patience)
        except BaseException:
            file.close()
            raise
        # The one before deletes the file that it locked: others would lock a new one.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                break
        file.close()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
        _engine.unlock(file)
        file.close()


def _wait_for(file: IO[bytes], patience: float | None) -> None:
    """Lock a file once no other server has it locked."""
    if patience is None:
        _engine.lock(file, wait=True)
        return
    end = time.monotonic() + patience
    while not _engine.lock(file):
        if time.monotonic() >= end:
            raise TimeoutError(errno.ETIMEDOUT, "another server does not end what it does")
        time.sleep(_POLL_SECONDS)


def _made_in(folder: Path, make: Callable[[], Made]) -> Made:
    """Make a file in the folder, which is made first where it is missing."""
    for _ in range(_MAKING):
        with contextlib.suppress(FileNotFoundError):
            folder.mkdir(mode=0o700, exist_ok=True)
            return make()
    raise FileNotFoundError(errno.ENOENT, "the folder of uploads is deleted again and again")
