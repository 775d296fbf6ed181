"""Keeps a library in step with folders by looking again and again; no service of the system.

A file is read once it has not changed between two looks, so that none is read half-written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from . import _engine
from ._errors import DocumentError, UnsupportedFormatError, engine_errors
from ._types import DocumentInfo, IngestProgress, WatchEvent

if TYPE_CHECKING:
    from ._assistant import Assistant
    from ._library import Library

SETTLED = 2.0  # seconds since its last change after which a file is not being written any more
Stamp = tuple[int, int]


class Watch:
    """The state of watched folders; ``poll`` checks them once and updates the library."""

    def __init__(
        self,
        assistant: Assistant,
        folders: Sequence[Path],
        *,
        tags: Sequence[str] = (),
        progress: Callable[[IngestProgress], None] | None = None,
    ) -> None:
        self._assistant = assistant
        self._folders = [Path(os.path.abspath(folder)) for folder in folders]
        self._tags = tags
        self._progress = progress
        self._done: dict[Path, Stamp] = {}
        self._waiting: dict[Path, Stamp] = {}
        for folder in self._folders:
            if not folder.is_dir():
                raise DocumentError(f"{folder} is not a folder; name one that is there to watch.")

    def poll(self) -> Iterator[WatchEvent]:
        """Read new and changed files, remove documents of deleted ones; yield an event for each."""
        seen = {file: stamp for folder in self._folders for file, stamp in _files(folder)}
        now = time.time_ns()
        for file, stamp in seen.items():
            if self._done.get(file) == stamp:
                continue
            quiet = now - stamp[0] > SETTLED * 1e9
            if quiet or self._waiting.get(file) == stamp:
                self._waiting.pop(file, None)
                self._done[file] = stamp
                yield from self._read(file)
            else:
                self._waiting[file] = stamp
        self._done = {file: stamp for file, stamp in self._done.items() if file in seen}
        self._waiting = {file: stamp for file, stamp in self._waiting.items() if file in seen}
        yield from self._remove_lost({os.fspath(file) for file in seen})

    def _read(self, file: Path) -> Iterator[WatchEvent]:
        read = self._assistant.ingest_each([file], tags=self._tags, progress=self._progress)
        for result in read:
            if result.document is not None:
                if result.document.new:
                    yield WatchEvent("read", result.source, result.document)
            elif result.error is not None and not isinstance(result.error, UnsupportedFormatError):
                yield WatchEvent("failed", result.source, None, str(result.error))

    def _remove_lost(self, present: set[str]) -> Iterator[WatchEvent]:
        """Remove the documents whose files are gone; those that are ``present`` are not asked."""
        for document in self._assistant.library.documents():
            if document.source in present:
                continue
            if any(_lost(Path(document.source), folder) for folder in self._folders):
                if _keep_copy(self._assistant.library, document):
                    continue
                self._assistant.library.remove(document)
                yield WatchEvent("removed", document.source, document)


def _keep_copy(library: Library, document: DocumentInfo) -> bool:
    """Give a document whose file is gone the place of a copy; return False where there is none."""
    with (
        engine_errors(),
        _engine.open_catalogue(library.path, lock_timeout=library.lock_timeout) as store,
    ):
        copies = _engine.other_files(store, document.id, document.source)
        if copies:
            store.rename_source(document.id, copies[0])
        return bool(copies)


def _files(folder: Path) -> Iterator[tuple[Path, Stamp]]:
    """Yield the files below a folder with time and size; hidden ones and libraries are left out."""
    for root, folders, names in os.walk(folder):
        if _engine.holds_library([*folders, *names]):
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            file = Path(root, name)
            try:
                status = file.stat()
            except OSError:
                continue  # gone again, or a link that leads nowhere
            if not name.startswith("."):
                yield file, (status.st_mtime_ns, status.st_size)


def _lost(source: Path, folder: Path) -> bool:
    """Return whether a document of this folder has no file any more.

    Not where the whole folder is away, such as a disk that is not mounted, and not where the
    document lies inside a file, such as an archive.
    """
    if folder not in source.parents or not folder.is_dir() or os.path.exists(source):
        return False
    above = next(parent for parent in source.parents if os.path.exists(parent))
    return above.is_dir()
