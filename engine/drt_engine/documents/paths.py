"""Turns what a user names (files, folders, globs, "-") into sources, one error per bad path.

Knows the file system; asks `registry` only whether a file's format is known.
"""

from __future__ import annotations

import glob
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from drt_engine.documents.base import Notes, Source, printable_path, unreadable
from drt_engine.documents.formats import Format
from drt_engine.documents.registry import find_format, unsupported
from drt_engine.errors import DocumentError, UnreadableDocument

if TYPE_CHECKING:
    from drt_engine.documents.sandbox import Member

STANDARD_INPUT = "standard input"
_DEEPEST = 3
_UNPACKED = 1 << 28  # bytes that any archive may unpack to, and as many times its own size
_UNPACKED_RATIO = 50

Found = Source | DocumentError


class PathExpansion(Iterator[Found]):
    """The sources and errors in order; `skipped` counts files passed over so far.

    A file is passed over when it was found in a folder, an archive or by a glob and no reader knows
    it. `notes` says what else of archives was passed over and why.
    """

    def __init__(self, arguments: Sequence[str], stdin: BinaryIO | None) -> None:
        self.skipped = 0
        self.notes = Notes()
        self._stdin = stdin
        self._items = self._expand(arguments)

    def __next__(self) -> Found:
        return next(self._items)

    def _expand(self, arguments: Sequence[str]) -> Iterator[Found]:
        for argument in arguments:
            if argument == "-":
                yield from self._opened(self._standard_input())
                continue
            try:
                yield from self._argument(argument)
            except (OSError, ValueError) as error:  # ValueError: a NUL in the path
                yield unreadable(printable_path(argument).replace("\0", "\\0"), error)

    def _argument(self, argument: str) -> Iterator[Found]:
        path = Path(argument)
        if not os.path.lexists(path) and glob.has_magic(argument):
            yield from self._glob(argument)
        elif stat.S_ISDIR(mode := path.stat().st_mode):
            yield from self._walk(path)
        elif stat.S_ISFIFO(mode):  # a shell's <(command): can be read only once
            with path.open("rb") as stream:
                yield from self._opened(Source.from_stream(stream, printable_path(path)))
        else:
            yield from self._opened(self._named(path, mode))

    def _standard_input(self) -> Found:
        stream = self._stdin if self._stdin is not None else getattr(sys.stdin, "buffer", None)
        if stream is None:
            return UnreadableDocument("standard input is closed; give a file or pipe text in.")
        try:
            return Source.from_stream(stream, STANDARD_INPUT)
        except OSError as error:
            return unreadable(STANDARD_INPUT, error)

    def _named(self, path: Path, mode: int) -> Found:
        source = Source.from_path(path)
        if not stat.S_ISREG(mode):
            return UnreadableDocument(
                f"{source.name} is a device, not a document; name a file, a folder or -."
            )
        if path.stat().st_size == 0:
            return source  # opening it says that it is empty, which is more to the point
        return source if _format(source) else unsupported(source)

    def _opened(self, found: Found) -> Iterator[Found]:
        """What was found, or the members of it when it is an archive."""
        if isinstance(found, Source) and _is_archive(found):
            yield from self._members(found, _Budget(found), depth=1)
            found.close()
        else:
            yield found

    def _members(self, archive: Source, budget: _Budget, *, depth: int) -> Iterator[Found]:
        from drt_engine.documents.sandbox import archive_members

        try:
            for member in archive_members(archive):
                if member.skipped:
                    self._pass_over(f"{archive.name}!/{member.name}", member.skipped)
                else:
                    yield from self._member(archive, member, budget, depth=depth)
        except DocumentError as error:
            yield error

    def _member(
        self, archive: Source, member: Member, budget: _Budget, *, depth: int
    ) -> Iterator[Found]:
        name = f"{archive.name}!/{member.name}"
        place = Path(f"{archive.path or archive.name}!") / member.name
        try:
            source = Source.from_pieces(budget.counted(member.data, name), name, place)
        except UnreadableDocument as error:
            if budget.left < 0:
                raise  # nothing more of this archive is unpacked
            yield error
            return
        chosen = _format(source)
        if chosen is not None and not chosen.archive and source.file.stat().st_size:
            yield source
            return
        if not source.file.stat().st_size:
            self.notes.skip("empty file in an archive", "it holds nothing")
        elif chosen is None:
            self.skipped += 1
        elif depth < _DEEPEST:
            yield from self._members(source, budget, depth=depth + 1)
        else:
            self._pass_over(name, "an archive in an archive in an archive")
        source.close()

    def _pass_over(self, name: str, why: str) -> None:
        if why != "hidden":
            self.notes.skip(name, why)

    def _glob(self, pattern: str) -> Iterator[Found]:
        found = sorted(glob.iglob(pattern, recursive=True))
        if not found:
            yield UnreadableDocument(
                f"no file matches {printable_path(pattern)}; check the pattern and the folder."
            )
        seen: set[Path] = set()  # "**" gives folders as well as what lies in them
        for name in found:
            for path in self._files(Path(name)):
                if isinstance(path, DocumentError):
                    yield path
                elif path not in seen:
                    seen.add(path)
                    yield from self._found(path)

    def _walk(self, folder: Path) -> Iterator[Found]:
        for path in self._files(folder):
            if isinstance(path, DocumentError):
                yield path
            else:
                yield from self._found(path)

    def _files(self, start: Path) -> Iterator[Path | DocumentError]:
        """Files at or below `start` by name; each folder once, whatever links lead to it."""
        seen: set[tuple[int, int]] = set()
        waiting = [start]
        while waiting:
            path = waiting.pop()
            try:
                status = path.stat()
                if not stat.S_ISDIR(status.st_mode):
                    yield path
                    continue
                if (status.st_dev, status.st_ino) in seen:
                    continue
                seen.add((status.st_dev, status.st_ino))
                names = sorted(name for name in os.listdir(path) if not name.startswith("."))
            except OSError as error:
                yield unreadable(printable_path(path), error)
                continue
            waiting.extend(path / name for name in reversed(names))

    def _found(self, path: Path) -> Iterator[Found]:
        source = Source.from_path(path)
        try:
            if not stat.S_ISREG(path.stat().st_mode) or not _format(source):
                self.skipped += 1
                return
        except OSError as error:
            yield unreadable(source.name, error)
            return
        yield from self._opened(source)


