"""Paths as they are named, and where the default library is; creates nothing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

StrPath = str | os.PathLike[str]


def named_libraries(text: str) -> tuple[Path, ...]:
    """Return the folder that a text names, or several that ``os.pathsep`` separates."""
    if os.path.exists(text):
        return (Path(text),)
    return tuple(Path(part) for part in text.split(os.pathsep) if part) or (Path(text),)


def default_library() -> Path:
    """Return ``DRT_LIBRARY`` if set, else a folder under the platform's data directory."""
    named = os.environ.get("DRT_LIBRARY")
    if named:
        return Path(named)
    from platformdirs import user_data_dir

    return Path(user_data_dir("drt", appauthor=False)) / "library"


def listed_paths(paths: StrPath | Iterable[StrPath]) -> list[StrPath]:
    """Return several paths, or one, as a list."""
    return [paths] if isinstance(paths, str | os.PathLike) else list(paths)


def uploads_folder(library: Path) -> Path:
    """Return the folder of the files that a server of a library receives, and of PDFs it keeps."""
    path = library.absolute()
    return path.with_name(f"{path.name}.uploads")


def delete_upload(library: Path, source: str) -> None:
    """Delete the file of a document that a server received and kept; other files are not ours."""
    if Path(source).parent == uploads_folder(library):
        with contextlib.suppress(OSError):
            Path(source).unlink()
