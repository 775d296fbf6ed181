"""Turns what a user names (files, folders, globs, "-") into sources, one error per bad path.

Knows the file system; asks ``registry`` only whether a file's format is known.
"""

from __future__ import annotations

import glob
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from drt_engine.documents.base import Notes, Source, printable_path, unreadable
from drt_engine.documents.formats import Format
from drt_engine.documents.inputs.ignored import FILES, OWNER_FILE, PACKAGES, Rules
from drt_engine.documents.limits import NESTED_ARCHIVES, Budget
from drt_engine.documents.registry import find_format, unsupported
from drt_engine.errors import DocumentError, UnreadableDocument

if TYPE_CHECKING:
    from drt_engine.documents.sandbox.process import Member

STANDARD_INPUT = "standard input"
UNKNOWN = "no reader knows its type"
HIDDEN = "hidden name"
NAMED_ALONE = "to have its words recognised, name it"
EMPTY = "it is empty"  # of files found in folders and by patterns
_LIBRARY_ENTRIES = {"catalog.db", "lock", "segments"}  # of a library's folder, as FORMAT.md says
_HIDDEN_WHY = "files and folders that begin with a dot, or that systems make"

SourceOrError = Source | DocumentError


class PathExpansion(Iterator[SourceOrError]):
    """The sources and errors in order; ``skipped`` counts the files left out so far.

    A file is left out when it was found in a folder, an archive or by a glob and no reader knows
    it. ``notes`` names these files, and what else was left out and why.
    """

    def __init__(self, arguments: Sequence[str], stdin: BinaryIO | None) -> None:
        self.skipped = 0
        self.notes = Notes()
        self._stdin = stdin
        self._items = self._expand(arguments)

    def __next__(self) -> SourceOrError:
        return next(self._items)

    def _expand(self, arguments: Sequence[str]) -> Iterator[SourceOrError]:
        for argument in arguments:
            if re.match(r"(?i)(https?|ftp)://", argument):
                yield UnreadableDocument(
                    f"{printable_path(argument)} is an address: drt ask and drt ingest fetch those"
                    " of the web with --fetch; or save the page and name its file."
                )
                continue
            if argument == "-":
                yield from self._opened(self._standard_input())
                continue
            try:
                yield from self._argument(argument)
            except (OSError, ValueError) as error:  # ValueError: a NUL in the path
                yield unreadable(printable_path(argument).replace("\0", "\\0"), error)

    def _argument(self, argument: str) -> Iterator[SourceOrError]:
        if not argument:  # a path of no name is the current folder, which nobody asked for
            yield UnreadableDocument("a path is empty; name a file, a folder or -.")
            return
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

    def _standard_input(self) -> SourceOrError:
        stream = self._stdin if self._stdin is not None else getattr(sys.stdin, "buffer", None)
        if stream is None:
            return UnreadableDocument("standard input is closed; give a file or pipe text in.")
        try:
            return Source.from_stream(stream, STANDARD_INPUT)
        except OSError as error:
            return unreadable(STANDARD_INPUT, error)

    def _named(self, path: Path, mode: int) -> SourceOrError:
        source = Source.from_path(path)
        if not stat.S_ISREG(mode):
            return UnreadableDocument(
                f"{source.name} is a device, not a document; name a file, a folder or -."
            )
        if path.stat().st_size == 0:
            return source  # opening it says that it is empty, which is more to the point
        return source if _format(source) else unsupported(source)

    def _opened(self, source: SourceOrError) -> Iterator[SourceOrError]:
        """Yield a source, or the members of it when it is an archive."""
        if isinstance(source, Source) and is_archive(source):
            archive = replace(source, budget=Budget(source.name, source.size))
            yield from self._members(archive, depth=1)
            archive.close()
        else:
            yield source

    def _members(self, archive: Source, *, depth: int) -> Iterator[SourceOrError]:
        from drt_engine.documents.sandbox.process import archive_members

        assert archive.budget is not None
        try:
            for member in archive_members(archive):
                archive.budget.count_member()
                if member.skipped:
                    self._pass_over(f"{archive.name}!/{member.name}", member.skipped)
                else:
                    yield from self._member(archive, member, archive.budget, depth=depth)
        except DocumentError as error:
            if depth > 1 and archive.budget.excess:
                raise  # nothing more of the archive around it is read either
            yield error

    def _member(
        self, archive: Source, member: Member, budget: Budget, *, depth: int
    ) -> Iterator[SourceOrError]:
        name = f"{archive.name}!/{member.name}"
        place = Path(f"{archive.path or archive.name}!") / member.name
        try:
            source = Source.from_pieces(budget.counted(member.data), name, place, budget)
        except UnreadableDocument as error:
            budget.check()
            yield error
            return
        document_format = _format(source)
        if document_format is not None and not document_format.in_folders:
            self.notes.skip("picture in an archive", "unpack it to have its words recognised")
            source.close()
            return
        if document_format is not None and not document_format.archive and source.size:
            yield source
            return
        if not source.size:
            self.notes.skip("empty file in an archive", "nothing to read")
        elif document_format is None:
            self._pass_over(name, UNKNOWN)
            self.skipped += 1
        elif depth < NESTED_ARCHIVES:
            yield from self._members(source, depth=depth + 1)
        else:
            self._pass_over(name, "an archive in an archive in an archive")
        source.close()

    def _pass_over(self, name: str, why: str) -> None:
        if why == "hidden":
            self.notes.skip(HIDDEN, _HIDDEN_WHY)
        else:
            self.notes.skip(name, why)

    def _glob(self, pattern: str) -> Iterator[SourceOrError]:
        names = sorted(glob.iglob(pattern, recursive=True))
        if not names:
            yield UnreadableDocument(
                f"no file matches {printable_path(pattern)}; check the pattern and the folder."
            )
        seen: set[Path] = set()  # "**" gives folders as well as what lies in them
        for name in names:
            for path in self._files(Path(name)):
                if isinstance(path, DocumentError):
                    yield path
                elif path not in seen:
                    seen.add(path)
                    yield from self._from_folder(path, is_named=path == Path(name))

    def _walk(self, folder: Path) -> Iterator[SourceOrError]:
        for path in self._files(folder):
            if isinstance(path, DocumentError):
                yield path
            else:
                yield from self._from_folder(path)

    def _files(self, start: Path) -> Iterator[Path | DocumentError]:
        """Yield the files at or below ``start`` by name; each folder once, whatever links to it."""
        seen: set[tuple[int, int]] = set()
        pending = [(start, Rules())]
        while pending:
            path, rules = pending.pop()
            try:
                status = path.stat()
                if not stat.S_ISDIR(status.st_mode):
                    yield path
                    continue
                if (status.st_dev, status.st_ino) in seen:
                    continue
                seen.add((status.st_dev, status.st_ino))
                names = sorted(os.listdir(path))
            except OSError as error:
                yield unreadable(printable_path(path), error)
                continue
            if holds_library(names):
                self.notes.skip(printable_path(path), "a library of drt")
                continue
            visible = [name for name in names if not name.startswith(".")]
            if len(visible) < len(names):
                self.notes.skip(HIDDEN, _HIDDEN_WHY, len(names) - len(visible))
            rules = rules.within(path, names)
            paths = [path / name for name in visible if not self._leaves_out(path / name, rules)]
            pending.extend((inner, rules) for inner in reversed(paths))

    def _leaves_out(self, path: Path, rules: Rules) -> bool:
        """Return whether what was found in a folder is left out; note it."""
        if path.name.startswith(OWNER_FILE):
            self.notes.skip("owner file of Office", "made beside a document that is open")
        elif path.name == PACKAGES and path.is_dir():
            self.notes.skip(f"folder {PACKAGES}", "packages of other people")
        elif rules.ignores(path):
            self.notes.skip("ignored file or folder", f"named in {' or '.join(FILES)}")
        else:
            return False
        return True

    def _from_folder(self, path: Path, *, is_named: bool = False) -> Iterator[SourceOrError]:
        source = Source.from_path(path)
        try:
            status = path.stat()
            plain = stat.S_ISREG(status.st_mode)
            if plain and status.st_size == 0 and os.access(path, os.R_OK):
                self.notes.skip(source.name, EMPTY)
                return
            document_format = _format(source) if plain else None
            if document_format is not None and not (document_format.in_folders or is_named):
                self.notes.skip("picture", NAMED_ALONE)
                return
            if document_format is None:
                self._pass_over(source.name, UNKNOWN if plain else "a device or pipe")
                self.skipped += 1
                return
        except OSError as error:
            yield unreadable(source.name, error)
            return
        yield from self._opened(source)


