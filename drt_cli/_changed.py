"""Says which files of cited documents have changed since they were read."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from pathlib import PurePath
from typing import TYPE_CHECKING

from ._options import Settings
from ._output import note

if TYPE_CHECKING:
    from drt import Library


def note_changed(settings: Settings, library: Library, documents: Iterable[str]) -> None:
    """Say on stderr which files of cited documents have changed since they were read."""
    for source in library.changed_files(documents):
        name = _from_here(source)
        note(
            settings,
            f"{name} has changed since it was read; drt ingest {shlex.quote(name)} reads it again.",
        )


def _from_here(source: str) -> str:
    """Return a path as it may be typed in the current folder."""
    path, here = PurePath(source), PurePath(os.getcwd())
    return str(path.relative_to(here)) if path.is_relative_to(here) else source
