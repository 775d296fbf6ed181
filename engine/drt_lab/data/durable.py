"""Writes files that survive a power failure; knows nothing of their contents."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from drt_engine.files import flush_path, lock, unlock


@contextlib.contextmanager
def alone_with(path: Path) -> Iterator[None]:
    """Let one process at a time read a file and write it again; others wait.

    A file beside it, ``.NAME.lock``, is locked and stays: what is written replaces the file itself.
    """
    with path.with_name(f".{path.name}.lock").open("ab") as file:
        lock(file, wait=True)
        try:
            yield
        finally:
            unlock(file)


def write_whole(path: Path, text: str) -> None:
    """Write a file under another name and rename it: there is all of it, or what was before."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    flush_path(part)
    part.replace(path)
    flush_path(path.parent)
