"""Says which files of documents have changed since they were read, or are gone."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from ._options import Settings
from ._output import note

if TYPE_CHECKING:
    from drt import Library


_MOST = 10  # files that are named


def note_changed(settings: Settings, library: Library, documents: Iterable[str]) -> None:
    """Say on stderr which files of cited documents have changed, or are gone."""
    documents = list(documents)
    for source in library.changed_files(documents):
        name = _from_here(source)
        note(
            settings,
            f"{name} has changed since it was read; drt ingest {shlex.quote(name)} reads it again.",
        )

    for source in library.missing_files(documents):
        name = _from_here(source)
        note(settings, f"{name} is not there any more; the answer is from what was read of it.")


def note_missing(settings: Settings, library: Library, paths: Sequence[str]) -> None:
    """Say on stderr which documents of some folders have no file any more."""
    folders = [Path(path).absolute() for path in paths if Path(path).is_dir()]
    if not folders or not library.exists():
        return
    documents = [
        document
        for document in library.documents()
        if any(folder in PurePath(document.source).parents for folder in folders)
    ]
    missing = library.missing_files(documents)
    for source in missing[:_MOST]:
        name = _from_here(source)
        note(settings, f"{name} is gone; drt library remove {shlex.quote(name)} forgets it.")
    if len(missing) > _MOST:
        note(settings, f"{len(missing) - _MOST} more files of documents are gone.")


def _from_here(source: str) -> str:
    """Return a path as it may be typed in the current folder."""
    path, here = PurePath(source), PurePath(os.getcwd())
    return str(path.relative_to(here)) if path.is_relative_to(here) else source
