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
from typing import BinaryIO

from drt_engine.documents.base import Source, printable_path, unreadable
from drt_engine.documents.registry import find_reader, unsupported
from drt_engine.errors import DocumentError, UnreadableDocument

STANDARD_INPUT = "standard input"


class PathExpansion(Iterator[Source | DocumentError]):
    """The sources and errors in order; `skipped` counts files passed over so far.

    A file is passed over when it was found in a folder or by a glob and no reader knows it.
    """

    def __init__(self, arguments: Sequence[str], stdin: BinaryIO | None) -> None:
        self.skipped = 0
        self._stdin = stdin
        self._items = self._expand(arguments)

    def __next__(self) -> Source | DocumentError:
        return next(self._items)

    def _expand(self, arguments: Sequence[str]) -> Iterator[Source | DocumentError]:
        for argument in arguments:
            if argument == "-":
                yield self._standard_input()
                continue
            try:
                yield from self._argument(argument)
            except (OSError, ValueError) as error:  # ValueError: a NUL in the path
                yield unreadable(printable_path(argument).replace("\0", "\\0"), error)

    def _argument(self, argument: str) -> Iterator[Source | DocumentError]:
        path = Path(argument)
        if not os.path.lexists(path) and glob.has_magic(argument):
            yield from self._glob(argument)
        elif stat.S_ISDIR(mode := path.stat().st_mode):
            yield from self._walk(path)
        elif stat.S_ISFIFO(mode):  # a shell's <(command): can be read only once
            with path.open("rb") as stream:
                yield Source.from_stream(stream, printable_path(path))
        else:
            yield self._named(path, mode)

    def _standard_input(self) -> Source | DocumentError:
        stream = self._stdin if self._stdin is not None else getattr(sys.stdin, "buffer", None)
        if stream is None:
            return UnreadableDocument("standard input is closed; give a file or pipe text in.")
        try:
            return Source.from_stream(stream, STANDARD_INPUT)
        except OSError as error:
            return unreadable(STANDARD_INPUT, error)

    def _named(self, path: Path, mode: int) -> Source | DocumentError:
        source = Source.from_path(path)
        if not stat.S_ISREG(mode):
            return UnreadableDocument(
                f"{source.name} is a device, not a document; name a file, a folder or -."
            )
        if path.stat().st_size == 0:
            return source  # opening it says that it is empty, which is more to the point
        return source if _known(source) else unsupported(source)

    def _glob(self, pattern: str) -> Iterator[Source | DocumentError]:
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

    def _walk(self, folder: Path) -> Iterator[Source | DocumentError]:
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

    def _found(self, path: Path) -> Iterator[Source | DocumentError]:
        source = Source.from_path(path)
        try:
            if not stat.S_ISREG(path.stat().st_mode) or not _known(source):
                self.skipped += 1
                return
        except OSError as error:
            yield unreadable(source.name, error)
            return
        yield source


def _known(source: Source) -> bool:
    """Whether a reader knows the file; opens it in any case, so that no right to read shows."""
    with source.open():
        return find_reader(source) is not None


def expand_paths(arguments: Sequence[str], *, stdin: BinaryIO | None = None) -> PathExpansion:
    """The documents that `arguments` name, in order, an error in the place of each bad path.

    Folders are walked by name, hidden files and folders passed over; "-" is `stdin`, or the
    process's standard input, copied to a temporary file that `Source.close` removes.
    """
    return PathExpansion(arguments, stdin)
