"""Writes files that survive a power failure; knows nothing of their contents."""

from __future__ import annotations

from pathlib import Path

from drt_engine.files import flush_path


def write_whole(path: Path, text: str) -> None:
    """Write a file under another name and rename it: there is all of it, or what was before."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    flush_path(part)
    part.replace(path)
    flush_path(path.parent)
