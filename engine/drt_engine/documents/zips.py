"""Zip files that may be hostile: members by name, never more bytes than is sane.

Shared by the formats that are zip files underneath; writes nothing to disk.
"""

from __future__ import annotations

import errno
import lzma
import zipfile
import zlib
from collections.abc import Iterator

from drt_engine.documents.base import Source, one_line
from drt_engine.documents.limits import PART_BYTES, ZIP_MEMBER_BYTES, ZIP_MEMBERS, ZIP_RATIO
from drt_engine.errors import UnreadableDocument

_READ_BYTES = 1 << 16
_BROKEN = "its directory or its packed data is broken"

# What zipfile was seen to raise for files that are broken or lie about themselves.
DAMAGE = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError,
    ValueError, IndexError, OverflowError,
)  # fmt: skip


class SafeZip:
    """An open zip file of a document; raises UnreadableDocument for what is damaged or a bomb."""

    def __init__(self, source: Source, kind: str) -> None:
        self._name, self._kind = source.name, kind
        self._file = source.open()
        try:
            self._zip = zipfile.ZipFile(self._file)
            self.entries = self._zip.infolist()
        except DAMAGE as error:
            self._file.close()
            raise self._damaged(_cause(error)) from error
        except OSError as error:
            self._file.close()
            if error.errno != errno.EINVAL:
                raise
            # A directory that claims to begin before the file does.
            raise self._damaged(_BROKEN) from error
        if len(self.entries) > ZIP_MEMBERS:
            self.close()
            raise self._damaged(f"it lists {len(self.entries):,} members")
        self._members: dict[str, zipfile.ZipInfo] = {}
        self._doubled: set[str] = set()
        for entry in self.entries:
            if entry.filename in self._members:
                self._doubled.add(entry.filename)
            self._members.setdefault(entry.filename, entry)

    def __enter__(self) -> SafeZip:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._zip.close()
        self._file.close()

    @property
    def members(self) -> dict[str, zipfile.ZipInfo]:
        """The first member of each name, in the order of the file."""
        return self._members

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def pieces(self, name: str) -> Iterator[bytes]:
        """Return the bytes of an existing member in pieces of constant size.

        Raises UnreadableDocument also where two members have this name: programs differ in which
        of them they show, so that a reader could see another text than the user.
        """
        if name in self._doubled:
            raise self._damaged(f"it holds two parts called {name}")
        return self.pieces_of(self._members[name])

    def pieces_of(self, member: zipfile.ZipInfo) -> Iterator[bytes]:
        """Yield the bytes of one of ``entries``, in pieces of constant size."""
        if member.flag_bits & 1:
            raise UnreadableDocument(
                f"{self._name} is protected by a password; save a copy without one."
            )
        name = member.filename
        # The size that the directory states is not trusted: the bytes themselves are counted.
        remaining = ZIP_MEMBER_BYTES + ZIP_RATIO * member.compress_size
        try:
            with self._zip.open(member) as file:
                while data := file.read(_READ_BYTES):
                    remaining -= len(data)
                    if remaining < 0:
                        raise self._damaged(f"{name} unpacks to far too much")
                    yield data
        except DAMAGE as error:
            raise self._damaged(f"{name}: {_cause(error)}") from error
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            raise self._damaged(f"{name}: {_BROKEN}") from error

    def read(self, name: str, limit: int = PART_BYTES) -> bytes:
        """Return an existing member whole; raise UnreadableDocument beyond ``limit`` bytes."""
        data = bytearray()
        for piece in self.pieces(name):
            data += piece
            if len(data) > limit:
                raise self._damaged(f"{name} is larger than {limit >> 20} MB")
        return bytes(data)

    def _damaged(self, reason: str) -> UnreadableDocument:
        return UnreadableDocument(
            f"{self._name} is not a whole {self._kind} file "
            f"({one_line(reason).rstrip('.').lower()}); get or export it again."
        )


def _cause(error: Exception) -> str:
    """Return what is wrong with a file in words for people; zipfile's are for programmers."""
    if isinstance(error, zipfile.BadZipFile):
        if "not a zip file" in str(error):
            return "its directory is missing, so its end is cut off or it is of another format"
        if "CRC" in str(error):
            return "its bytes are not those that were packed"
        return _BROKEN
    if isinstance(error, NotImplementedError):
        return f"it is packed in a way that is not known here: {error}"
    return _BROKEN
