"""Sources of bytes: a file, a member of an archive, standard input, a part held in memory.

Knows paths and temporary files; knows no format.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from drt_engine.documents.base.unnamed_file import UnnamedFile
from drt_engine.documents.limits import Budget
from drt_engine.errors import UnreadableDocument
from drt_engine.files import BINARY, DatabaseInUseError, expect_no_database


@dataclass(frozen=True)
class Source:
    """Bytes that can be opened more than once, and the name a user knows them by.

    ``path`` is None for standard input, whose bytes are in a temporary file until ``close``. A
    member of an archive is in such a file too; its path is ``ARCHIVE!/MEMBER``. Parts of a document
    that is being read are held in memory.
    """

    path: Path | None
    name: str
    _copy: UnnamedFile | None = field(default=None, repr=False)
    _data: bytes | None = field(default=None, repr=False)
    budget: Budget | None = field(default=None, repr=False)  # of the archive that it is in

    @classmethod
    def from_path(cls, path: Path | str) -> Source:
        return cls(Path(path), printable_path(path))

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> Source:
        """Make the source of a part of another document, held in memory."""
        return cls(None, name, _data=data)

    @classmethod
    def from_stream(cls, stream: BinaryIO, name: str) -> Source:
        """Copy ``stream`` to a temporary file without a name, deleted by ``close`` or at exit."""
        return cls.from_pieces(iter(lambda: stream.read(1 << 16), b""), name)

    @classmethod
    def from_pieces(
        cls,
        pieces: Iterable[bytes],
        name: str,
        path: Path | None = None,
        budget: Budget | None = None,
    ) -> Source:
        """Copy ``pieces`` to a temporary file without a name, deleted by ``close`` or at exit."""
        return cls(path, name, UnnamedFile.copy_of(pieces), budget=budget)

    @classmethod
    def from_file(cls, file: UnnamedFile, name: str, path: Path | None) -> Source:
        """Make the source of an open file; ``path`` says what it is called."""
        return cls(path, name, file)

    @property
    def on_disk(self) -> bool:
        """Whether another process that opens ``path`` gets these bytes."""
        return self._copy is None and self._data is None

    @property
    def location(self) -> str:
        """The absolute path, which stays the same wherever a command is started; else the name."""
        return self.name if self.path is None else printable_path(self.path.absolute())

    @property
    def file_name(self) -> str:
        """The last part of the name."""
        return self.name if self.path is None else printable_path(self.path.absolute().name)

    @property
    def suffix(self) -> str:
        """The lower-case suffix with its dot; empty for standard input."""
        return "" if self.path is None else self.path.suffix.lower()

    @property
    def size(self) -> int:
        """How many bytes there are; raises OSError as it comes."""
        if self._data is not None:
            return len(self._data)
        return self._copy.size if self._copy is not None else self._path().stat().st_size

    def open(self) -> BinaryIO:
        """Open the bytes from the first on, independently of other openings."""
        if self._data is not None:
            return io.BytesIO(self._data)
        if self._copy is not None:
            return self._copy.open()
        path = self._path()
        expect_no_database(path)
        return path.open("rb")

    def descriptor(self) -> int:
        """Open the bytes for another process; the caller closes the descriptor."""
        if self._copy is not None:
            return self._copy.duplicate()
        path = self._path()
        expect_no_database(path)
        return os.open(path, os.O_RDONLY | BINARY)

    def _path(self) -> Path:
        if self.path is None:
            raise FileNotFoundError(self.name)
        return self.path

    def close(self) -> None:
        """Delete the temporary copy; a file on disk is left alone."""
        if self._copy is not None:
            self._copy.close()


def printable_path(path: Path | str) -> str:
    """Return ``path`` as text, bytes that are not UTF-8 as escapes, since SQLite refuses them."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def unreadable(name: str, error: OSError | ValueError) -> UnreadableDocument:
    """Return the error for an operating system's refusal to give a file's bytes."""
    if isinstance(error, DatabaseInUseError):
        return UnreadableDocument(
            f"{name} is a file of a library of drt, not a document; name the documents themselves."
        )
    if isinstance(error, FileNotFoundError):
        return UnreadableDocument(f"{name} does not exist; check the path.")
    if isinstance(error, PermissionError):
        return UnreadableDocument(
            f"{name} cannot be read (permission denied); give yourself the right to read it."
        )
    if isinstance(error, IsADirectoryError):
        return UnreadableDocument(f"{name} is a folder, not a file; name a file in it.")
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return UnreadableDocument(f"{name} cannot be read ({reason}); check the path and the disk.")