class FileExpansion(PathExpansion):
    """Files in order, like their documents: an archive is one source, whose members are not read.

    ``skipped`` and ``notes`` do not count what is in archives.
    """

    def _opened(self, source: SourceOrError) -> Iterator[SourceOrError]:
        yield source


def _format(source: Source) -> Format | None:
    """Return the file's format; open it in any case, so that a missing right to read shows."""
    with source.open():
        return find_format(source)


def is_archive(source: Source) -> bool:
    """Return whether a source holds documents as members; opens it."""
    if source.size == 0:
        return False
    document_format = _format(source)
    return document_format is not None and document_format.archive


def holds_library(names: Iterable[str]) -> bool:
    """Return whether a folder with these names in it is a library, which is no document."""
    return _LIBRARY_ENTRIES.issubset(names)


def expand_paths(arguments: Sequence[str], *, stdin: BinaryIO | None = None) -> PathExpansion:
    """Return the documents that ``arguments`` name, in order, with an error for each bad path.

    Folders are walked by name, libraries, hidden files and hidden folders passed over; "-" is
    ``stdin``, or the process's standard input, copied to a temporary file that ``Source.close``
    removes.
    """
    return PathExpansion(arguments, stdin)


def expand_files(arguments: Sequence[str]) -> FileExpansion:
    """Return the files that ``arguments`` name, in order, with an error for each bad path."""
    return FileExpansion(arguments, None)
