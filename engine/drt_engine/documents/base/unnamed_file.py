"""Files without a name: temporary copies that no interruption leaves behind, and views of them.

Knows the operating system's files; knows nothing of documents.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from typing import BinaryIO

from drt_engine.files import read_at


class UnnamedFile:
    """An open file known by its descriptor alone; each view of it has a position of its own."""

    def __init__(self, descriptor: int) -> None:
        """Take over an open descriptor, which ``close`` or the end of this object closes."""
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size

    @classmethod
    def copy_of(cls, pieces: Iterable[bytes]) -> UnnamedFile:
        """Copy ``pieces`` to a temporary file that never has a name, or loses it at once."""
        import tempfile

        with tempfile.TemporaryFile(prefix="drt-") as file:
            file.writelines(pieces)
            file.flush()
            return cls(os.dup(file.fileno()))

    def open(self) -> BinaryIO:
        """Return a view of the bytes, from the first on; FileNotFoundError once it is closed."""
        if self._descriptor < 0:
            raise FileNotFoundError
        return io.BufferedReader(_View(self))

    def read_at(self, position: int, buffer: memoryview) -> int:
        """Fill ``buffer`` from ``position`` on; return how many bytes there were."""
        data = read_at(self._descriptor, len(buffer), position)
        buffer[: len(data)] = data
        return len(data)

    def duplicate(self) -> int:
        """Return another descriptor of the file, which the caller closes."""
        return os.dup(self._descriptor)

    def close(self) -> None:
        """Give the file up; harmless when that was done."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            self.close()


class _View(io.RawIOBase):
    """Reads an unnamed file from a position of its own."""

    def __init__(self, file: UnnamedFile) -> None:
        self._file, self._position = file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count = self._file.read_at(self._position, buffer)
        self._position += count
        return count

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._file.size}[whence]
        if start + offset < 0:
            raise ValueError(f"negative seek position {start + offset}")
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return self._position
