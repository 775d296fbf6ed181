"""Lists archives and sends their members one by one, in the child process of ``sandbox``.

A file that is compressed alone (``page.1.gz``) is an archive of one. Writes nothing to disk; knows
nothing of what the members are.
"""

from __future__ import annotations

import base64
import bz2
import gzip
import lzma
import stat
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, BinaryIO, cast

from drt_engine.documents.base import OpenDocument, Source, one_line, printable_path
from drt_engine.documents.zips import DAMAGE, SafeZip
from drt_engine.errors import UnreadableDocument, UnsupportedFormat

_READ_BYTES = 1 << 18
_TAR_HEADER_BYTES = 512
_TAR_SUFFIXES = (".tar", ".tgz", ".tbz2", ".txz")
_TAR_DAMAGE = (tarfile.TarError, gzip.BadGzipFile, *DAMAGE)

Send = Callable[..., None]
Unpack = Callable[[BinaryIO], Any]


@dataclass(frozen=True)
class _Entry:
    """A member before its bytes are read; ``why`` says why they will not be."""

    name: str
    why: str
    data: Iterator[bytes]


def send_members(source: Source, send: Send) -> None:
    """Send every member: name, bytes in pieces, an empty piece; ``why`` is "" on success."""
    seen: set[str] = set()
    for entry in _entries(source):
        # Programs differ in which of two they would unpack, so the second is reported.
        reason = (
            entry.why or _unsafe(entry.name) or ("its name occurs twice" * (entry.name in seen))
        )
        seen.add(entry.name)
        send(member=entry.name, why=reason)
        if not reason:
            _send_data(entry, send)
    send(skipped=[])


def _send_data(entry: _Entry, send: Send) -> None:
    reason = ""
    try:
        for data in entry.data:
            send(data=base64.b64encode(data).decode())
    except UnreadableDocument as error:
        reason = str(error)
    except (OSError, *_TAR_DAMAGE) as error:
        reason = _first_line(error)
    send(data="", why=reason)


def _unsafe(name: str) -> str:
    """Return why a member's path is refused; hidden files are left out as they are in folders."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in name[:2] or "\0" in name:
        return "its path leads out of the archive"
    hidden = any(part.startswith(".") or part == "__MACOSX" for part in path.parts)
    return "hidden" if hidden else ""


def _entries(source: Source) -> Iterator[_Entry]:
    with source.open() as file:
        head = file.read(6)  # a tar may end with a zip, so its end tells nothing
    if head.startswith(b"PK"):
        yield from _zip_entries(source)
    elif (unpack := _compression(head)) and not _holds_tar(source, unpack):
        yield _Entry(_name_within(source), "", _unpacked(source, unpack))
    else:
        yield from _tar_entries(source)


def _zip_entries(source: Source) -> Iterator[_Entry]:
    with SafeZip(source, "zip") as archive:
        for member in archive.entries:
            if member.is_dir():
                continue
            kind = stat.S_IFMT(member.external_attr >> 16)
            reason = "a link" if stat.S_ISLNK(kind) else ""
            reason = "protected by a password" if member.flag_bits & 1 else reason
            yield _Entry(printable_path(member.filename), reason, archive.pieces_of(member))


def _compression(head: bytes) -> Unpack | None:
    """Return what unpacks a file that begins with ``head``; None where it is not compressed."""
    if head.startswith(b"\x1f\x8b"):
        return gzip.open
    if head.startswith(b"BZh"):
        return bz2.open
    return lzma.open if head.startswith(b"\xfd7zXZ\0") else None


def _holds_tar(source: Source, unpack: Unpack) -> bool:
    """Return whether a compressed file is a tar, by its name or by its first header."""
    name = source.file_name.lower()
    stem, _, suffix = name.rpartition(".")
    if f".{suffix}" in _TAR_SUFFIXES or stem.endswith(".tar"):
        return True
    try:
        with source.open() as file, unpack(file) as unpacked:
            tarfile.TarInfo.frombuf(unpacked.read(_TAR_HEADER_BYTES), "utf-8", "surrogateescape")
    except (OSError, *_TAR_DAMAGE):
        return False
    return True


def _name_within(source: Source) -> str:
    """Return what a file is called once it is unpacked; not what it says, which can be any path."""
    name = source.file_name
    stem, _, suffix = name.rpartition(".")
    return stem if stem and suffix.lower() in ("gz", "bz2", "xz") else name


def _unpacked(source: Source, unpack: Unpack) -> Iterator[bytes]:
    with source.open() as file, unpack(file) as unpacked:
        while data := unpacked.read(_READ_BYTES):
            yield data


def _tar_entries(source: Source) -> Iterator[_Entry]:
    try:
        with source.open() as file, tarfile.open(fileobj=file, mode="r:*") as archive:
            for member in archive:
                if member.isdir() or member.name.endswith("/"):
                    continue
                reason = "" if member.isreg() else "a link or device"
                yield _Entry(printable_path(member.name), reason, _tar_pieces(archive, member))
                archive.members = []  # type: ignore[attr-defined]  # it grows with the archive
    except _TAR_DAMAGE as error:
        raise UnreadableDocument(
            f"{source.name} is not a whole archive ({_first_line(error)}); get it again."
        ) from error


def _first_line(error: Exception) -> str:
    """Return the first line of an error: ``tarfile`` adds one for each compression it tried."""
    return one_line(str(error).partition("\n")[0]).lower() or type(error).__name__


def _tar_pieces(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[bytes]:
    file = cast(BinaryIO, archive.extractfile(member))
    while data := file.read(_READ_BYTES):
        yield data


@dataclass(frozen=True)
class ArchiveReader:
    """Knows archives by their content; ``expand_paths`` reads their members."""

    def recognises(self, head: bytes) -> bool:
        compressed = head.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0"))
        office = b"[Content_Types].xml" in head[:256] or b"mimetypeapplication/" in head[:256]
        zipped = head.startswith(b"PK\x03\x04") and not office
        return zipped or compressed or head[257:262] == b"ustar"

    def open(self, source: Source) -> OpenDocument:
        raise UnsupportedFormat(f"{source.name} is an archive; read its members one by one.")