class _Budget:
    """How many bytes may still be unpacked from one archive and the archives in it."""

    def __init__(self, archive: Source) -> None:
        self.left = _UNPACKED + _UNPACKED_RATIO * archive.file.stat().st_size

    def counted(self, pieces: Iterator[bytes], name: str) -> Iterator[bytes]:
        """`pieces`; raises UnreadableDocument when there are more than can be honest."""
        for piece in pieces:
            self.left -= len(piece)
            if self.left < 0:
                raise UnreadableDocument(
                    f"{name} and what was before it unpack to far more than the archive's size; "
                    "unpack it yourself if you trust it."
                )
            yield piece


def _format(source: Source) -> Format | None:
    """The file's format; opens it in any case, so that a missing right to read shows."""
    with source.open():
        return find_format(source)


def _is_archive(source: Source) -> bool:
    if source.file.stat().st_size == 0:
        return False
    chosen = _format(source)
    return chosen is not None and chosen.archive


def expand_paths(arguments: Sequence[str], *, stdin: BinaryIO | None = None) -> PathExpansion:
    """The documents that `arguments` name, in order, an error in the place of each bad path.

    Folders are walked by name, hidden files and folders passed over; "-" is `stdin`, or the
    process's standard input, copied to a temporary file that `Source.close` removes.
    """
    return PathExpansion(arguments, stdin)
