"""A library on disk without its model: list, show, remove, check, and its stored sessions.

Imports neither torch nor a model; reading and asking are `_assistant.py`'s.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _convert, _engine
from ._errors import LibraryError, engine_errors
from ._paths import default_library
from ._types import DocumentInfo, Finding, SessionInfo, Turn

if TYPE_CHECKING:
    from drt_engine.store import Store


class Library:
    """The documents and sessions stored in one folder.

    `path` defaults to `default_library()`. The folder is opened for each call and closed after it,
    so a `Library` can be shared by threads and needs no closing. A second writer waits
    `lock_timeout` seconds.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, lock_timeout: float = 10.0
    ) -> None:
        self.path = default_library() if path is None else Path(path)
        self.lock_timeout = lock_timeout

    def __repr__(self) -> str:
        return f"Library({str(self.path)!r})"

    def exists(self) -> bool:
        """Whether there is anything at the path; opening it says whether that is a library."""
        if self.path.is_dir():
            return any(self.path.iterdir())
        return self.path.exists()

    def documents(self) -> list[DocumentInfo]:
        """The documents that can be asked; none where there is no library yet."""
        if not self.exists():
            return []
        with self._open() as store:
            return [_convert.document(row) for row in store.documents()]

    def show(self, document: str | DocumentInfo) -> DocumentInfo:
        """One document by id, the start of an id, title or source; `NotFoundError` without."""
        with self._open() as store:
            return _convert.document(store.document(document_name(document)))

    def text(self, document: str | DocumentInfo, start: int = 0, end: int | None = None) -> str:
        """The document's text from character `start` to `end`: what citations point into."""
        with self._open() as store:
            row = store.document(document_name(document))
            last = row.characters if end is None else min(end, row.characters)
            return store.text(row.id, start, last)

    def remove(self, document: str | DocumentInfo) -> DocumentInfo:
        """Removes a document and what was stored for it; returns what was removed."""
        with self._open() as store:
            row = store.document(document_name(document))
            store.remove_document(row.id)
            return _convert.document(row)

    def check(self) -> list[Finding]:
        """Compares catalogue and files; an empty list means that all is well."""
        with self._open() as store:
            return [
                Finding(
                    kind=one.kind,
                    where=one.where,
                    message=one.message,
                    severity=one.severity,
                )
                for one in store.check()
            ]

    def stats(self) -> dict[str, Any]:
        """Counts and sizes of the library, by name."""
        with self._open() as store:
            return dict(store.stats())

    def sessions(self) -> list[SessionInfo]:
        """The stored sessions; none where there is no library yet."""
        if not self.exists():
            return []
        with self._open() as store:
            return [
                SessionInfo(name=one.name, turns=one.turns, updated=one.updated)
                for one in store.sessions()
            ]

    def session_turns(self, name: str) -> tuple[Turn, ...]:
        """What was said in a stored session."""
        with self._open() as store:
            return _convert.turns(store.load_session(name).transcript)

    def rename_session(self, name: str, new_name: str) -> None:
        """Gives a stored session another name, which must be free."""
        with self._open() as store:
            store.rename_session(name, new_name)

    def delete_session(self, name: str) -> None:
        """Deletes a stored session for good."""
        with self._open() as store:
            store.delete_session(name)

    @contextmanager
    def _open(self) -> Iterator[Store]:
        if not self.exists():
            raise LibraryError(
                f"there is no library at {self.path}; reading a document into it makes one."
            )
        with (
            engine_errors(),
            _engine.open_catalogue(self.path, lock_timeout=self.lock_timeout) as store,
        ):
            yield store


def document_name(document: str | DocumentInfo) -> str:
    """The name to look a document up by."""
    return document.id if isinstance(document, DocumentInfo) else document
