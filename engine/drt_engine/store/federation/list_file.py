"""Lists of libraries as files: small JSON, versioned, with folders and other lists.

A folder is relative to the list's own folder, so that a list can be moved together with its
libraries.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from drt_engine.errors import StoreError
from drt_engine.store.filesystem.disk import open_plain
from drt_engine.store.filesystem.library_folder import expect_outside

KIND, VERSION = "drt libraries", 1
_LARGEST = 1 << 20  # bytes
_MOST = 4096  # libraries


def library_folders(paths: Iterable[Path]) -> list[Path]:
    """Return the folders that paths and the lists among them name, each once, in order.

    Raises ``StoreError`` for a damaged list, and for one that lists itself.
    """
    folders: dict[str, Path] = {}
    for path in paths:
        for folder in _expanded(path, ()):
            folders.setdefault(os.path.realpath(folder), folder)
    return list(folders.values())


def is_list(path: Path) -> bool:
    """Return whether a path can only be a list: a library is a folder."""
    return path.is_file()


def write_list(file: Path, libraries: Sequence[Path]) -> None:
    """Write a list of libraries whole or not at all; an older list is replaced.

    Raises ``StoreError`` where ``file`` is something else, and where it cannot be written.
    """
    expect_outside(file)
    if file.exists():
        read_list(file)
    folder = file.absolute().parent
    entries = []
    for library in libraries:
        path = library.absolute()
        inside = path.is_relative_to(folder)
        entries.append(str(path.relative_to(folder) if inside else path))
    text = json.dumps({"kind": KIND, "version": VERSION, "libraries": entries}, indent=2)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with contextlib.ExitStack() as cleanup:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            cleanup.callback(draft.unlink, missing_ok=True)
            with open(descriptor, "w", encoding="utf-8") as stream:
                stream.write(f"{text}\n")
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(draft, file)
    except (OSError, UnicodeError) as error:
        raise StoreError(f"cannot write the list {file} ({error}): check the folder") from error


def read_list(file: Path) -> list[Path]:
    """Return the paths in a list, as they are to be opened; ``StoreError`` for a damaged one."""
    try:
        with open(open_plain(file, os.O_RDONLY, follow=True), "rb") as stream:
            data = stream.read(_LARGEST + 1)
    except OSError as error:
        raise StoreError(f"cannot read {file} ({error.strerror}): check the file") from error
    try:
        value = json.loads(data) if len(data) <= _LARGEST else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or value.get("kind") != KIND:
        raise StoreError(
            f"{file} is neither a library's folder nor a whole list of libraries: name a folder, or"
            " write a list with `drt library federate FILE LIBRARY...`"
        )
    version, entries = value.get("version"), value.get("libraries")
    if type(version) is int and version > VERSION:
        raise StoreError(
            f"the list {file} has version {version} and this program knows {VERSION}: use the newer"
            " drt that wrote it"
        )
    if version != VERSION or not isinstance(entries, list) or not 1 <= len(entries) <= _MOST:
        raise _damaged(file, f"expected version {VERSION} and 1 to {_MOST} libraries")
    for entry in entries:
        if not isinstance(entry, str) or not entry.strip() or "\0" in entry:
            raise _damaged(file, f"{entry!r:.40} is no path")
    return [file.parent / entry for entry in entries]


def _expanded(path: Path, outer: tuple[str, ...]) -> Iterator[Path]:
    """Yield the folders that a path names; ``outer`` are the lists around it."""
    if not is_list(path):
        yield path
        return
    name = os.path.realpath(path)
    if name in outer:
        raise StoreError(
            f"the list {path} lists itself: write it again with `drt library federate FILE"
            " LIBRARY...`, naming only libraries"
        )
    for entry in read_list(path):
        yield from _expanded(entry, (*outer, name))


def _damaged(file: Path, problem: str) -> StoreError:
    return StoreError(
        f"the list {file} is damaged ({problem}): write it again with `drt library federate FILE"
        " LIBRARY...`"
    )
